// SHA-256 of bytes that come piece by piece, by the processor's own instructions where it has them: files of many
// gigabytes go through this. The same results as sha256.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace clickline {

class DigestStream {
 public:
  explicit DigestStream(bool plain = false);  // plain: without those instructions
  void update(const void *bytes, size_t size);
  std::string hex();  // once, at the end

 private:
  using Blocks = void (*)(uint32_t (&state)[8], const unsigned char *bytes, size_t blocks);
  uint32_t state_[8];
  Blocks blocks_;
  uint64_t total_ = 0;
  unsigned char held_[64];
};

}  // namespace clickline
