// From keys to row numbers, for one stripe: open addressing with linear probing over 32-bit entries of an
// 8-bit tag and a 24-bit row number. The key itself is in the row, and compared there; the tag keeps all but
// one in 256 of those looks from being in vain. Nothing is deleted one by one: a sweep builds a new index.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>

#include "table/row_store.h"

namespace clickline::table {

class KeyIndex {
 public:
  // Independent of bucket_of's product, whose high bits all keys of a stripe share.
  static uint64_t hash(uint64_t key) {
    const uint64_t h = (key ^ (key >> 32)) * 0xD6E8FEB86659FD93ull;
    return h ^ (h >> 32);
  }

  bool empty() const { return entries_ == nullptr; }
  size_t bytes() const { return entries_ ? (size_t{mask_} + 1) * sizeof(uint32_t) : 0; }
  void prefetch(uint64_t hash) const { __builtin_prefetch(&entries_[hash & mask_]); }

  // The first row whose tag fits: nearly always the right one, or kNoRow, which is certain.
  uint32_t candidate(uint64_t hash) const {
    const uint32_t tag = tag_of(hash);
    for (uint32_t at = static_cast<uint32_t>(hash) & mask_;; at = (at + 1) & mask_) {
      const uint32_t entry = entries_[at];
      if (entry == kEmpty) return kNoRow;
      if ((entry & kTag) == tag) return entry & kNoRow;
    }
  }

  uint32_t find(uint64_t key, const RowStore &rows) const {
    if (empty()) return kNoRow;
    const uint64_t h = hash(key);
    const uint32_t tag = tag_of(h);
    for (uint32_t at = static_cast<uint32_t>(h) & mask_;; at = (at + 1) & mask_) {
      const uint32_t entry = entries_[at];
      if (entry == kEmpty) return kNoRow;
      if ((entry & kTag) == tag && rows[entry & kNoRow]->key == key) return entry & kNoRow;
    }
  }

  // Room for `count` keys at a load of at most 0.8; `rows` are those indexed so far.
  void reserve(uint32_t count, const RowStore &rows) {
    if (!holds(count)) *this = KeyIndex(count, rows);
  }

  bool holds(uint64_t count) const { return count <= capacity(); }

  // The key must not be in the index yet, and reserve() must have made room for it.
  void add(uint64_t key, uint32_t row) {
    const uint64_t h = hash(key);
    uint32_t at = static_cast<uint32_t>(h) & mask_;
    while (entries_[at] != kEmpty) at = (at + 1) & mask_;
    entries_[at] = tag_of(h) | row;
  }

  KeyIndex() = default;
  explicit KeyIndex(uint32_t count) {
    const uint32_t entries = std::bit_ceil(std::max(16u, static_cast<uint32_t>(uint64_t{count} * 5 / 4 + 1)));
    entries_ = std::make_unique_for_overwrite<uint32_t[]>(entries);
    std::fill_n(entries_.get(), entries, kEmpty);
    mask_ = entries - 1;
  }

 private:
  static constexpr uint32_t kEmpty = 0xFFFFFFFF, kTag = 0xFF000000;

  KeyIndex(uint32_t count, const RowStore &rows) : KeyIndex(count) {
    for (uint32_t row = 0; row < rows.used(); ++row)
      if (rows[row]->live) add(rows[row]->key, row);
  }

  static uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 32) & kTag; }
  uint32_t capacity() const { return entries_ ? static_cast<uint32_t>((uint64_t{mask_} + 1) * 4 / 5) : 0; }

  std::unique_ptr<uint32_t[]> entries_;
  uint32_t mask_ = 0;
};

}  // namespace clickline::table
