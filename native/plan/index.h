// The small hash table with which a plan finds the distinct keys of one partition.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/recycled.h"

namespace clickline::plan {

// A distinct key of a partition.
struct Candidate {
  uint64_t key;
  uint32_t count, clicks;
  uint32_t first;  // target of the first occurrence
  uint32_t rank;   // place in unique
};

// All ones if id is not 0; arithmetic, so that the compiler makes no branch of it.
inline uint64_t taken(uint32_t id) { return 0 - ((uint64_t{0} - id) >> 63); }

// Open addressing over candidates 1 to n; 0 in the table means free, so candidate 0 is a dummy. It grows with the
// distinct keys, not with the occurrences: one very frequent key must not make it leave the cache.
class CandidateIndex {
 public:
  explicit CandidateIndex(size_t occurrences) : size_(std::bit_ceil(std::clamp<size_t>(occurrences * 2, 16, kSmall))) {
    clear();
  }
  size_t size() const { return size_; }
  uint32_t *table() { return size_ > kSmall ? big_.data() : small_; }

  // Not bucket_of's multiplier: within a partition its high bits are all alike.
  static size_t home(uint64_t key, size_t size) {
    return ((key ^ (key >> 29)) * 0xD6E8FEB86659FD93ull) >> (64 - std::countr_zero(size));
  }

  void grow(const Candidate *found, uint32_t n) {
    size_ *= 4;
    big_ = base::Recycled<uint32_t>(size_ > kSmall ? size_ : 0);
    clear();
    for (uint32_t id = 1; id <= n; ++id) {
      size_t at = home(found[id].key, size_);
      while (table()[at]) at = (at + 1) & (size_ - 1);
      table()[at] = id;
    }
  }

 private:
  static constexpr size_t kSmall = 2048;
  void clear() { std::memset(table(), 0, size_ * sizeof(uint32_t)); }

  size_t size_;
  base::Recycled<uint32_t> big_;
  uint32_t small_[kSmall];
};

}  // namespace clickline::plan
