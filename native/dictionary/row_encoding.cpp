#include "dictionary/row_encoding.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/half.h"
#include "dictionary/header.h"

namespace clickline::dictionary {

namespace {

float finite(float value) { return std::isnan(value) ? 0.0f : std::clamp(value, -FLT_MAX, FLT_MAX); }

// In double: the range of a row may be twice what a float holds.
void encode_u8(const float *from, uint32_t dim, char *to) {
  float low = finite(from[0]), high = low;
  for (uint32_t i = 1; i < dim; ++i) low = std::min(low, finite(from[i])), high = std::max(high, finite(from[i]));
  std::memcpy(to, &low, 4);
  std::memcpy(to + 4, &high, 4);
  const double scale = high > low ? 255.0 / (double{high} - double{low}) : 0.0;
  for (uint32_t i = 0; i < dim; ++i)
    to[8 + i] = static_cast<char>(static_cast<uint8_t>((double{finite(from[i])} - double{low}) * scale + 0.5));
}

void decode_u8(const char *from, uint32_t dim, float *to) {
  float low, high;
  std::memcpy(&low, from, 4);
  std::memcpy(&high, from + 4, 4);
  const double step = (double{high} - double{low}) / 255.0;
  for (uint32_t i = 0; i < dim; ++i) {
    const uint8_t level = static_cast<uint8_t>(from[8 + i]);
    to[i] = level == 255 ? high : static_cast<float>(double{low} + step * level);
  }
}

[[noreturn]] void unknown(uint32_t dtype) {
  throw std::invalid_argument("dtype must be 1 (fp32), 2 (fp16) or 3 (u8) but is " + std::to_string(dtype));
}

}  // namespace

void encode_rows(const float *from, size_t rows, uint32_t dim, uint32_t dtype, char *to) {
  const size_t bytes = DictionaryHeader::bytes_of_row(dtype, dim);
  if (dtype != kFp32 && dtype != kFp16 && dtype != kU8) unknown(dtype);
  if (!rows || !dim) return;
  if (dtype == kFp32) {
    std::memcpy(to, from, rows * bytes);
    return;
  }
  std::vector<uint16_t> halves(dtype == kFp16 ? dim : 0);  // `to` need not be aligned
  for (size_t i = 0; i < rows; ++i, from += dim, to += bytes) {
    if (dtype == kU8) {
      encode_u8(from, dim, to);
    } else {
      base::to_fp16(from, halves.data(), dim);
      std::memcpy(to, halves.data(), bytes);
    }
  }
}

void decode_rows(const char *from, size_t rows, uint32_t dim, uint32_t dtype, float *to) {
  const size_t bytes = DictionaryHeader::bytes_of_row(dtype, dim);
  if (dtype != kFp32 && dtype != kFp16 && dtype != kU8) unknown(dtype);
  if (!rows || !dim) return;
  if (dtype == kFp32) {
    std::memcpy(to, from, rows * bytes);
    return;
  }
  std::vector<uint16_t> halves(dtype == kFp16 ? dim : 0);
  for (size_t i = 0; i < rows; ++i, from += bytes, to += dim) {
    if (dtype == kU8) {
      decode_u8(from, dim, to);
    } else {
      std::memcpy(halves.data(), from, bytes);
      base::from_fp16(halves.data(), to, dim);
    }
  }
}

}  // namespace clickline::dictionary
