// Dictionaries: every key finds what was written, merging is what layers say, and no file does more than throw.
#include <cstdio>
#include <thread>

#include "dictionary/row_encoding.h"
#include "check.h"
#include "dictionary/dictionary_testing.h"

using namespace clickline::base;
using namespace clickline::dictionary;
using namespace clickline::testing;

namespace {

const std::string kPath = "test_dictionary.tmp", kOther = "test_dictionary_other.tmp";
const std::string kMade = "test_dictionary_made.tmp";

#if defined(__SANITIZE_THREAD__)
constexpr size_t kTries = 20, kRows = 3000;
#else
constexpr size_t kTries = 300, kRows = 20000;
#endif

std::shared_ptr<Dictionary> open(const std::string &path, bool memory = false) {
  return Dictionary::open({.path = path, .memory = memory});
}

std::vector<uint64_t> keys_of(const Rows &rows, uint64_t more = 100) {
  std::vector<uint64_t> keys;
  for (const auto &[key, value] : rows) keys.push_back(key);
  for (uint64_t i = 0; i < more; ++i) keys.push_back(i * 0x9E3779B97F4A7C15ull + 1);
  return keys;
}

// `source` says of every key what `rows` say.
template <class Source>
void agrees(const Source &source, const Rows &rows, uint32_t row_bytes, bool layers, int threads = 1) {
  const std::vector<uint64_t> keys = keys_of(rows);
  std::vector<uint8_t> status(keys.size(), 9), found(keys.size(), 9);
  std::vector<std::string_view> values(keys.size());
  const size_t stride = row_bytes + 3;  // rows may lie apart
  std::vector<char> out(keys.size() * stride, 'x');
  source.find(keys, found.data(), values.data());
  if (row_bytes) source.lookup(keys, status.data(), out.data(), stride, threads);
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto row = rows.find(keys[i]);
    const bool has = row != rows.end() && row->second;
    const uint8_t expected = has ? kFound : row != rows.end() && !layers ? kDeleted : kMissing;
    CHECK_EQ(int{found[i]}, int{expected});
    CHECK(values[i] == (has ? *row->second : ""));
    if (!row_bytes) continue;
    CHECK_EQ(int{status[i]}, int{expected});
    CHECK(std::string_view(&out[i * stride], row_bytes) == (has ? *row->second : std::string(row_bytes, '\0')));
    CHECK(std::string_view(&out[i * stride + row_bytes], 3) == "xxx");
  }
}

void every_key_finds_its_row() {
  for (const uint32_t row_bytes : {0u, 1u, 24u, 64u, 100u})
    for (const size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{100}, kRows}) {
      const Rows rows = random_rows(count, row_bytes, count + row_bytes, count != 7, 1 << 20);
      const DictionarySummary facts = write(kPath, rows, shape(row_bytes), 2);
      for (const bool memory : {false, true}) {
        const auto d = open(kPath, memory);
        d->verify();
        CHECK(d->header().count + d->header().deleted == count && facts.bytes == d->file_bytes());
        agrees(*d, rows, row_bytes, false, 2);
        agrees(Layers({d}), rows, row_bytes, true);
      }
    }
}

void keys_at_the_ends_and_keys_that_crowd() {
  Rows rows;
  for (const uint64_t spread : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}, ~uint64_t{0} - 1, uint64_t{1} << 52})
    rows[key_of(spread)] = std::to_string(spread);
  for (uint64_t i = 0; i < 5000; ++i) rows[key_of((uint64_t{77} << 52) + i)] = std::string(4, static_cast<char>(i));
  CHECK_EQ(spread_of(key_of(12345)), 12345u);
  write(kPath, rows, shape(0));
  open(kPath)->verify();
  agrees(*open(kPath), rows, 0, false);
}

void part_of_a_file() {
  const Rows rows = random_rows(300, 8, 1, true);
  write(kPath, rows, shape(8));
  const std::string bytes = read_file(kPath);
  for (const uint64_t offset : {512u, 4096u, 5120u, 1024u * 1024 + 512}) {
    write_file(kOther, std::string(offset, 'z') + bytes + std::string(1000, 'z'));
    for (const bool memory : {false, true}) {
      const auto d = Dictionary::open({kOther, offset, bytes.size(), memory});
      d->verify();
      agrees(*d, rows, 8, false);
    }
  }
  CHECK_THROWS(Dictionary::open({kOther, 0, {}, false}), "CLKDICT");
  CHECK_THROWS(Dictionary::open({kOther, 512, uint64_t{1} << 60, false}), "wanted");
  CHECK_THROWS(Dictionary::open({kOther, uint64_t{1} << 60, {}, false}), "wanted");
  CHECK_THROWS(open("no-such-file"), "no-such-file");
  CHECK_THROWS(open("."), "not a regular file");
}

void layers_are_what_merging_them_gives() {
  for (const uint32_t row_bytes : {0u, 12u}) {
    DictionaryList layers;
    Rows all;
    for (uint64_t i = 0; i < 4; ++i) {
      const Rows rows = random_rows(i ? 400 : 2000, row_bytes, i, i > 0);
      for (const auto &[key, value] : rows) all[key] = value;
      const std::string path = kOther + std::to_string(i);
      write(path, rows, shape(row_bytes));
      layers.push_back(open(path));
    }
    agrees(Layers(layers), all, row_bytes, true, 2);
    merge_dictionaries(kMade, layers, 0, kBuckets, true, 2);
    agrees(*open(kMade), all, row_bytes, false);
    const std::string kept = read_file(kMade);
    write(kPath, all, shape(row_bytes));
    CHECK(read_file(kPath) == kept);
    std::erase_if(all, [](const auto &row) { return !row.second; });
    merge_dictionaries(kMade, layers, 0, kBuckets, false, 1);
    write(kPath, all, shape(row_bytes), 2);
    CHECK(read_file(kPath) == read_file(kMade));
    difference_dictionary(kOther, {layers[0]}, {open(kPath)}, 2);
    merge_dictionaries(kMade, {layers[0], open(kOther)}, 0, kBuckets, false, 1);
    CHECK(read_file(kPath) == read_file(kMade));
    for (uint64_t i = 0; i < 4; ++i) std::remove((kOther + std::to_string(i)).c_str());
  }
}

void cut_and_joined_is_the_same() {
  const Rows rows = random_rows(2000, 16, 3, true);
  write(kPath, rows, shape(16));
  for (const uint32_t shards : {2u, 3u, 7u}) {
    DictionaryList parts;
    for (uint32_t s = 0; s < shards; ++s) {
      const std::string path = kOther + std::to_string(s);
      const uint32_t first = kBuckets * s / shards, last = kBuckets * (s + 1) / shards;
      merge_dictionaries(path, {open(kPath)}, first, last, true, 1);
      parts.push_back(open(path));
      parts.back()->verify();
      write(kMade, rows, shape(16, first, last));
      CHECK(read_file(path) == read_file(kMade));
    }
    merge_dictionaries(kMade, parts, 0, kBuckets, true, 2);
    CHECK(read_file(kMade) == read_file(kPath));
    parts.pop_back();
    CHECK_THROWS(merge_dictionaries(kMade, parts, 0, kBuckets, true, 2), "none of the dictionaries");
    for (uint32_t s = 0; s < shards; ++s) std::remove((kOther + std::to_string(s)).c_str());
  }
}

void refuses_what_cannot_be_written() {
  const std::vector<uint64_t> twice{5, 6, 5}, one{5};
  const std::string values(3, 'x');
  CHECK_THROWS(write_arrays(kPath, shape(1), {twice, {}, values.data(), nullptr}, 2), "key 5 comes twice");
  CHECK_THROWS(write_arrays(kPath, shape(1), {one, one, values.data(), nullptr}, 1), "both written and deleted");
  CHECK_THROWS(write_arrays(kPath, shape(1, 1, 2), {one, {}, values.data(), nullptr}, 1), "bucket");
  CHECK_THROWS(write_arrays(kPath, shape(1, 2, 2), {one, {}, values.data(), nullptr}, 1), "first < last");
  DictionaryHeader wrong = shape(7);
  wrong.dtype = kFp32, wrong.dim = 2;
  CHECK_THROWS(write_arrays(kPath, wrong, {one, {}, values.data(), nullptr}, 1), "8 bytes");
  CHECK_THROWS(write("no-such-directory/file", {}, shape(1)), "no-such-directory/file");
  CHECK_THROWS(write("/dev/full", random_rows(10, 4, 1, false), shape(4)), "/dev/full");
}

void damage_is_found() {
  for (const uint32_t row_bytes : {0u, 5u}) {
    write(kPath, random_rows(40, row_bytes, 4, true), shape(row_bytes));
    const std::string good = read_file(kPath);
    for (size_t at = 0; at < good.size(); ++at) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << at % 8));
      write_file(kPath, bad);
      CHECK_THROWS(open(kPath)->verify(), kPath);
    }
    for (size_t length = 0; length < good.size(); ++length) {
      write_file(kPath, good.substr(0, length));
      CHECK_THROWS(open(kPath), kPath);
    }
    write_file(kPath, good + '\0');
    CHECK_THROWS(open(kPath), "bytes but there are");
  }
}

void forged_files_do_no_harm() {
  std::mt19937_64 random(5);
  size_t opened = 0;
  for (size_t i = 0; i < kTries; ++i) {
    const uint32_t row_bytes = i % 2 ? 0 : 8;
    const Rows rows = random_rows(60, row_bytes, i, true);
    write(kPath, rows, shape(row_bytes));
    std::string bytes = read_file(kPath);
    const size_t from = i % 3 ? kDictionaryHeader : 12, to = i % 3 ? bytes.size() : 72;
    for (uint64_t changes = 1 + random() % 8; changes; --changes)
      bytes[from + random() % (to - from)] = static_cast<char>(random());
    sign(bytes);
    write_file(kPath, bytes);
    try {
      const auto d = open(kPath, i % 5 == 0);
      ++opened;
      use(d, keys_of(rows), kMade);
      if (i % 3) sign_sections(bytes), write_file(kPath, bytes);
      open(kPath)->verify();
    } catch (const DictionaryError &) {
    }
  }
  CHECK(opened > kTries / 3 && opened < kTries);
}

void threads_share_one() {
  const Rows rows = random_rows(kRows / 4, 16, 6, true, 1 << 20);
  write(kPath, rows, shape(16));
  auto d = open(kPath);
  const auto layers = std::make_shared<const Layers>(DictionaryList{d});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, mine = layers] { agrees(*mine, rows, 16, true, 2); });
  d.reset();
  std::remove(kPath.c_str());  // whoever has it open keeps it
  for (std::thread &thread : threads) thread.join();
}

void numbers_come_back() {
  const std::vector<float> rows{0.f, 1.f, -2.5f, 65504.f, 1e-3f, 3.4e38f, -3.4e38f, 0.f, 7.f, 7.f};
  for (const uint32_t dtype : {kFp32, kFp16, kU8}) {
    std::vector<char> bytes(2 * DictionaryHeader::bytes_of_row(dtype, 5));
    std::vector<float> back(10);
    encode_rows(rows.data(), 2, 5, dtype, bytes.data());
    decode_rows(bytes.data(), 2, 5, dtype, back.data());
    if (dtype == kFp32) CHECK(back == rows);
    if (dtype == kFp16) CHECK(back[2] == -2.5f && back[5] == 65504.f && back[9] == 7.f);
    if (dtype == kU8) CHECK(back[3] == 65504.f && back[2] == -2.5f && back[5] == 3.4e38f && back[6] == -3.4e38f);
  }
}

}  // namespace

int main() {
  every_key_finds_its_row();
  keys_at_the_ends_and_keys_that_crowd();
  part_of_a_file();
  layers_are_what_merging_them_gives();
  cut_and_joined_is_the_same();
  refuses_what_cannot_be_written();
  damage_is_found();
  forged_files_do_no_harm();
  threads_share_one();
  numbers_come_back();
  for (const auto &path : {kPath, kOther, kMade}) std::remove(path.c_str());
  std::puts("dictionary: lookups, layers, merging, cutting, damage, forgery: good");
}
