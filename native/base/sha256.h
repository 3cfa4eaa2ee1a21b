// SHA-256 (FIPS 180-4) and HMAC (RFC 2104), for the handshake alone: a few hundred bytes per connection, so short and
// plain beats fast. Promise: the results are those of the standards; the tests hold their published vectors.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace clickline::base {

using Digest = std::array<unsigned char, 32>;

namespace detail {

inline constexpr uint32_t kSha256Rounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98,
    0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8,
    0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819,
    0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2};

inline void sha256_block(uint32_t (&state)[8], const unsigned char *block) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i)
    w[i] = uint32_t{block[4 * i]} << 24 | uint32_t{block[4 * i + 1]} << 16 | uint32_t{block[4 * i + 2]} << 8 |
           uint32_t{block[4 * i + 3]};
  for (int i = 16; i < 64; ++i) {
    const uint32_t a = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t b = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + a + w[i - 7] + b;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int i = 0; i < 64; ++i) {
    const uint32_t choice = (e & f) ^ (~e & g), majority = (a & b) ^ (a & c) ^ (b & c);
    const uint32_t one = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + choice + kSha256Rounds[i] + w[i];
    const uint32_t two = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + majority;
    h = g, g = f, f = e, e = d + one, d = c, c = b, b = a, a = one + two;
  }
  const uint32_t after[8] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state[i] += after[i];
}

}  // namespace detail

inline Digest sha256(std::string_view message) {
  uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const auto *bytes = reinterpret_cast<const unsigned char *>(message.data());
  size_t left = message.size();
  for (; left >= 64; left -= 64, bytes += 64) detail::sha256_block(state, bytes);
  unsigned char tail[128] = {};
  if (left) std::memcpy(tail, bytes, left);
  tail[left] = 0x80;
  const size_t padded = left < 56 ? 64 : 128;
  const uint64_t bits = uint64_t{message.size()} * 8;
  for (int i = 0; i < 8; ++i) tail[padded - 1 - i] = static_cast<unsigned char>(bits >> (8 * i));
  for (size_t at = 0; at < padded; at += 64) detail::sha256_block(state, tail + at);
  Digest digest;
  for (int i = 0; i < 32; ++i) digest[i] = static_cast<unsigned char>(state[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

inline Digest hmac_sha256(std::string_view key, std::string_view message) {
  auto text = [](const Digest &d) { return std::string(reinterpret_cast<const char *>(d.data()), d.size()); };
  std::string padded = key.size() > 64 ? text(sha256(key)) : std::string(key);
  padded.resize(64, '\0');
  std::string inner = padded, outer = padded;
  for (char &c : inner) c = static_cast<char>(c ^ 0x36);
  for (char &c : outer) c = static_cast<char>(c ^ 0x5c);
  return sha256(outer + text(sha256(inner.append(message))));
}

// In the same time whatever differs, so that the time tells nothing about how much was right.
inline bool same(const Digest &a, const Digest &b) {
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference = static_cast<unsigned char>(difference | (a[i] ^ b[i]));
  return difference == 0;
}

}  // namespace clickline::base
