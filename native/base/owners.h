// Which server, or shard, owns which buckets of keys.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"

namespace clickline::base {

// Buckets [first, second) of each server.
inline std::vector<std::pair<uint32_t, uint32_t>> owner_ranges(uint32_t servers) {
  if (servers < 1 || servers > kBuckets)
    throw std::invalid_argument("servers must be 1 to " + std::to_string(kBuckets) + " but got " +
                                std::to_string(servers));
  std::vector<std::pair<uint32_t, uint32_t>> ranges;
  for (uint32_t s = 0; s < servers; ++s)
    ranges.emplace_back(kBuckets * s / servers, kBuckets * (s + 1) / servers);
  return ranges;
}

}  // namespace clickline::base
