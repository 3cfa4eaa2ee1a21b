// What the native tests of dictionaries share: small ones made from code, files as strings, and one that is a plain map
// to compare with.
#pragma once

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "dictionary/dictionary.h"
#include "dictionary/writer.h"

namespace clickline::testing {

inline std::string read_file(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_file(const std::string &path, const std::string &bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// Rows of a key; a deleted key has none.
using Rows = std::map<uint64_t, std::optional<std::string>>;

inline dictionary::DictionaryHeader shape(uint32_t row_bytes, uint32_t first = 0, uint32_t last = base::kBuckets) {
  dictionary::DictionaryHeader result;
  result.row_bytes = row_bytes, result.first_bucket = first, result.last_bucket = last;
  return result;
}

inline dictionary::DictionarySummary write(const std::string &path, const Rows &rows, const dictionary::DictionaryHeader &shape,
                                           int threads = 1) {
  std::vector<uint64_t> keys, deleted, offsets{0};
  std::string values;
  for (const auto &[key, value] : rows) {
    if (base::bucket_of(key) < shape.first_bucket || base::bucket_of(key) >= shape.last_bucket) continue;
    (value ? keys : deleted).push_back(key);
    if (!value) continue;
    values += *value;
    offsets.push_back(values.size());
  }
  return dictionary::write_arrays(path, shape,
                                  {keys, deleted, values.data(), shape.row_bytes ? nullptr : offsets.data()}, threads);
}

// `count` keys, a fifth of them deleted if `deletes`; few enough keys that those of several calls meet.
inline Rows random_rows(size_t count, uint32_t row_bytes, uint64_t seed, bool deletes, uint64_t different = 5000) {
  std::mt19937_64 random(seed);
  Rows rows;
  while (rows.size() < count) {
    const uint64_t key = (random() % different) * 0x2545F4914F6CDD1Dull;
    std::string value(row_bytes ? row_bytes : random() % 50, '\0');
    for (char &c : value) c = static_cast<char>(random());
    rows[key] = deletes && random() % 5 == 0 ? std::nullopt : std::optional(value);
  }
  return rows;
}

// As an attacker would: the header's own hash, and those of the sections, made right again.
inline void sign(std::string &bytes) {
  const uint64_t own = base::xxh64({bytes.data(), 120}, 0);
  std::memcpy(&bytes[120], &own, 8);
}

inline void sign_sections(std::string &bytes) {
  dictionary::DictionaryHeader h = dictionary::DictionaryHeader::decode(bytes.data(), bytes.size());
  for (int s = 0; s < dictionary::kDictSections; ++s)
    h.hashes[s] = base::xxh64(std::string_view(bytes).substr(h.begin(s), h.section_bytes(s)), 0);
  const auto header = h.encode();
  bytes.replace(0, header.size(), header.data(), header.size());
}

// Everything a reader can do to a file that opens. The results may be wrong; the sanitizers must have nothing to say.
// Merging it too, unless `scratch` is empty: that waits for the disk.
inline void use(const std::shared_ptr<const dictionary::Dictionary> &d, const std::vector<uint64_t> &keys,
                const std::string &scratch) {
  const auto &h = d->header();
  std::vector<uint8_t> status(keys.size());
  std::vector<std::string_view> values(keys.size());
  std::vector<uint64_t> offsets(keys.size() + 1);
  const dictionary::Layers layers({d, d});
  if (h.row_bytes && h.row_bytes < (1u << 20)) {
    std::vector<char> rows(keys.size() * h.row_bytes);
    d->lookup(keys, status.data(), rows.data(), h.row_bytes);
    layers.lookup(keys, status.data(), rows.data(), h.row_bytes, 2);
  }
  for (int i = 0; i < 2; ++i) {
    i ? layers.find(keys, status.data(), values.data()) : d->find(keys, status.data(), values.data());
    std::vector<char> out(dictionary::place_values(values, offsets.data()));
    dictionary::copy_values(values, out.data());
  }
  for (const bool keep : {false, true}) {
    if (scratch.empty()) break;
    try {
      dictionary::merge_dictionaries(scratch, {d}, h.first_bucket, h.last_bucket, keep, 1);
      dictionary::difference_dictionary(scratch, {d}, {d, d}, 1);
    } catch (const dictionary::DictionaryError &) {
    }
  }
}

}  // namespace clickline::testing
