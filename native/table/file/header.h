// The front of a table file: 32 fixed bytes and a JSON object. Everything a reader has to know before it
// allocates or reads anything else. docs/reference/table-format.md is the specification.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/hash.h"

namespace clickline::table {

// A file that cannot be written, read, or trusted.
struct TableFileError : base::FileError {
  using base::FileError::FileError;
};

inline constexpr char kTableMagic[9] = "CLKTABLE";
inline constexpr uint32_t kTableVersion = 1;
inline constexpr uint64_t kPreamble = 32, kMaxHeader = uint64_t{1} << 20, kAlign = 64;

struct TableHeader {
  uint32_t dim = 0, states = 0;  // states: floats of optimizer state per weight
  std::string optimizer;
  uint64_t rows = 0, waiting = 0, seed = 0, step = 0;
  std::vector<uint64_t> bucket_rows, bucket_waiting, checksums;  // kBuckets each

  // JSON with spaces behind it, so that the data begins at a multiple of kAlign. Its length depends on the
  // counts but not on the checksums, so that they can be filled in last.
  std::string text() const;
  // Throws TableFileError saying what is wrong, unless every field is there once and of its type, and the
  // buckets add up.
  static TableHeader parse(std::string_view text);
};

// The fixed bytes before a header.
std::string table_preamble(std::string_view header);
// Checks them, against the size of the file too; returns the length of the header.
uint64_t check_preamble(std::string_view preamble, uint64_t file_size);
// Throws if the header is not the one that the preamble was made for.
void check_header(std::string_view preamble, std::string_view header);

}  // namespace clickline::table
