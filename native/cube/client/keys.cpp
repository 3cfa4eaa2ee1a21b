// Finding keys that come twice, and counting sort by shard.
#include "cube/client/keys.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>

#include "base/owners.h"

namespace clickline::cube {

CubeKeys::CubeKeys(uint32_t shards) : owner_(base::kBuckets), first_(shards + 1) {
  const auto ranges = base::owner_ranges(shards);
  for (uint32_t shard = 0; shard < shards; ++shard)
    std::fill(owner_.begin() + ranges[shard].first, owner_.begin() + ranges[shard].second,
              static_cast<uint16_t>(shard));
}

void CubeKeys::take(std::span<const uint64_t> keys) {
  if (keys.size() >= std::numeric_limits<uint32_t>::max() / 4)
    throw std::invalid_argument("at most 2^30 keys at once, but got " + std::to_string(keys.size()));
  place_.resize(keys.size());
  unique_.clear();
  const unsigned bits = static_cast<unsigned>(std::bit_width(keys.size() * 2));
  slots_.assign(size_t{1} << bits, 0);  // number of a unique key, plus one
  const size_t mask = slots_.size() - 1;
  for (size_t i = 0; i < keys.size(); ++i) {
    size_t slot = (keys[i] * 0x9FB21C651E98DF25ull) >> (64 - bits);
    uint32_t held;
    while ((held = slots_[slot]) && unique_[held - 1] != keys[i]) slot = (slot + 1) & mask;
    if (!held) {
      unique_.push_back(keys[i]);
      slots_[slot] = held = static_cast<uint32_t>(unique_.size());
    }
    place_[i] = held - 1;
  }
  if (shards() == 1) {
    grouped_.swap(unique_);
    first_[1] = static_cast<uint32_t>(grouped_.size());
    return;
  }
  std::fill(first_.begin(), first_.end(), 0);
  for (uint64_t key : unique_) ++first_[shard_of(key) + 1];
  for (uint32_t shard = 0; shard < shards(); ++shard) first_[shard + 1] += first_[shard];
  moved_.resize(unique_.size());
  grouped_.resize(unique_.size());
  for (size_t i = 0; i < unique_.size(); ++i) {
    const uint32_t to = moved_[i] = first_[shard_of(unique_[i])]++;
    grouped_[to] = unique_[i];
  }
  for (uint32_t shard = shards(); shard; --shard) first_[shard] = first_[shard - 1];  // each had become its end
  first_[0] = 0;
  for (uint32_t &place : place_) place = moved_[place];
}

}  // namespace clickline::cube
