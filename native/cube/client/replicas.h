// The servers that hold the same shard, with their health and idle links.
// Promises: healthy ones take turns; one that failed is asked again only after a pause, which doubles with each
// failure, unless all the others have failed too; one that has not answered an earlier request, which another
// replica then answered, comes after those that have. A link with an answer outstanding is
// not given away before that answer has come.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cube/client/link.h"

namespace clickline::cube {

struct Replica {
  explicit Replica(std::string where) : address(std::move(where)) {}

  std::unique_ptr<CubeLink> take();  // an idle link; none: a new one has to be made
  void give(std::unique_ptr<CubeLink> link);  // whether it has been answered or not
  void failed(wire::Clock::time_point now);
  void forget_idle();  // they go to a process that is gone; another may be there
  void succeeded();
  void check_owing(wire::Clock::time_point now, wire::Clock::duration patience);

  const std::string address;
  std::atomic<bool> owing{false};
  std::atomic<wire::Clock::rep> avoided_until{0};

 private:
  static constexpr size_t kMostOwing = 4, kMostIdle = 256;

  std::mutex mutex_;
  std::vector<std::unique_ptr<CubeLink>> idle_, owing_;
  int failures_ = 0;
};

using Replicas = std::vector<std::shared_ptr<Replica>>;

// Which of the replicas is best asked next: none of those in `not_these`, one bit for each (there are at most 64).
// -1: no other is left.
int choose(const Replicas &replicas, uint64_t not_these, uint32_t turn, wire::Clock::duration patience);

}  // namespace clickline::cube
