// What the native fuzzers share: kept inputs are replayed, then changed ones are tried until the time is over, from a
// fixed seed. A finding is what a sanitizer reports, an exception that a target does not expect, a check that fails, an
// input that takes longer than kSlowest, or more memory than kMostMemory; the input is left in <name>.input.
// Arguments: seconds (or CLICKLINE_FUZZ_SECONDS; 2), seed (or CLICKLINE_FUZZ_SEED; 1). Given files, tries those only;
// `--keep` puts the inputs that are made here into the corpus instead.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

#ifndef CLICKLINE_CORPUS
#error "CLICKLINE_CORPUS is the directory of the kept inputs"
#endif

#if defined(__SANITIZE_ADDRESS__)
// What is announced by an input must not be allocated before it is there.
extern "C" inline const char *__asan_default_options() { return "max_allocation_size_mb=512:hard_rss_limit_mb=2048"; }
#endif

namespace clickline::testing {

using Random = std::mt19937_64;
using FuzzClock = std::chrono::steady_clock;
inline constexpr auto kSlowest = std::chrono::seconds(30);
inline constexpr long kMostMemory = long{2} << 20;  // KiB, sanitizers' own included

inline std::string bytes_of(const std::filesystem::path &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void keep_bytes(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

template <class T>
void put(std::string &bytes, size_t at, T value) {
  if (at + sizeof value <= bytes.size()) std::memcpy(&bytes[at], &value, sizeof value);
}

// One change; `front` bytes are changed more often than the rest.
inline void mutate(std::string &bytes, Random &random, size_t front = 128) {
  const uint64_t numbers[] = {0, 1, 0x7FFFFFFF, 0xFFFFFFFF, uint64_t{1} << 32, uint64_t{1} << 61, ~uint64_t{0},
                              bytes.size()};
  const size_t at = bytes.empty() ? 0 : random() % (random() % 2 ? bytes.size() : std::min(bytes.size(), front));
  switch (random() % 10) {
    case 0: case 1: put(bytes, at, static_cast<char>(random())); break;
    case 2: if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8)); break;
    case 3: put(bytes, at / 8 * 8, numbers[random() % 8]); break;
    case 4: put(bytes, at / 4 * 4, static_cast<uint32_t>(numbers[random() % 8])); break;
    case 5: put(bytes, at / 8 * 8, random()); break;
    case 6: put(bytes, at / 4 * 4, static_cast<uint32_t>(random() % 300)); break;
    case 7: put(bytes, at, static_cast<uint16_t>(numbers[random() % 8])); break;
    case 8: if (random() % 8 == 0) bytes.resize(at); break;
    default: if (random() % 8 == 0) bytes.insert(at, bytes.substr(random() % 2 ? at : 0, random() % 256));
  }
}

struct Fuzzer {
  std::string name;
  std::vector<std::string> made{};                             // inputs beside those of the corpus
  std::function<bool(const std::string &)> attempt{};          // whether it was accepted
  std::function<void(std::string &, Random &)> change{};       // else a few calls of mutate
  std::function<void()> finish{};                              // last checks

  std::string file() const { return name + ".input"; }

  int run(int argc, char **argv) {
    const std::filesystem::path corpus = std::filesystem::path(CLICKLINE_CORPUS) / name;
    std::vector<std::string> kept;
    const bool replay = argc > 1 && std::filesystem::is_regular_file(argv[1]);
    for (int i = 1; replay && i < argc; ++i) kept.push_back(bytes_of(argv[i]));
    if (!replay && std::filesystem::is_directory(corpus)) {
      std::vector<std::filesystem::path> paths;
      for (const auto &entry : std::filesystem::directory_iterator(corpus))
        if (entry.path().extension() != ".md") paths.push_back(entry.path());
      std::sort(paths.begin(), paths.end());
      for (const auto &path : paths) kept.push_back(bytes_of(path));
    }
    for (size_t i = 0; argc > 1 && !std::strcmp(argv[1], "--keep") && i <= made.size(); ++i) {
      if (i == made.size()) return 0;
      std::filesystem::create_directories(corpus);
      keep_bytes((corpus / ("made-" + std::to_string(10 + i))).string(), made[i]);
    }
    if (!replay) kept.insert(kept.end(), made.begin(), made.end());
    const char *wanted = argc > 1 ? argv[1] : std::getenv("CLICKLINE_FUZZ_SECONDS");
    const double seconds = replay ? 0 : wanted ? std::atof(wanted) : 2;
    const char *chosen = argc > 2 ? argv[2] : std::getenv("CLICKLINE_FUZZ_SEED");
    Random random(chosen ? std::strtoull(chosen, nullptr, 10) : 1);
    const auto start = FuzzClock::now();
    auto passed = [&] { return std::chrono::duration<double>(FuzzClock::now() - start).count(); };
    std::thread watchdog([this] { watch(); });
    for (const std::string &bytes : kept) one(bytes);
    while (passed() < seconds) {
      std::string bytes = kept[random() % kept.size()];
      if (change)
        change(bytes, random);
      else
        for (uint64_t changes = 1 + random() % 6; changes; --changes) mutate(bytes, random);
      one(bytes);
    }
    done_ = true;
    watchdog.join();
    if (finish) finish();
    std::remove(file().c_str());
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::printf("fuzz %s: %zu inputs, %zu accepted, %zu refused, %.1f s, peak memory %ld MiB\n", name.c_str(), inputs_,
                accepted_, inputs_ - accepted_, passed(), usage.ru_maxrss >> 10);
    if (usage.ru_maxrss <= kMostMemory) return 0;
    std::fprintf(stderr, "fuzz %s: more than %ld MiB of memory\n", name.c_str(), kMostMemory >> 10);
    return 1;
  }

  // --- of the driver's own ---

  void one(const std::string &bytes) {
    keep_bytes(file(), bytes);
    ++inputs_;
    accepted_ += attempt(bytes);
    ++finished_;
  }

  void watch() {
    size_t seen = 0;
    auto since = FuzzClock::now();
    while (!done_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (const size_t now = finished_; now != seen) seen = now, since = FuzzClock::now();
      if (FuzzClock::now() - since < kSlowest) continue;
      std::fprintf(stderr, "fuzz %s: an input takes longer than %lld s; it is in %s\n", name.c_str(),
                   static_cast<long long>(kSlowest.count()), file().c_str());
      std::abort();
    }
  }

  size_t inputs_ = 0, accepted_ = 0;
  std::atomic<size_t> finished_{0};
  std::atomic<bool> done_{false};
};

}  // namespace clickline::testing
