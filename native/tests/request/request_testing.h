// What the tests of requests share: a parser with every kind of feature, and what must hold of whatever was read.
#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "parse/parser.h"
#include "request/parse_request.h"
#include "request/request_rows.h"
#include "check.h"

namespace clickline::testing {

inline parse::ParserSpec request_spec(bool raw_keys = false) {
  parse::ParserSpec spec;
  spec.format = "columns", spec.raw_keys = raw_keys;
  spec.columns = {"label", "user", "item", "tags", "history", "price", "vector"};
  spec.slots = {{"user", "user", "none", "", 1000, false},
                {"item", "item", "none", "", 1000, false},
                {"tags", "tags", "none", "|", 3, false},
                {"history", "history", "none", "", 2, true}};
  if (!raw_keys) spec.slots.push_back({"price", "price", "log", "", 1000, false});
  spec.dense = {{"price", "price", 1, "log1p", 0, 1, -1}, {"vector", "vector", 3, "none", 0, 1, 0}};
  return spec;
}

// The bytes in memory of exactly their size, so that a sanitizer sees a read of one too many.
class Exact {
 public:
  explicit Exact(std::string_view bytes) : size_(bytes.size()), bytes_(new char[bytes.size()]) {
    if (size_) std::memcpy(bytes_.get(), bytes.data(), size_);
  }
  std::string_view view() const { return {bytes_.get(), size_}; }

 private:
  size_t size_;
  std::unique_ptr<char[]> bytes_;
};

inline void check_rows(const parse::ParsedRows &parsed, const parse::Layout &layout, size_t most_rows) {
  CHECK(parsed.n > 0 && parsed.n <= most_rows);
  CHECK_EQ(parsed.bad, size_t{0});
  const size_t cells = parsed.n * layout.slots.size();
  CHECK(parsed.ragged ? parsed.keys_count > cells : parsed.keys_count == cells);
  for (size_t i = 0; parsed.ragged && i < cells; ++i) {
    const int64_t count = parsed.offsets[i + 1] - parsed.offsets[i];
    CHECK(count >= 1 && count <= layout.slots[i % layout.slots.size()].max_values);
  }
  uint64_t keys = 0;
  for (size_t i = 0; i < parsed.keys_count; ++i) keys ^= parsed.keys[i];   // so that a sanitizer sees each
  for (size_t i = 0; i < parsed.n * layout.dense_width; ++i) CHECK(std::isfinite(parsed.dense[i]));
  if (keys == 42) std::cerr << "unlikely\n";
}

// A Refused must say something, for one of the reasons that there are.
inline void check_refusal(const request::Refused &refused) {
  CHECK(refused.what()[0] != '\0');
  bool known = false;
  for (const char *reason : {"malformed", "unknown_feature", "wrong_type", "wrong_shape", "not_finite", "too_large"})
    known |= !std::strcmp(reason, refused.reason);
  CHECK(known);
}

}  // namespace clickline::testing
