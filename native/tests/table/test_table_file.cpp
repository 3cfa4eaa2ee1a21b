// Table files: what was saved is what is loaded, and no file, however garbled, does more than throw.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>

#include "table/draws.h"
#include "table/file/sections.h"
#include "table/table_testing.h"

using namespace clickline::base;
using namespace clickline::table;
using namespace clickline::testing;

namespace {

const std::string kPath = "test_table_file.tmp";

// One thread at a time here, so the thread sanitizer has little to find and much to slow down.
#if defined(__SANITIZE_THREAD__)
constexpr int kTries = 100;
#else
constexpr int kTries = 2000;
#endif

TableConfig settings() {
  TableConfig result = config("adam", 3);
  result.policies = {Policy{}, Policy{.count = 5}};
  return result;
}

std::string read_file(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_file(const std::string &path, const std::string &bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

void train(Table &table, uint64_t from, uint64_t to, uint32_t tick) {
  std::vector<uint64_t> keys, rare;
  for (uint64_t i = from; i < to; ++i) (i % 4 ? keys : rare).push_back(mix64(i));
  table.push(Arrays(keys, 3, 0.5f).at(tick), 1);
  table.push(Arrays(rare, 3, 0.25f, 1).at(tick), 1);
}

bool loads(Table &table, const std::string &bytes) {
  write_file(kPath, bytes);
  try {
    table.load(kPath, 0, kBuckets);
  } catch (const TableFileError &) {
    return false;
  }
  return true;
}

void comes_back_as_it_was() {
  Table table(settings()), copy(settings()), halves(settings());
  train(table, 0, 4000, 1);
  train(table, 2000, 5000, 2);
  table.save(kPath);
  const std::string bytes = read_file(kPath);
  copy.load(kPath, 0, kBuckets);
  halves.load(kPath, 1111, kBuckets);
  halves.load(kPath, 0, 1111);
  CHECK(contents(copy) == contents(table) && contents(halves) == contents(table));
  CHECK(copy.step() == table.step() && copy.memory().waiting == table.memory().waiting);
  for (Table *each : {&table, &copy, &halves}) {
    for (uint32_t tick = 3; tick < 6; ++tick) train(*each, 1000, 6000, tick);
    each->save(kPath);
  }
  const std::string later = read_file(kPath);
  copy.save(kPath);
  CHECK(read_file(kPath) == later && later != bytes);
  table.save(kPath);
  CHECK(read_file(kPath) == later);
}

void cut_anywhere_is_refused(const std::string &bytes) {
  std::mt19937_64 random(1);
  Table table(settings());
  for (int i = 0; i < 100 + kTries / 10; ++i) {
    const size_t length = i < 100 ? static_cast<size_t>(i) : random() % bytes.size();
    CHECK(!loads(table, bytes.substr(0, length)));
    CHECK(table.size() == 0);
  }
  CHECK(!loads(table, bytes + '\0'));
  CHECK(loads(table, bytes));
}

void flip(std::string &bytes, size_t at, std::mt19937_64 &random) {
  bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
}

void flipped_bits_are_refused(const std::string &bytes) {
  std::mt19937_64 random(2);
  Table table(settings());
  train(table, 1000000, 1000002, 9);  // a failed load must leave these alone
  const auto before = contents(table);
  for (int i = 0; i < kTries; ++i) {
    std::string bad = bytes;
    flip(bad, random() % (i % 2 ? bad.size() : kPreamble + 200), random);
    CHECK(!loads(table, bad));
    CHECK(contents(table) == before);
  }
}

// Checksums keep accidents out, not attackers, who can make them right again.
void sign_header(std::string &bytes) {
  const uint64_t checksum = xxh64({&bytes[kPreamble], load64(&bytes[16])}, 0);
  std::memcpy(&bytes[24], &checksum, 8);
}

void sign_buckets(std::string &bytes) {
  const uint64_t length = load64(&bytes[16]);
  TableHeader header = TableHeader::parse({&bytes[kPreamble], length});
  SectionPlan plan(header, kPreamble + length);
  for (uint32_t b = 0; b < kBuckets; ++b) {
    uint64_t checksum = 0;
    for (int s = 0; s < kSections; ++s) {
      const uint64_t count = SectionPlan::waits(s) ? header.bucket_waiting[b] : header.bucket_rows[b];
      checksum = xxh64({&bytes[plan.begin[s]], count * plan.width[s]}, checksum);
      plan.begin[s] += count * plan.width[s];
    }
    header.checksums[b] = checksum;
  }
  bytes.replace(kPreamble, length, header.text());
  sign_header(bytes);
}

// The load may succeed or throw; the sanitizers must have nothing to say, and no key may be lost or doubled.
void forged_files_do_no_harm(const std::string &bytes) {
  std::mt19937_64 random(3);
  const uint64_t length = load64(&bytes[16]);
  int loaded = 0;
  for (int i = 0; i < kTries; ++i) {
    std::string bad = bytes;
    for (uint64_t flips = 1 + random() % 3; flips; --flips) {
      if (i % 2) {
        flip(bad, kPreamble + length + random() % (bytes.size() - kPreamble - length), random);
      } else {
        bad[kPreamble + random() % (random() % 2 ? length : 20000)] = "0123456789,:[]{}\" abcdef"[random() % 24];
      }
    }
    i % 2 ? sign_buckets(bad) : sign_header(bad);
    Table table(settings());
    loaded += loads(table, bad);
    const std::vector<uint64_t> keys = table.keys();
    CHECK(keys.size() == table.size());
    CHECK(contents(table).size() == keys.size());
  }
  CHECK(loaded > kTries / 20 && loaded < kTries - kTries / 20);  // it reached both the good end and the bad ones
}

void headers_are_read_strictly() {
  TableHeader header;
  header.dim = 3, header.states = 2, header.optimizer = "adam";
  for (auto *list : {&header.bucket_rows, &header.bucket_waiting, &header.checksums}) list->assign(kBuckets, 0);
  const std::string good = header.text();
  TableHeader::parse(good);
  auto refused = [&](const std::string &from, const std::string &to) {
    std::string text = good;
    const size_t at = text.find(from);
    CHECK(at != std::string::npos);
    text.replace(at, from.size(), to);
    try {
      TableHeader::parse(text);
    } catch (const TableFileError &) {
      return true;
    }
    return false;
  };
  CHECK(!refused("\"dim\":3", "\"dim\" : 4"));
  CHECK(refused("\"dim\":3", "\"dim\":3,\"dim\":3"));
  CHECK(refused("\"dim\":3", "\"dim\":-3"));
  CHECK(refused("\"dim\":3", "\"dim\":3.0"));
  CHECK(refused("\"dim\":3", "\"dim\":03"));
  CHECK(refused("\"dim\":3", "\"dim\":99999999999999999999999"));
  CHECK(refused("\"dim\":3", "\"dam\":3"));
  CHECK(refused("\"dim\":3,", ""));
  CHECK(refused("\"rows\":0", "\"rows\":1"));
  CHECK(refused("[0,", "[1,"));
  CHECK(refused("[0,", "["));
  CHECK(refused("[0,", "[0,0,"));
  CHECK(refused("[\"0", "[\"g"));
  CHECK(refused("[\"0", "[\""));
  CHECK(refused("\"]}", "\"]}{"));
}

void refuses_tables_that_differ() {
  for (TableConfig other : {config("adam", 4), config("ftrl", 3), config("adamw", 3)}) {
    Table table(other);
    CHECK(!loads(table, read_file(kPath)));
  }
  TableConfig other = settings();
  other.seed = 1;
  Table table(other);
  CHECK(!loads(table, read_file(kPath)));
}

void sizes_that_no_file_can_have_are_refused() {
  TableHeader header;
  header.dim = 4096, header.states = 2, header.rows = 100, header.waiting = 7;
  CHECK(SectionPlan(header, 64).end == 64 + 100 * (8 + 8 + 4 + 4096 * 4 + 4096 * 8 + 2) + 7 * (8 + 4 + 2 + 2));
  for (const auto &[rows, waiting, dim, states] :
       std::vector<std::tuple<uint64_t, uint64_t, uint32_t, uint32_t>>{{uint64_t{1} << 52, 0, 4096, 2},
                                                                       {0, uint64_t{1} << 61, 1, 1},
                                                                       {~uint64_t{0}, ~uint64_t{0}, 1, 1},
                                                                       {uint64_t{1} << 36, 0, ~0u, ~0u},
                                                                       {1, 0, ~0u, ~0u},
                                                                       {uint64_t{1} << 60, 0, 1, 0}}) {
    header.rows = rows, header.waiting = waiting, header.dim = dim, header.states = states;
    bool refused = false;
    try {
      SectionPlan(header, 64);
    } catch (const TableFileError &) {
      refused = true;
    }
    CHECK(refused);
  }
}

}  // namespace

int main() {
  sizes_that_no_file_can_have_are_refused();
  comes_back_as_it_was();
  headers_are_read_strictly();
  Table small(settings());
  train(small, 0, 300, 1);
  small.save(kPath);
  const std::string bytes = read_file(kPath);
  refuses_tables_that_differ();
  cut_anywhere_is_refused(bytes);
  flipped_bits_are_refused(bytes);
  forged_files_do_no_harm(bytes);
  std::remove(kPath.c_str());
  std::puts("table file: identity, determinism, truncation, flipped bits, forged headers: good");
}
