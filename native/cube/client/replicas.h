// The servers that hold the same shard, and how they have been of late.
// Promises: healthy ones take turns; one that failed is asked again only after a pause, which doubles with each
// failure, unless all the others have failed too; one that has not answered an earlier request, which somebody else
// then answered, comes after those that have. A link with an answer outstanding is not given away before that has come.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cube/client/link.h"

namespace clickline {

struct Replica {
  explicit Replica(std::string where) : address(std::move(where)) {}

  std::unique_ptr<CubeLink> take();  // an idle link; none: a new one has to be made
  void give(std::unique_ptr<CubeLink> link);  // whether it has been answered or not
  void failed(Clock::time_point now);
  void forget_idle();  // they go to a process that is gone; another may be there
  void succeeded();
  void check_owing(Clock::time_point now, Clock::duration patience);

  const std::string address;
  std::atomic<bool> owing{false};
  std::atomic<Clock::rep> avoided_until{0};

 private:
  static constexpr size_t kMostOwing = 4, kMostIdle = 256;

  std::mutex mutex_;
  std::vector<std::unique_ptr<CubeLink>> idle_, owing_;
  int failures_ = 0;
};

using Replicas = std::vector<std::shared_ptr<Replica>>;

// Which of the replicas is best asked next: none of those in `not_these`, one bit for each (there are at most 64).
// -1: no other is left.
int choose(const Replicas &replicas, uint64_t not_these, uint32_t turn, Clock::duration patience);

}  // namespace clickline
