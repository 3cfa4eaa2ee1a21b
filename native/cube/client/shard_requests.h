// The state of a get that is under way: a Call has a ShardRequest for each shard, which has one or two Attempts.
// Only for the client's own files.
#pragma once

#include <poll.h>

#include <array>
#include <string>
#include <vector>

#include "cube/client/client.h"
#include "cube/client/keys.h"
#include "wire/spinning.h"

namespace clickline::cube {

// A request to one replica of the shard.
struct CubeClient::Attempt {
  std::shared_ptr<Replica> replica;
  int index = -1;  // of the replica
  std::unique_ptr<CubeLink> link;
  wire::Clock::time_point deadline{};
  bool hedge = false;
};

// The part of a call that one shard answers.
struct CubeClient::ShardRequest {
  enum class State { Waiting, Done, Failed, Lacking };

  uint32_t shard = 0;
  std::span<const uint64_t> keys;
  std::shared_ptr<const Replicas> replicas;
  State state = State::Waiting;
  std::array<Attempt, 2> attempts;  // the second is the hedge
  uint64_t asked = 0, lacks = 0;  // replicas, one bit for each: asked since all were, and those without the version
  int failures = 0;
  uint64_t renewed = 0;  // replicas whose idle connections turned out to be broken
  bool hedged = false;
  std::string error;
  // The answer lies in the winner's link until the call's result is assembled.
  std::shared_ptr<Replica> winner;
  std::unique_ptr<CubeLink> link;
  GetReplyHead head{};
  const uint8_t *status = nullptr;
  const uint64_t *offsets = nullptr;
  const char *values = nullptr;

  void reset(std::shared_ptr<const Replicas> whom) {
    replicas = std::move(whom);
    state = State::Waiting;
    asked = lacks = renewed = 0;
    failures = 0;
    hedged = false;
    error.clear();
  }
};

struct CubeClient::Call {
  explicit Call(uint32_t shards) : keys(shards) {}

  CubeKeys keys;
  std::vector<ShardRequest> requests;
  size_t used = 0;  // of the requests, which are kept for the memory they have allocated
  size_t waiting = 0;
  std::string_view table;
  uint64_t version = 0;
  std::vector<pollfd> polled;
  struct Row {
    const char *data;
    size_t size;
    KeyStatus status;
  };
  std::vector<Row> rows;  // of each unique key
  wire::AdaptiveSpin spin{wire::AdaptiveSpin::kForAnswer};
  std::string no_such_table;  // the server's message, if there was one

  std::span<ShardRequest> all() { return {requests.data(), used}; }
};

}  // namespace clickline::cube
