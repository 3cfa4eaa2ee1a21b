// The keys of one get, deduplicated and grouped by shard, and the mapping back to the caller's order.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/hash.h"

namespace clickline::cube {

class CubeKeys {
 public:
  explicit CubeKeys(uint32_t shards);

  void take(std::span<const uint64_t> keys);  // forgets those of before
  uint32_t shards() const { return static_cast<uint32_t>(first_.size() - 1); }
  std::span<const uint64_t> of(uint32_t shard) const {
    return {grouped_.data() + first_[shard], first_[shard + 1] - first_[shard]};
  }
  // Of each key of the caller: which of the grouped ones it is, and so which of its shard's.
  uint32_t place(size_t i) const { return place_[i]; }
  uint32_t first(uint32_t shard) const { return first_[shard]; }
  uint32_t shard_of(uint64_t key) const { return owner_[base::bucket_of(key)]; }
  size_t unique() const { return grouped_.size(); }
  size_t size() const { return place_.size(); }

 private:
  std::vector<uint16_t> owner_;  // of each bucket
  std::vector<uint32_t> first_;  // of each shard, and the end
  std::vector<uint64_t> unique_, grouped_;
  std::vector<uint32_t> place_, moved_, slots_;
};

}  // namespace clickline::cube
