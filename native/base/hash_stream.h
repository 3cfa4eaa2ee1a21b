// XXH64 of bytes that lie in several places: the same result as xxh64() of all of them joined, without joining.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "base/hash.h"

namespace clickline::base {

class HashStream {
 public:
  void update(const void *bytes, size_t size) {
    const char *p = static_cast<const char *>(bytes);
    total_ += size;
    if (held_) {
      const size_t more = std::min(size, sizeof block_ - held_);
      std::memcpy(block_ + held_, p, more);
      held_ += more, p += more, size -= more;
      if (held_ < sizeof block_) return;
      take(block_, 1);
      held_ = 0;
    }
    take(p, size / 32);
    p += size / 32 * 32;
    held_ = size % 32;
    if (held_) std::memcpy(block_, p, held_);
  }

  uint64_t result() const {
    using namespace detail;
    uint64_t h = P5;
    if (total_ >= 32) {
      h = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) + std::rotl(lanes_[3], 18);
      for (uint64_t lane : lanes_) h = fold_lane(h, lane);
    }
    return finish(h + total_, block_, held_);
  }

 private:
  void take(const char *p, size_t blocks) {
    auto [a, b, c, d] = lanes_;
    for (; blocks; --blocks, p += 32) {
      a = detail::mix_lane(a, load64(p));
      b = detail::mix_lane(b, load64(p + 8));
      c = detail::mix_lane(c, load64(p + 16));
      d = detail::mix_lane(d, load64(p + 24));
    }
    lanes_[0] = a, lanes_[1] = b, lanes_[2] = c, lanes_[3] = d;
  }

  uint64_t lanes_[4] = {detail::P1 + detail::P2, detail::P2, 0, 0 - detail::P1};
  uint64_t total_ = 0;
  char block_[32];
  size_t held_ = 0;
};

}  // namespace clickline::base
