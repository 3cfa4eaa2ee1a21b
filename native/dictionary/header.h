// The first 128 bytes of a dictionary file, and where that puts its sections. Everything a reader has to know before
// it touches anything else. docs/reference/dictionary-format.md is the specification.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "base/hash.h"

namespace clickline::dictionary {

// A dictionary that cannot be written, read, or trusted.
struct DictionaryError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline std::string text(uint64_t number) { return std::to_string(number); }  // in messages

inline constexpr uint64_t kDictionaryHeader = 128, kDictionaryAlign = 64, kBlockKeys = 4;
inline constexpr uint64_t kMaxDictionaryKeys = 0xFFFFFFFF;

// Types of values. u8: fp32 smallest, fp32 largest, then a byte per number.
enum DictionaryType : uint32_t { kBytes, kFp32, kFp16, kU8, kDictionaryTypes };

enum DictionarySection { kDirectory, kDictKeys, kDeletedDirectory, kDeletedKeys, kOffsets, kValues, kDictSections };
extern const char *const kSectionNames[kDictSections];

// Keys are in order of this: their buckets are its highest bits. Odd, so it can be undone.
inline uint64_t spread_of(uint64_t key) { return key * 0x9E3779B97F4A7C15ull; }
inline uint64_t key_of(uint64_t spread) { return spread * 0xF1DE83E19937733Dull; }

struct DictionaryHeader {
  uint32_t dtype = kBytes, dim = 0, row_bytes = 0;  // row_bytes 0: values of any size
  uint32_t first_bucket = 0, last_bucket = base::kBuckets;
  uint64_t count = 0, deleted = 0, blocks = 1, deleted_blocks = 1, values_bytes = 0;
  std::array<uint64_t, kDictSections> hashes{};

  // The number of blocks that a writer uses.
  static uint64_t blocks_for(uint64_t keys) { return keys ? (keys + kBlockKeys - 1) / kBlockKeys : 1; }
  uint64_t section_bytes(int section) const;
  uint64_t begin(int section) const;  // multiples of kDictionaryAlign
  uint64_t end() const { return begin(kValues) + values_bytes; }

  std::array<char, kDictionaryHeader> encode() const;
  // Throws DictionaryError unless every field is possible and all of them give exactly `file_bytes`.
  static DictionaryHeader decode(const char *bytes, uint64_t file_bytes);
  // Bytes of a row of `dim` numbers of this type; 0 for kBytes, which has no such rule.
  static uint64_t bytes_of_row(uint32_t dtype, uint32_t dim);
  // Throws std::invalid_argument unless type, dim and row size fit each other and the buckets are a range.
  void check_shape() const;
};

// Which block of the directory a key's place is in: buckets [first, last) are cut evenly into blocks.
struct DictionaryIndex {
  uint64_t base = 0, factor = 0;
  const uint32_t *directory = nullptr;

  DictionaryIndex() = default;
  DictionaryIndex(uint32_t first_bucket, uint32_t last_bucket, uint64_t blocks)
      : base(uint64_t{first_bucket} << 52), factor(blocks * base::kBuckets / (last_bucket - first_bucket)) {}
  // Below `blocks` for every key of the buckets.
  uint64_t block(uint64_t spread) const {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(spread - base) * factor) >> 64);
  }
};

}  // namespace clickline::dictionary
