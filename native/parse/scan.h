// Finding separators 64 bytes at a time, and cutting a block into pieces of whole lines that stay in the cache.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string_view>

#if defined(__AVX2__) || defined(__SSE2__)
#include <immintrin.h>
#endif

namespace clickline::parse {

// Bit i is set where p[i] is `wanted`. Reads p[0..63].
inline uint64_t match64(const char *p, char wanted) {
#if defined(__AVX2__)
  const __m256i w = _mm256_set1_epi8(wanted);
  const auto half = [&](const char *q) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(q));
    return static_cast<uint64_t>(static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, w))));
  };
  return half(p) | half(p + 32) << 32;
#elif defined(__SSE2__)
  const __m128i w = _mm_set1_epi8(wanted);
  uint64_t mask = 0;
  for (int i = 0; i < 4; ++i) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i *>(p + 16 * i));
    mask |= static_cast<uint64_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, w))) << (16 * i);
  }
  return mask;
#else
  uint64_t mask = 0;
  for (int i = 0; i < 64; ++i) mask |= static_cast<uint64_t>(p[i] == wanted) << i;
  return mask;
#endif
}

inline size_t count_lines(std::string_view data) {
  size_t count = !data.empty() && data.back() != '\n', at = 0;
  for (; at + 64 <= data.size(); at += 64) count += std::popcount(match64(data.data() + at, '\n'));
  for (; at < data.size(); ++at) count += data[at] == '\n';
  return count;
}

// The next line of `data`, without its line break (\n or \r\n); `data` then starts after it.
inline std::string_view take_line(std::string_view &data) {
  const void *found = std::memchr(data.data(), '\n', data.size());
  const size_t length = found ? static_cast<size_t>(static_cast<const char *>(found) - data.data()) : data.size();
  std::string_view line = data.substr(0, length);
  data.remove_prefix(found ? length + 1 : length);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

inline constexpr size_t kPiece = 32 * 1024;  // a piece of text and its index stay in the first two caches

// The first lines of `data`, about `wanted` bytes or one line, whichever is more; `data` then starts after them.
inline std::string_view take_piece(std::string_view &data, size_t wanted) {
  size_t length = data.size();
  if (length > wanted) {
    size_t last = data.substr(0, wanted).rfind('\n');
    if (last == std::string_view::npos) last = data.find('\n', wanted);
    if (last != std::string_view::npos) length = last + 1;
  }
  const std::string_view piece = data.substr(0, length);
  data.remove_prefix(length);
  return piece;
}

// Where the fields and the lines of a piece end.
class SeparatorIndex {
 public:
  void build(std::string_view piece, char delimiter) {
    if (piece.size() > UINT32_MAX - 128) throw std::length_error("a line of 4 GB or more cannot be parsed");
    reserve(piece.size() + 128);
    fields = lines = 0;
    size_t at = 0;
    for (; at + 64 <= piece.size(); at += 64) add(piece.data() + at, at, delimiter, 64);
    if (at < piece.size()) {
      char rest[64] = {};
      std::memcpy(rest, piece.data() + at, piece.size() - at);
      add(rest, at, delimiter, piece.size() - at);
    }
    if (!piece.empty() && piece.back() != '\n') {   // the last line ends with the data
      line_end[lines++] = static_cast<uint32_t>(fields);
      field_end[fields++] = static_cast<uint32_t>(piece.size());
    }
  }

  std::unique_ptr<uint32_t[]> field_end;   // of every field, in order
  std::unique_ptr<uint32_t[]> line_end;    // of every line: index in field_end of its last field
  size_t fields = 0, lines = 0;

 private:
  void reserve(size_t wanted) {
    if (wanted <= capacity_) return;
    field_end = std::make_unique_for_overwrite<uint32_t[]>(wanted);
    line_end = std::make_unique_for_overwrite<uint32_t[]>(wanted);
    capacity_ = wanted;
  }

  void add(const char *p, size_t at, char delimiter, size_t valid) {
    uint64_t newlines = match64(p, '\n');
    uint64_t mask = newlines | match64(p, delimiter);
    if (valid < 64) {
      const uint64_t inside = (uint64_t{1} << valid) - 1;
      mask &= inside, newlines &= inside;
    }
    for (; newlines; newlines &= newlines - 1)
      line_end[lines++] = static_cast<uint32_t>(fields + std::popcount(mask & ((newlines & -newlines) - 1)));
    uint32_t *out = &field_end[fields];
    const int count = std::popcount(mask);
    fields += static_cast<size_t>(count);
    // Eight at a time without asking whether there are that many: what is too much is overwritten by the next.
    for (int done = 0; done < count; done += 8)
      for (int i = 0; i < 8; ++i, mask &= mask - 1)
        out[done + i] = static_cast<uint32_t>(at) + static_cast<uint32_t>(std::countr_zero(mask));
  }

  size_t capacity_ = 0;
};

}  // namespace clickline::parse
