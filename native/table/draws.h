// Numbers drawn from a key: the start of a row and the luck of its admission. They depend on key, seed (and
// tick) only, never on thread, order or table size, so that any number of servers starts from the same model.
// Promise: these functions never change; a change would give unseen keys of a trained model another start.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace clickline::table {

// splitmix64's finaliser: every input bit reaches every output bit.
inline uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

inline constexpr uint64_t kGolden = 0x9E3779B97F4A7C15ull;

// Approximately normal values with the given standard deviation: the sum of four 16-bit uniforms, which is
// all integer arithmetic and hence the same on every machine. |value| <= 3.47 standard deviations.
inline void initial_values(uint64_t key, uint64_t seed, float scale, float *out, size_t dim) {
  if (scale == 0.0f) {
    for (size_t i = 0; i < dim; ++i) out[i] = 0.0f;
    return;
  }
  constexpr double kDeviation = 37837.227;  // of the sum: sqrt(4 * (65536^2 - 1) / 12)
  const float unit = static_cast<float>(scale / kDeviation);
  const uint64_t base = mix64(key ^ mix64(seed + kGolden));
  for (size_t i = 0; i < dim; ++i) {
    const uint64_t draw = mix64(base + (i + 1) * kGolden);
    const int sum = static_cast<int>((draw & 0xFFFF) + (draw >> 16 & 0xFFFF) + (draw >> 32 & 0xFFFF) + (draw >> 48));
    out[i] = static_cast<float>(sum - 131070) * unit;
  }
}

// True with the given probability.
inline bool chance(uint64_t key, uint64_t seed, uint64_t tick, double probability) {
  const uint64_t draw = mix64(mix64(key ^ mix64(~seed)) + (tick + 1) * kGolden);
  return static_cast<double>(draw >> 11) * 0x1p-53 < probability;
}

}  // namespace clickline::table
