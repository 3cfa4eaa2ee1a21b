// The state of one connection of the server. Only for the server's own files.
#pragma once

#include <pthread.h>

#include <list>
#include <memory>
#include <string_view>

#include "wire/server.h"

namespace clickline::wire {

struct WireServer::Connection {
  WireServer *server;
  Channel channel;
  pthread_t thread;
  std::list<std::unique_ptr<Connection>>::iterator self;
  Peer peer;
  std::string host;  // whom it shares a limit with before it has shown the token
  enum class State { Unauthenticated, CrowdedOut, Authenticated } state = State::Unauthenticated;  // with the mutex
  std::shared_ptr<Buffer> body = std::make_shared<Buffer>();
  Buffer reply, scratch;
  FrameKind answer = FrameKind::Reply;  // the kind of what is in `reply`

  void put(std::string_view bytes) {
    char *place = reply.resize(bytes.size());
    if (!bytes.empty()) std::memcpy(place, bytes.data(), bytes.size());
  }
  void put(uint64_t value) { std::memcpy(reply.resize(sizeof value), &value, sizeof value); }
  void fail(std::string_view text) {
    answer = FrameKind::Error;
    put(text.substr(0, 60'000));
  }
};

}  // namespace clickline::wire
