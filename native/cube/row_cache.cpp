// Lookup, insertion and the clock that chooses the row to replace.
#include "cube/row_cache.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <string>

namespace clickline::cube {

namespace {
constexpr uint8_t kRecent = 3;   // highest value of `used`: asked for again since the clock passed twice
}

RowCache::RowCache(size_t bytes, size_t dim) : dim_(dim) {
  if (!dim || dim > 4096) throw std::invalid_argument("dim must be 1 to 4096, got " + std::to_string(dim));
  const size_t set_bytes = kWays * (sizeof(Way) + dim * sizeof(float)) + 1;
  const size_t fitting = bytes / set_bytes;
  if (!fitting)
    throw std::invalid_argument(std::to_string(bytes) + " bytes are too few for a cache of rows of dim " +
                                std::to_string(dim) + "; it needs at least " + std::to_string(set_bytes));
  sets_ = std::min(std::bit_floor(fitting), size_t{1} << 31);
  ways_.assign(capacity(), Way{});
  hands_.assign(sets_, 0);
  rows_ = std::unique_ptr<float[]>(new float[capacity() * dim]);   // not zeroed: pages come as they are filled
}

RowCache::Way *RowCache::find(size_t set, uint64_t key) {
  Way *const first = &ways_[set * kWays];
  for (Way *way = first; way != first + kWays; ++way)
    if (way->key == key && way->used) return way;
  return nullptr;
}

size_t RowCache::victim(size_t set) {
  Way *const first = &ways_[set * kWays];
  for (size_t i = 0; i < kWays; ++i)
    if (!first[i].used) {
      ++size_;
      return i;
    }
  for (uint8_t &hand = hands_[set];; --first[hand].used, hand = (hand + 1) % kWays)
    if (first[hand].used == 1) {
      const size_t found = hand;
      hand = (hand + 1) % kWays;
      return found;
    }
}

std::vector<int64_t> RowCache::lookup(const uint64_t *keys, size_t count, float *rows, uint8_t *missing) {
  std::vector<int64_t> unknown;
  const std::lock_guard guard(lock_);
  for (size_t i = 0; i < count; ++i) {
    Way *const way = find(set_of(keys[i]), keys[i]);
    if (!way) {
      unknown.push_back(static_cast<int64_t>(i));
      continue;
    }
    if (way->used < kRecent) ++way->used;
    missing[i] = way->missing;
    std::memcpy(rows + i * dim_, &rows_[static_cast<size_t>(way - ways_.data()) * dim_], dim_ * sizeof(float));
  }
  return unknown;
}

void RowCache::insert(const uint64_t *keys, size_t count, const float *rows, const uint8_t *missing) {
  const std::lock_guard guard(lock_);
  for (size_t i = 0; i < count; ++i) {
    const size_t set = set_of(keys[i]);
    if (find(set, keys[i])) continue;   // asked for twice in one batch, or by another thread meanwhile
    const size_t at = set * kWays + victim(set);
    ways_[at] = {.key = keys[i], .used = 1, .missing = missing[i]};
    std::memcpy(&rows_[at * dim_], rows + i * dim_, dim_ * sizeof(float));
  }
}

}  // namespace clickline::cube
