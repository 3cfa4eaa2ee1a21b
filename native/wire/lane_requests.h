// The state of a lane: one Link per server, one Request per request under way. Only for the lane's own files.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "wire/lane.h"

namespace clickline::wire {

struct Lane::Link {
  std::string address;  // guarded by the lane's address_mutex_, because others may change it at any time
  std::atomic<bool> moved{false};
  std::string name;  // the server's, once it has said it
  Channel channel;
  uint64_t max_frame = 0;  // what the server takes
  uint64_t sequence = 0;   // of the last request that is to be executed once
  bool connected_before = false;
};

struct Lane::Request {
  Link *link = nullptr;
  FrameKind kind = FrameKind::Call;
  bool once = false;
  std::string head;            // begins with the sequence number
  std::vector<iovec> pieces;   // the first is for the head
  std::vector<iovec> places;   // for a reply whose size is known; none: it goes to the buffer
  Buffer *buffer = nullptr;

  uint64_t number = 0;
  bool sent = false, settled = false;
  int tries = 0;  // that failed
  Clock::time_point began{}, deadline{}, failing_since{};
};

}  // namespace clickline::wire
