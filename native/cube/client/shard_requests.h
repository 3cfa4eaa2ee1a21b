// What a cube client keeps of a get that is under way. Only for the client's own files.
#pragma once

#include <poll.h>

#include <array>
#include <string>
#include <vector>

#include "cube/client/client.h"
#include "cube/client/keys.h"
#include "wire/spinning.h"

namespace clickline {

// A request to one replica.
struct CubeClient::Try {
  std::shared_ptr<Replica> replica;
  int index = -1;  // of the replica
  std::unique_ptr<CubeLink> link;
  Clock::time_point deadline{};
  bool hedge = false;
};

// What one shard owes to the batch.
struct CubeClient::Ask {
  enum class State { Waiting, Done, Failed, Lacking };

  uint32_t shard = 0;
  std::span<const uint64_t> keys;
  std::shared_ptr<const Replicas> replicas;
  State state = State::Waiting;
  std::array<Try, 2> tries;  // the second is the hedge
  uint64_t asked = 0, lacks = 0;  // replicas, one bit for each: asked since all were, and those without the version
  int failures = 0;
  uint64_t renewed = 0;  // replicas to which a connection of before was no good any more
  bool hedged = false;
  std::string error;
  // The answer lies in the winner's link until the batch is put together.
  std::shared_ptr<Replica> winner;
  std::unique_ptr<CubeLink> link;
  GotHead head{};
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

struct CubeClient::Batch {
  explicit Batch(uint32_t shards) : keys(shards) {}

  CubeKeys keys;
  std::vector<Ask> asks;
  size_t used = 0;  // of the asks, which are kept for what they have allocated
  size_t waiting = 0;
  std::string_view table;
  uint64_t version = 0;
  std::vector<pollfd> polled;
  struct Row {
    const char *data;
    size_t size;
    Found status;
  };
  std::vector<Row> rows;  // of each unique key
  Patience patience{Patience::kForAnswer};
  std::string no_such_table;  // what a server said, if it did

  std::span<Ask> all() { return {asks.data(), used}; }
};

}  // namespace clickline
