// Rows of numbers as a dictionary keeps them: fp32, fp16, or a byte per number between the row's smallest and largest.
#pragma once

#include <cstddef>
#include <cstdint>

namespace clickline::dictionary {

// `rows` times `dim` floats to rows times DictionaryHeader::bytes_of_row(dtype, dim) bytes. dtype is not kBytes.
// In u8 a NaN counts as 0 and infinities as the largest float; fp16 keeps both (see base/half.h).
void encode_rows(const float *from, size_t rows, uint32_t dim, uint32_t dtype, char *to);
// And back. Any bytes are valid; u8 gives min + (max - min) * byte / 255.
void decode_rows(const char *from, size_t rows, uint32_t dim, uint32_t dtype, float *to);

}  // namespace clickline::dictionary
