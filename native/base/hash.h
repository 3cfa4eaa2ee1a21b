// Keys. A feature's key is XXH64 of its value's bytes, seeded with XXH64 of its slot's name (seed 0).
// XXH64 exists in every language, so any client can compute a key; docs/reference/keys.md has test vectors.
// Promise: these functions never change. A change would orphan every table ever trained.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/bytes.h"

namespace clickline::base {

namespace detail {
inline constexpr uint64_t P1 = 0x9E3779B185EBCA87ull, P2 = 0xC2B2AE3D27D4EB4Full, P3 = 0x165667B19E3779F9ull,
                          P4 = 0x85EBCA77C2B2AE63ull, P5 = 0x27D4EB2F165667C5ull;
inline uint64_t mix_lane(uint64_t lane, uint64_t input) { return std::rotl(lane + input * P2, 31) * P1; }
inline uint64_t fold_lane(uint64_t h, uint64_t lane) { return (h ^ mix_lane(0, lane)) * P1 + P4; }
// What is left of less than 32 bytes, and the last mixing.
inline uint64_t finish(uint64_t h, const char *p, size_t left) {
  for (; left >= 8; left -= 8, p += 8) h = std::rotl(h ^ mix_lane(0, load64(p)), 27) * P1 + P4;
  if (left >= 4) {
    h = std::rotl(h ^ (load32(p) * P1), 23) * P2 + P3;
    p += 4, left -= 4;
  }
  for (; left; --left, ++p) h = std::rotl(h ^ (static_cast<unsigned char>(*p) * P5), 11) * P1;
  h = (h ^ (h >> 33)) * P2;
  h = (h ^ (h >> 29)) * P3;
  return h ^ (h >> 32);
}
}  // namespace detail

inline uint64_t xxh64(std::string_view bytes, uint64_t seed) {
  using namespace detail;
  static_assert(std::endian::native == std::endian::little);
  const char *p = bytes.data();
  size_t left = bytes.size();
  uint64_t h;
  if (left >= 32) {
    uint64_t a = seed + P1 + P2, b = seed + P2, c = seed, d = seed - P1;
    for (; left >= 32; left -= 32, p += 32) {
      a = mix_lane(a, load64(p));
      b = mix_lane(b, load64(p + 8));
      c = mix_lane(c, load64(p + 16));
      d = mix_lane(d, load64(p + 24));
    }
    h = std::rotl(a, 1) + std::rotl(b, 7) + std::rotl(c, 12) + std::rotl(d, 18);
    for (uint64_t lane : {a, b, c, d}) h = fold_lane(h, lane);
  } else {
    h = seed + P5;
  }
  return detail::finish(h + bytes.size(), p, left);
}

// XXH64 of exactly 8 bytes, the length of a Criteo category.
inline uint64_t hash_eight(const char *p, uint64_t seed) {
  using namespace detail;
  uint64_t h = std::rotl((seed + P5 + 8) ^ mix_lane(0, base::load64(p)), 27) * P1 + P4;
  h = (h ^ (h >> 33)) * P2;
  h = (h ^ (h >> 29)) * P3;
  return h ^ (h >> 32);
}

inline uint64_t slot_seed(std::string_view slot) { return xxh64(slot, 0); }
inline uint64_t feature_key(uint64_t slot_seed, std::string_view value) { return xxh64(value, slot_seed); }

// A key belongs to one of 4096 buckets, whatever server or stripe holds it. Multiplication spreads raw
// (unhashed) keys too.
inline constexpr uint32_t kBuckets = 4096;
inline uint32_t bucket_of(uint64_t key) { return static_cast<uint32_t>((key * 0x9E3779B97F4A7C15ull) >> 52); }

}  // namespace clickline::base
