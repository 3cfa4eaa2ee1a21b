// The first frames of a connection: both sides show that they know the job's token without sending it.
// Promises: nothing is taken from a peer, and no more than 4 KiB is read of it, before it has shown that; nonces of both
// sides make each proof good for one connection; the side that refuses says why, and both sides report it.
// Frames that follow are not signed: the token keeps strangers and other jobs out, the network itself must be trusted.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "wire/frame.h"

namespace clickline::wire {

// The credentials of one side.
struct Identity {
  std::string token, job, name;
};

// The client, as the server learns it from the handshake.
struct Peer {
  std::string name;
  uint64_t client = 0;
  uint32_t lane = 0;
};

// The server knows the client but has no room for it now: to be tried again, like a refused connection.
struct NoRoom : ConnectionLost {
  using ConnectionLost::ConnectionLost;
};

// Throws PeerFailure with the reason after having sent it, ConnectionLost, TimedOut, or what the channel's check throws.
// `admit` is called when the client has shown that it knows the token, before it is welcomed; if that throws NoRoom, the
// client is told so.
Peer greet_client(Channel &channel, const Identity &own, uint64_t max_frame, Clock::time_point deadline,
                  const std::function<void()> &admit = {});

struct Welcome {
  std::string name;    // the server's
  uint64_t max_frame;  // what it takes
};

// The client's side as a state machine, one step for each frame that arrives, for callers that do not block.
class Greeting {
 public:
  Greeting(const Identity &own, uint64_t client, uint32_t lane) : own_(own), client_(client), lane_(lane) {}

  // Both throw PeerFailure for a refusal, the server's or ours, NoRoom, ConnectionLost for what makes no sense.
  std::string auth(const FrameHeader &header, std::string_view hello);  // the payload of the AUTH to be sent
  Welcome welcomed(const FrameHeader &header, std::string_view welcome);

  const std::string &server() const { return server_; }  // its name, once it has said it
  const std::string &objection() const { return objection_; }  // for a REFUSE, if the server should be told

 private:
  const Identity &own_;
  const uint64_t client_;
  const uint32_t lane_;
  std::string server_, objection_, server_job_, server_name_, server_nonce_, client_nonce_;
};

// `server` gets the server's name as soon as it is known, for messages about what goes wrong afterwards.
Welcome greet_server(Channel &channel, const Identity &own, uint64_t client, uint32_t lane, std::string &server,
                     Clock::time_point deadline);

// Kind::Refuse is final, Kind::Busy may be tried again.
void refuse(Channel &channel, FrameKind kind, const std::string &reason, Clock::time_point deadline);

// A peer's text made safe for a log or a terminal: at most 1000 bytes of UTF-8, without characters that end lines,
// control a terminal, or change the direction of text.
std::string printable(std::string_view text);

}  // namespace clickline::wire
