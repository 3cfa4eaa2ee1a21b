// One connection of a cube client. No call blocks: the client waits for several links at once.
// Promises: it connects, shows that it knows the token, sends the request and receives the answer as far as that goes
// each time; an answer that bears another number than the request is an error; nothing is allocated for what the peer
// announces before it was compared with the limit, and nothing at all once the buffers have grown.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "wire/frame.h"
#include "wire/handshake.h"

namespace clickline::cube {

class CubeLink {
 public:
  // `identity` must outlive it.
  CubeLink(const std::string &address, const wire::Identity &identity, uint64_t client, uint32_t lane,
           uint64_t max_frame);

  char *prepare(size_t payload);  // room for the request
  void send(uint64_t number);      // it goes out as soon as it can

  // Continues. True: the answer has arrived. Throws ConnectionLost and PeerFailure, after which the link is unusable.
  bool advance();
  const wire::FrameHeader &header() const { return header_; }
  std::string_view payload() const { return {in_.get() + sizeof(wire::HeaderBytes), header_.length}; }
  void finish();  // with the answer

  bool awaits_answer() const { return awaits_answer_; }
  int fd() const { return dial_ ? dial_->fd() : socket_.get(); }
  short events() const;  // what poll has to wait for
  bool welcomed() const { return state_ == State::Ready; }

  wire::Clock::time_point asked_at{};
  bool reused = false;  // it answered before

 private:
  enum class State { Dialing, Hello, Welcome, Ready };

  bool flush();
  bool receive(uint64_t limit);
  void room(size_t bytes);
  void greet();

  const uint64_t max_frame_;
  State state_ = State::Dialing;
  std::unique_ptr<wire::Dial> dial_;
  wire::Greeting greeting_;
  wire::Descriptor socket_;
  uint64_t takes_ = 0;  // largest frame that the server takes
  std::string auth_;    // frame of the handshake that is to be sent
  wire::Buffer request_;
  size_t sent_ = 0;
  uint64_t number_ = 0;
  bool awaits_answer_ = false;

  wire::FrameHeader header_;
  std::unique_ptr<char[]> in_;
  size_t room_ = 0, have_ = 0;
};

}  // namespace clickline::cube
