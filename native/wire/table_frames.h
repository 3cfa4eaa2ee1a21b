// The payloads of PULL and PUSH. See docs/reference/wire.md for the bytes.
#pragma once

#include <cstdint>

#include "wire/frame.h"

namespace clickline::wire {

// The fixed part of each request, as it is sent; keys and what belongs to them follow.
struct PullHead {
  uint64_t sequence;
  uint32_t table;
  uint8_t training;
  Width width;
  uint8_t with_slots;
  uint8_t zero;
  uint32_t dim;
  uint32_t zeros;
  uint64_t count;
};  // then: keys u64, slots u16 (if with_slots). The reply: version u64, rows.
static_assert(sizeof(PullHead) == 32);

struct PushHead {
  uint64_t sequence;
  uint32_t table;
  Width width;
  uint8_t zeros[3];
  uint32_t dim;
  uint32_t tick;
  double scale;
  uint64_t count;
  uint64_t based_on;  // kNoVersion: not to be counted
  uint64_t max_staleness;  // 0: any
  uint64_t lease, rows_done;  // lease 0: none
};  // then: keys u64, shows f32, clicks f32, gradients, slots u16. The reply: version u64.
static_assert(sizeof(PushHead) == 72);

inline constexpr uint64_t kNoVersion = ~uint64_t{0};

}  // namespace clickline::wire
