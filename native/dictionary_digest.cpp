#include "dictionary_digest.h"

#include <algorithm>
#include <cstring>

#include "sha256.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace clickline {

namespace {

void plain_blocks(uint32_t (&state)[8], const unsigned char *bytes, size_t blocks) {
  for (; blocks; --blocks, bytes += 64) detail::sha256_block(state, bytes);
}

#if defined(__x86_64__)
bool has_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 29 & 1) && __builtin_cpu_supports("sse4.1");
}

// The instructions want the state as (a b e f) and (c d g h) and do two rounds each.
__attribute__((target("sha,sse4.1"))) void fast_blocks(uint32_t (&state)[8], const unsigned char *bytes,
                                                       size_t blocks) {
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bll, 0x0405060700010203ll);
  const auto *constants = reinterpret_cast<const __m128i *>(detail::kSha256Rounds);
  __m128i low = _mm_shuffle_epi32(_mm_loadu_si128(reinterpret_cast<__m128i *>(&state[0])), 0xB1);
  __m128i high = _mm_shuffle_epi32(_mm_loadu_si128(reinterpret_cast<__m128i *>(&state[4])), 0x1B);
  __m128i abef = _mm_alignr_epi8(low, high, 8), cdgh = _mm_blend_epi16(high, low, 0xF0);
  for (; blocks; --blocks, bytes += 64) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i w[4];
    for (int i = 0; i < 4; ++i)
      w[i] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i *>(bytes) + i), swap);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {  // four rounds each
      __m128i now = w[i % 4];
      if (i >= 4) {
        const __m128i last = w[(i + 3) % 4];
        now = _mm_add_epi32(_mm_sha256msg1_epu32(now, w[(i + 1) % 4]), _mm_alignr_epi8(last, w[(i + 2) % 4], 4));
        now = w[i % 4] = _mm_sha256msg2_epu32(now, last);
      }
      const __m128i input = _mm_add_epi32(now, _mm_loadu_si128(constants + i));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, input);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(input, 0x0E));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  low = _mm_shuffle_epi32(abef, 0x1B);
  high = _mm_shuffle_epi32(cdgh, 0xB1);
  _mm_storeu_si128(reinterpret_cast<__m128i *>(&state[0]), _mm_blend_epi16(low, high, 0xF0));
  _mm_storeu_si128(reinterpret_cast<__m128i *>(&state[4]), _mm_alignr_epi8(high, low, 8));
}
#endif

}  // namespace

DigestStream::DigestStream(bool plain)
    : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19},
      blocks_(&plain_blocks) {
#if defined(__x86_64__)
  static const bool fast = has_instructions();
  if (fast && !plain) blocks_ = &fast_blocks;
#else
  static_cast<void>(plain);
#endif
}

void DigestStream::update(const void *bytes, size_t size) {
  const auto *p = static_cast<const unsigned char *>(bytes);
  if (const size_t held = total_ % 64; held && size) {
    const size_t more = std::min(size, 64 - held);
    std::memcpy(held_ + held, p, more);
    total_ += more, p += more, size -= more;
    if (total_ % 64) return;
    blocks_(state_, held_, 1);
  }
  blocks_(state_, p, size / 64);
  total_ += size;
  if (size % 64) std::memcpy(held_, p + size / 64 * 64, size % 64);
}

std::string DigestStream::hex() {
  const uint64_t bits = total_ * 8;
  unsigned char tail[72] = {0x80};
  const size_t zeros = (119 - total_ % 64) % 64 + 1;  // 0x80 and zeros, up to 8 bytes before the end of a block
  for (int i = 0; i < 8; ++i) tail[zeros + static_cast<size_t>(i)] = static_cast<unsigned char>(bits >> (56 - 8 * i));
  update(tail, zeros + 8);
  std::string result;
  for (const uint32_t word : state_)
    for (int shift = 28; shift >= 0; shift -= 4) result += "0123456789abcdef"[word >> shift & 15];
  return result;
}

}  // namespace clickline
