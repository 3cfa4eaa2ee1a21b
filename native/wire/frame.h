// Frames: what goes over a connection, in both directions. See docs/reference/wire.md for the bytes.
// Promises: a frame is believed only if its header's check and its payload's hash agree; its length is compared with
// the limit before anything of that size is allocated; payloads are sent from and received into the places where they
// belong, without being joined.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash_stream.h"
#include "base/recycled.h"
#include "wire/sockets.h"

namespace clickline::wire {

inline constexpr uint16_t kWireVersion = 1;
inline constexpr uint64_t kHandshakeFrame = 4096;  // the limit before a peer has shown that it knows the token

enum class FrameKind : uint16_t {
  Hello = 1, Auth, Welcome, Refuse, Call, Pull, Push, Reply, Error, Get, Busy, Replaced
};

// How rows and gradients travel.
enum class Width : uint8_t { Fp32 = 0, Fp16 = 1, Bf16 = 2 };
inline size_t bytes_of(Width width) { return width == Width::Fp32 ? 4 : 2; }

// Raised for a valid header whose length is above the limit: the same frame would be refused again.
struct TooLarge : PeerFailure {
  using PeerFailure::PeerFailure;
};

struct FrameHeader {
  FrameKind kind{};
  uint64_t length = 0, number = 0, hash = 0;  // hash: XXH64 of the payload
};
using HeaderBytes = std::array<char, 40>;

// A buffer that is reused and only grows.
class Buffer {
 public:
  char *resize(size_t size) {
    if (size > memory_.size()) memory_ = base::Recycled<char>(size);
    size_ = size;
    return memory_.data();
  }
  void trim() {  // one huge frame shall not be remembered for the life of a connection
    if (memory_.size() > kKept) memory_ = base::Recycled<char>();
    size_ = 0;
  }
  char *data() { return memory_.data(); }
  size_t size() const { return size_; }
  std::string_view view() const { return {memory_.data(), size_}; }

 private:
  static constexpr size_t kKept = size_t{64} << 20;
  base::Recycled<char> memory_;
  size_t size_ = 0;
};

inline HeaderBytes encode(const FrameHeader &header) {
  HeaderBytes bytes{};
  const uint16_t version = kWireVersion;
  std::memcpy(bytes.data(), "CLKW", 4);
  std::memcpy(bytes.data() + 4, &version, 2);
  std::memcpy(bytes.data() + 6, &header.kind, 2);
  std::memcpy(bytes.data() + 8, &header.length, 8);
  std::memcpy(bytes.data() + 16, &header.number, 8);
  std::memcpy(bytes.data() + 24, &header.hash, 8);
  const uint32_t check = static_cast<uint32_t>(base::xxh64({bytes.data(), 36}, 0));
  std::memcpy(bytes.data() + 36, &check, 4);
  return bytes;
}

inline FrameHeader decode(const HeaderBytes &bytes, uint64_t limit) {
  if (std::memcmp(bytes.data(), "CLKW", 4)) throw Garbled("these are not frames of ours");
  if (base::load32(bytes.data() + 36) != static_cast<uint32_t>(base::xxh64({bytes.data(), 36}, 0)))
    throw Garbled("a frame's header is garbled");
  uint16_t version;
  FrameHeader header;
  std::memcpy(&version, bytes.data() + 4, 2);
  std::memcpy(&header.kind, bytes.data() + 6, 2);
  header.length = base::load64(bytes.data() + 8);
  header.number = base::load64(bytes.data() + 16);
  header.hash = base::load64(bytes.data() + 24);
  if (version != kWireVersion || base::load32(bytes.data() + 32))
    throw Garbled("a frame is of version " + std::to_string(version) + " but here is " + std::to_string(kWireVersion));
  if (header.length > limit)
    throw TooLarge("a frame of " + std::to_string(header.length) + " bytes, but at most " + std::to_string(limit) +
                   " are taken");
  return header;
}

// Pieces that are used up while they are sent or received: a copy, without an allocation if they are few.
class Pieces {
 public:
  explicit Pieces(std::span<const iovec> from, size_t before = 0) : size_(before + from.size()) {
    if (size_ > few_.size()) many_.resize(size_);
    std::copy(from.begin(), from.end(), data() + before);
  }
  iovec &operator[](size_t i) { return data()[i]; }
  std::span<iovec> all() { return {data(), size_}; }

 private:
  iovec *data() { return size_ > few_.size() ? many_.data() : few_.data(); }

  size_t size_;
  std::array<iovec, 8> few_;
  std::vector<iovec> many_;
};

inline void send_frame(Channel &channel, FrameKind kind, uint64_t number, std::span<const iovec> payload,
                       Clock::time_point deadline) {
  FrameHeader header{kind, 0, number, 0};
  base::HashStream hash;
  for (const iovec &piece : payload) {
    header.length += piece.iov_len;
    if (piece.iov_len) hash.update(piece.iov_base, piece.iov_len);
  }
  header.hash = hash.result();
  HeaderBytes bytes = encode(header);
  Pieces pieces(payload, 1);
  pieces[0] = {bytes.data(), bytes.size()};
  channel.send(pieces.all(), deadline);
}

inline void send_frame(Channel &channel, FrameKind kind, uint64_t number, std::string_view payload,
                       Clock::time_point deadline) {
  const iovec piece{const_cast<char *>(payload.data()), payload.size()};
  send_frame(channel, kind, number, {&piece, 1}, deadline);
}

inline FrameHeader receive_header(Channel &channel, uint64_t limit, Clock::time_point deadline) {
  HeaderBytes bytes;
  iovec place{bytes.data(), bytes.size()};
  channel.receive({&place, 1}, deadline);
  return decode(bytes, limit);
}

// `places` must have room for header.length bytes together.
inline void receive_payload(Channel &channel, const FrameHeader &header, std::span<const iovec> places,
                            Clock::time_point deadline) {
  Pieces pieces(places);
  base::HashStream hash;
  channel.receive(pieces.all(), deadline, &hash);
  if (hash.result() != header.hash) throw Garbled("a frame's payload is garbled");
}

inline std::string_view receive_payload(Channel &channel, const FrameHeader &header, Buffer &buffer,
                                        Clock::time_point deadline) {
  const iovec place{buffer.resize(header.length), header.length};
  receive_payload(channel, header, {&place, 1}, deadline);
  return buffer.view();
}

// The fields of a payload, one after the other. Reading beyond the end throws Garbled.
class PayloadReader {
 public:
  explicit PayloadReader(std::string_view bytes) : left_(bytes) {}

  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view text() { return take(number<uint16_t>()); }
  std::string_view take(uint64_t size) {
    if (size > left_.size()) throw Garbled("a payload ends too early");
    const std::string_view result = left_.substr(0, size);
    left_.remove_prefix(size);
    return result;
  }
  // `count` items of `width` bytes; no product of what a peer says can overflow.
  std::string_view items(uint64_t count, uint64_t width) {
    if (width && count > left_.size() / width) throw Garbled("a payload ends too early");
    return take(count * width);
  }
  std::string_view rest() { return take(left_.size()); }
  void end() const {
    if (!left_.empty()) throw Garbled("a payload is " + std::to_string(left_.size()) + " bytes too long");
  }

 private:
  std::string_view left_;
};

class PayloadWriter {
 public:
  template <class T>
  PayloadWriter &number(T value) {
    bytes_.append(reinterpret_cast<const char *>(&value), sizeof value);
    return *this;
  }
  PayloadWriter &text(std::string_view value) {
    if (value.size() > 255) throw std::invalid_argument("at most 255 bytes but got '" + std::string(value) + "'");
    return number(static_cast<uint16_t>(value.size())).raw(value);
  }
  PayloadWriter &raw(std::string_view value) {
    bytes_.append(value);
    return *this;
  }
  const std::string &bytes() const { return bytes_; }
  std::string &bytes() { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace clickline::wire
