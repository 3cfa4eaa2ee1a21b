// Throws changed dictionary files at the reader: those of corpus/dictionary and some made here, with bytes flipped,
// numbers replaced by ones that overflow, pieces cut, doubled and swapped, and (mostly) the header's hash made right
// again. Whatever opens is read in every way. A finding is whatever a sanitizer reports, or an exception that is not
// DictionaryError; the file is left beside for reproducing.
// Arguments: seconds (or CLICKLINE_FUZZ_SECONDS; 3), seed (1). Given a file, reads that one only.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "dictionary_testing.h"

using namespace clickline;
using namespace clickline::testing;

namespace {

const std::string kFile = "fuzz_dictionary.input", kScratch = "fuzz_dictionary.scratch";

std::vector<std::string> seeds() {
  std::vector<std::string> result;
  if (std::filesystem::is_directory(CLICKLINE_CORPUS))
    for (const auto &entry : std::filesystem::directory_iterator(CLICKLINE_CORPUS))
      result.push_back(read_file(entry.path().string()));
  for (const size_t count : {0, 1, 9, 200})
    for (const uint32_t row_bytes : {0u, 8u, 64u}) {
      write(kScratch, random_rows(count, row_bytes, count, count > 1), shape(row_bytes));
      result.push_back(read_file(kScratch));
    }
  write(kScratch, random_rows(100, 8, 1, true), shape(8, 1000, 1017));
  result.push_back(read_file(kScratch));
  return result;
}

template <class T>
void put(std::string &bytes, size_t at, T value) {
  if (at + sizeof value <= bytes.size()) std::memcpy(&bytes[at], &value, sizeof value);
}

void mutate(std::string &bytes, std::mt19937_64 &random) {
  const uint64_t numbers[] = {0, 1, 0x7FFFFFFF, 0xFFFFFFFF, uint64_t{1} << 32, uint64_t{1} << 61, ~uint64_t{0},
                              bytes.size()};
  const size_t at = bytes.empty() ? 0 : random() % (random() % 2 ? bytes.size() : std::min<size_t>(bytes.size(), 128));
  switch (random() % 8) {
    case 0: case 1: put(bytes, at, static_cast<char>(random())); break;
    case 2: put(bytes, at / 8 * 8, numbers[random() % 8]); break;
    case 3: put(bytes, at / 4 * 4, static_cast<uint32_t>(numbers[random() % 8])); break;
    case 4: put(bytes, at / 8 * 8, random()); break;
    case 5: put(bytes, at / 4 * 4, static_cast<uint32_t>(random() % 300)); break;
    case 6: if (random() % 8 == 0) bytes.resize(at); break;
    default: if (random() % 8 == 0) bytes.insert(at, bytes.substr(at, random() % 256));
  }
}

// True if it was a dictionary to the reader.
bool try_file(const std::string &path, bool memory, bool merge) {
  try {
    const std::shared_ptr<const Dictionary> d = Dictionary::open({.path = path, .memory = memory});
    std::vector<uint64_t> keys(d->keys().begin(), d->keys().begin() + std::min<size_t>(d->keys().size(), 300));
    for (uint64_t i = 0; i < 50; ++i) keys.push_back(key_of((i << 58) - (i & 1)));
    use(d, keys, merge ? kScratch : "");
    d->verify();
    return true;
  } catch (const DictionaryError &) {
    return false;
  }
}

}  // namespace

int main(int argc, char **argv) {
  if (argc > 1 && std::filesystem::is_regular_file(argv[1])) return try_file(argv[1], false, true) ? 0 : 1;
  const char *wanted = argc > 1 ? argv[1] : std::getenv("CLICKLINE_FUZZ_SECONDS");
  const double seconds = wanted ? std::atof(wanted) : 3;
  std::mt19937_64 random(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
  const std::vector<std::string> from = seeds();
  const auto start = std::chrono::steady_clock::now();
  size_t tries = 0, opened = 0;
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds) {
    std::string bytes = from[random() % from.size()];
    for (uint64_t changes = 1 + random() % 6; changes; --changes) mutate(bytes, random);
    if (bytes.size() >= kDictionaryHeader && random() % 8) sign(bytes);
    write_file(kFile, bytes);
    ++tries;
    opened += try_file(kFile, random() % 2, tries % 16 == 0);
  }
  std::remove(kFile.c_str());
  std::remove(kScratch.c_str());
  std::printf("dictionary fuzzer: %zu files, %zu of them sound: no finding\n", tries, opened);
}
