// The payloads of GET and of its reply. See docs/reference/wire.md for the bytes.
#pragma once

#include <cstdint>
#include <string_view>

#include "wire/frame.h"

namespace clickline::cube {

struct GetRequestHead {
  uint64_t sequence;  // without meaning
  uint64_t version;   // 0: the current one
  uint64_t count;
  uint16_t name;  // bytes of the table's name
  uint8_t zeros[6];
};  // then: name, zero padded to 8, keys u64
static_assert(sizeof(GetRequestHead) == 32);

struct GetReplyHead {
  uint64_t version;  // that was read
  uint64_t number;   // of the switch that made `current` the current one
  uint64_t current;
  uint32_t dtype, dim;
  uint32_t row_bytes;  // 0: values of any size
  uint32_t zero;
  uint64_t count;
};  // then: status u8, zero padded to 8, rows; or, if they are of any size, offsets u64 [count + 1] and bytes
static_assert(sizeof(GetReplyHead) == 48);

// Status of a key. Unknown is given by the client, when no replica of the shard could be reached.
enum class KeyStatus : uint8_t { Yes = 0, No = 1, Unknown = 3 };

inline constexpr size_t padded(size_t bytes) { return (bytes + 7) / 8 * 8; }

// How errors begin that a client tells from the others.
inline constexpr std::string_view kNoSuchVersion = "no-such-version: ", kNoSuchTable = "no-such-table: ",
                                  kEmpty = "empty: ";

}  // namespace clickline::cube
