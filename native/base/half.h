// Numbers of two bytes for the wire: IEEE binary16 ("fp16") and bfloat16, to and from float, nearest, ties to even.
// Promises: a finite float never becomes infinite (what is too large becomes the largest), infinities stay what they
// are and a NaN stays a NaN, so that a peer can still tell a gradient that is not finite. The hardware's conversion and
// the portable one give the same bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace clickline::base {

inline constexpr float kLargestHalf = 65504.0f;

inline uint16_t to_fp16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7E00u | ((magnitude >> 13) & 0x3FFu));
  if (magnitude == 0x7F800000u) return static_cast<uint16_t>(sign | 0x7C00u);
  if (magnitude >= std::bit_cast<uint32_t>(kLargestHalf)) return static_cast<uint16_t>(sign | 0x7BFFu);
  if (magnitude < 0x38800000u) {  // subnormal: adding 0.5 leaves the result, rounded, in the low bits
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3F000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<uint16_t>(sign | ((magnitude + 0xFFFu + odd - 0x38000000u) >> 13));
}

inline float from_fp16(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16, rest = half & 0x7FFFu;
  if (rest > 0x7C00u) return std::bit_cast<float>(sign | 0x7FC00000u | ((rest & 0x3FFu) << 13));
  if (rest == 0x7C00u) return std::bit_cast<float>(sign | 0x7F800000u);
  if (rest < 0x400u) {
    const float tiny = static_cast<float>(rest) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(tiny));
  }
  return std::bit_cast<float>(sign | ((rest << 13) + 0x38000000u));
}

inline uint16_t to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  if (magnitude > 0x7F7F0000u && magnitude < 0x7F800000u) return static_cast<uint16_t>(((bits >> 16) & 0x8000u) | 0x7F7Fu);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

inline float from_bf16(uint16_t half) { return std::bit_cast<float>(uint32_t{half} << 16); }

inline void to_fp16(const float *from, uint16_t *to, size_t count) {
  size_t i = 0;
#if defined(__F16C__)
  const __m256 largest = _mm256_set1_ps(kLargestHalf), infinite = _mm256_set1_ps(INFINITY);
  const __m256 sign = _mm256_set1_ps(-0.0f);
  for (; i + 8 <= count; i += 8) {
    const __m256 value = _mm256_loadu_ps(from + i), magnitude = _mm256_andnot_ps(sign, value);
    const __m256 above = _mm256_and_ps(_mm256_cmp_ps(magnitude, largest, _CMP_GT_OQ),
                                       _mm256_cmp_ps(magnitude, infinite, _CMP_LT_OQ));
    const __m256 clamped = _mm256_or_ps(largest, _mm256_and_ps(sign, value));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to + i),
                     _mm256_cvtps_ph(_mm256_blendv_ps(value, clamped, above), _MM_FROUND_TO_NEAREST_INT));
  }
#endif
  for (; i < count; ++i) to[i] = to_fp16(from[i]);
}

inline void from_fp16(const uint16_t *from, float *to, size_t count) {
  size_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from + i))));
#endif
  for (; i < count; ++i) to[i] = from_fp16(from[i]);
}

inline void to_bf16(const float *from, uint16_t *to, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = to_bf16(from[i]);
}

inline void from_bf16(const uint16_t *from, float *to, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = from_bf16(from[i]);
}

}  // namespace clickline::base
