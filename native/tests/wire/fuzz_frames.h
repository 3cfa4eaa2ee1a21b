// Streams of frames as fuzzers change them: bytes first, then lengths, hashes and checks made right again.
#pragma once

#include "fuzz_driver.h"
#include "wire/wire_testing.h"

namespace clickline::testing {

inline std::string frame_of(wire::FrameKind kind, uint64_t number, std::string_view payload) {
  const wire::HeaderBytes header = wire::encode({kind, payload.size(), number, base::xxh64(payload, 0)});
  return std::string(header.data(), header.size()).append(payload);
}

inline std::string text_of(const auto &head, std::string_view rest = {}) {
  return std::string(reinterpret_cast<const char *>(&head), sizeof head).append(rest);
}

// From `at` on. A frame that announces more than there is becomes the last one.
inline void sign_frames(std::string &bytes, size_t at, Random &random) {
  while (at + sizeof(wire::HeaderBytes) <= bytes.size()) {
    const size_t left = bytes.size() - at - sizeof(wire::HeaderBytes);
    wire::FrameHeader header;
    std::memcpy(&header.kind, &bytes[at + 6], 2);
    header.length = base::load64(&bytes[at + 8]);
    header.number = base::load64(&bytes[at + 16]);
    if (header.length > left && random() % 8) header.length = left;
    const size_t length = std::min<uint64_t>(header.length, left);
    header.hash = base::xxh64({bytes.data() + at + sizeof(wire::HeaderBytes), length}, 0);
    const wire::HeaderBytes front = wire::encode(header);
    bytes.replace(at, front.size(), front.data(), front.size());
    at += front.size() + length;
  }
}

// The first byte says what is done with the rest, and is changed seldom.
inline void change_frames(std::string &bytes, Random &random) {
  if (bytes.empty()) return;
  const char mode = bytes[0];
  std::string rest = bytes.substr(1);
  for (uint64_t changes = 1 + random() % 4; changes; --changes) mutate(rest, random, 120);
  if (random() % 8) sign_frames(rest, 0, random);
  bytes = std::string(1, random() % 50 ? mode : static_cast<char>(random())) + rest;
}

}  // namespace clickline::testing
