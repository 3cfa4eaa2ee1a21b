// UTF-8: whether bytes are it, and characters as such bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace clickline::base {

// Where the text stops to be UTF-8 (shortest forms only, no surrogates), or npos.
inline size_t first_bad_utf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto follows = [&](size_t i) { return i < text.size() && (byte(i) & 0xC0) == 0x80; };
  for (size_t i = 0; i < text.size();) {
    if (i + 8 <= text.size() && !(load64(text.data() + i) & 0x8080808080808080ull)) {
      i += 8;
      continue;
    }
    const unsigned char c = byte(i);
    if (c < 0x80) {
      ++i;
    } else if (c >= 0xC2 && c <= 0xDF) {
      if (!follows(i + 1)) return i;
      i += 2;
    } else if (c >= 0xE0 && c <= 0xEF) {
      if (!follows(i + 1) || !follows(i + 2)) return i;
      if ((c == 0xE0 && byte(i + 1) < 0xA0) || (c == 0xED && byte(i + 1) > 0x9F)) return i;
      i += 3;
    } else if (c >= 0xF0 && c <= 0xF4) {
      if (!follows(i + 1) || !follows(i + 2) || !follows(i + 3)) return i;
      if ((c == 0xF0 && byte(i + 1) < 0x90) || (c == 0xF4 && byte(i + 1) > 0x8F)) return i;
      i += 4;
    } else {
      return i;
    }
  }
  return std::string_view::npos;
}

inline void append_utf8(std::string &out, uint32_t code) {
  const auto add = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0 | code >> 6), add(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    add(0xE0 | code >> 12), add(0x80 | (code >> 6 & 0x3F)), add(0x80 | (code & 0x3F));
  } else {
    add(0xF0 | code >> 18), add(0x80 | (code >> 12 & 0x3F)), add(0x80 | (code >> 6 & 0x3F)), add(0x80 | (code & 0x3F));
  }
}

}  // namespace clickline::base
