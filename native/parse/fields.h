// What the text of one field becomes: numbers, buckets, normalised numbers, keys. Every format, text or
// columnar, goes through these functions, so that the same value gives the same feature wherever it comes from.
#pragma once

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace clickline::parse {

// Small whole numbers are nearly all the numbers of a click log: their logarithms are looked up.
struct SmallNumbers {
  static constexpr int kCount = 4096;
  float log1p[kCount];
  float squared_log[kCount];
  uint16_t bucket[kCount];
  SmallNumbers();
};
extern const SmallNumbers kSmallNumbers;

inline bool is_small(double v, int &whole) {
  if (!(v >= 0 && v < SmallNumbers::kCount)) return false;
  whole = static_cast<int>(v);
  return whole == v;
}

// --- text to number -------------------------------------------------------------------------------------

// Any decimal number, `+` and spaces around it allowed; false unless all of the text is one finite number.
bool parse_decimal(std::string_view text, double &out);

// A whole number of up to 8 digits, all at once; none is 0. Reads 8 bytes from `p`, whatever `length` is.
inline bool parse_eight(const char *p, size_t length, uint64_t &out) {
  // Shifted in two halves, because a shift by 64 is undefined.
  uint64_t v = base::load64(p) << (32 - 4 * length) << (32 - 4 * length);
  v |= 0x3030303030303030ull >> (4 * length) >> (4 * length);
  if (((v + 0x4646464646464646ull) | (v - 0x3030303030303030ull)) & 0x8080808080808080ull) return false;
  v -= 0x3030303030303030ull;
  v = v * 10 + (v >> 8);
  out = (((v & 0x000000FF000000FFull) * 0x000F424000000064ull) +
         (((v >> 16) & 0x000000FF000000FFull) * 0x0000271000000001ull)) >> 32;
  return true;
}

// The number of a field, 0 if it is empty, without a branch that depends on either; `readable` is where the memory
// around the field ends.
inline bool parse_number(std::string_view text, const char *readable, double &out) {
  const char *p = text.data();
  size_t length = text.size();
  if (readable - p >= 9) {
    const bool negative = (*p == '-') & (length > 1);
    p += negative, length -= negative;
    if (uint64_t whole; length <= 8 && parse_eight(p, length, whole)) {
      const auto sign = -static_cast<int64_t>(negative);
      out = static_cast<double>((static_cast<int64_t>(whole) ^ sign) - sign);
      return true;
    }
  }
  if (text.empty()) {
    out = 0;
    return true;
  }
  return parse_decimal(text, out);
}

inline bool to_number(std::string_view text, double &out) {
  if (text.size() - 1 < 15) {   // whole numbers, the most frequent ones, exactly
    uint64_t whole = 0;
    size_t i = 0;
    for (; i < text.size() && static_cast<unsigned char>(text[i] - '0') < 10; ++i)
      whole = whole * 10 + static_cast<uint64_t>(text[i] - '0');
    out = static_cast<double>(whole);
    if (i == text.size()) return true;
  }
  return parse_decimal(text, out);
}
inline bool to_number(double v, double &out) { out = v; return std::isfinite(v); }
inline bool to_number(float v, double &out) { out = v; return std::isfinite(v); }
inline bool to_number(int64_t v, double &out) { out = static_cast<double>(v); return true; }
inline bool to_number(uint64_t v, double &out) { out = static_cast<double>(v); return true; }
inline bool to_number(bool v, double &out) { out = v; return true; }

// Seconds: whole as they are, others truncated; false when they do not fit.
bool to_seconds(std::string_view text, int64_t &out);
bool to_seconds(double v, int64_t &out);
inline bool to_seconds(float v, int64_t &out) { return to_seconds(static_cast<double>(v), out); }
inline bool to_seconds(int64_t v, int64_t &out) { out = v; return true; }
inline bool to_seconds(uint64_t v, int64_t &out) { out = static_cast<int64_t>(v); return out >= 0; }
inline bool to_seconds(bool, int64_t &) { return false; }

// A key written as a decimal number of 64 bits.
inline bool parse_key(std::string_view text, uint64_t &out) {
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, out);
  return error == std::errc() && stop == end;   // refuses signs, spaces, and what does not fit
}

// --- typed value to text --------------------------------------------------------------------------------

struct TextBuffer { char chars[40]; };

inline std::string_view to_text(std::string_view text, TextBuffer &) { return text; }
inline std::string_view to_text(bool v, TextBuffer &) { return v ? "true" : "false"; }
template <class N>
std::string_view to_text(N v, TextBuffer &buffer) {
  if constexpr (std::is_floating_point_v<N>) v = v == 0 ? 0 : v;   // "-0" would be another category than "0"
  auto [end, error] = std::to_chars(buffer.chars, buffer.chars + sizeof buffer.chars, v);
  return {buffer.chars, static_cast<size_t>(end - buffer.chars)};
}

// --- number to feature ----------------------------------------------------------------------------------

// floor(log2 v) + 2 when v > 2, else floor(v); false when that has no 64-bit integer. Exact: no logarithm is rounded.
inline bool log_bucket(double v, int64_t &out) {
  if (int whole; is_small(v, whole)) {
    out = kSmallNumbers.bucket[whole];
    return true;
  }
  if (v > 2) {
    out = std::ilogb(v) + 2;
    return true;
  }
  if (!(v >= -9e18)) return false;
  out = static_cast<int64_t>(std::floor(v));
  return true;
}

enum class Normalise { none, log1p, affine, criteo };   // affine: standard and minmax, (v - center) / spread

inline float normalised(double v, Normalise how, double center, double spread) {
  int whole;
  switch (how) {
    case Normalise::none: break;
    case Normalise::log1p: {
      if (is_small(v, whole)) return kSmallNumbers.log1p[whole];
      const double size = std::fabs(v);
      return static_cast<float>(std::copysign(size < 1 ? std::log1p(size) : std::log(1 + size), v));
    }
    case Normalise::affine: return static_cast<float>((v - center) / spread);
    case Normalise::criteo: {
      if (is_small(v, whole)) return kSmallNumbers.squared_log[whole];
      if (v <= 2) break;
      const double ln = std::log(v);
      return static_cast<float>(ln * ln);
    }
  }
  return static_cast<float>(v);
}

// --- value to key ---------------------------------------------------------------------------------------

// One slot's keys: its seed, and the keys of the buckets that occur, computed once.
class SlotKeys {
 public:
  SlotKeys() = default;
  SlotKeys(std::string_view slot, bool bucketed);

  uint64_t seed() const { return seed_; }
  uint64_t of(std::string_view value) const {
    return value.size() == 8 ? base::hash_eight(value.data(), seed_) : base::xxh64(value, seed_);
  }
  uint64_t of_bucket(int64_t bucket) const {
    const uint64_t at = static_cast<uint64_t>(bucket) + kBelow;
    if (at < buckets_.size()) return buckets_[at];
    TextBuffer buffer;
    return of(to_text(bucket, buffer));
  }

 private:
  static constexpr uint64_t kBelow = 8;   // the table starts at bucket -8
  uint64_t seed_ = 0;
  std::vector<uint64_t> buckets_;
};

// A value as an error message shows it: quoted, shortened, control characters escaped.
std::string quoted(std::string_view value);

}  // namespace clickline::parse
