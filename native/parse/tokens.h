// Words separated by blanks.
#pragma once

#include <string_view>

namespace clickline::parse {

// The next word of `line`, empty when there is none; `line` then starts after it.
inline std::string_view take_token(std::string_view &line) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  const char *p = line.data(), *end = p + line.size();
  while (p != end && is_blank(*p)) ++p;
  const char *start = p;
  while (p != end && !is_blank(*p)) ++p;
  line = {p, static_cast<size_t>(end - p)};
  return {start, static_cast<size_t>(p - start)};
}

}  // namespace clickline::parse
