// A view of bytes that the caller owns, and little-endian numbers read from unaligned bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace clickline::base {

// A view of bytes; unlike std::string_view it tells "no bytes" (nullptr) from "zero bytes".
struct Bytes {
  const char *data = nullptr;
  size_t size = 0;
};

inline uint64_t load64(const char *p) { uint64_t v; std::memcpy(&v, p, 8); return v; }
inline uint32_t load32(const char *p) { uint32_t v; std::memcpy(&v, p, 4); return v; }

}  // namespace clickline::base
