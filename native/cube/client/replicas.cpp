// Pools of links, and the choice of the replica to ask.
#include "cube/client/replicas.h"

#include <algorithm>

namespace clickline::cube {

namespace {

constexpr auto kShortestPause = std::chrono::milliseconds(50), kLongestPause = std::chrono::milliseconds(5000);

}  // namespace

std::unique_ptr<CubeLink> Replica::take() {
  std::lock_guard lock(mutex_);
  if (idle_.empty()) return nullptr;
  std::unique_ptr<CubeLink> link = std::move(idle_.back());
  idle_.pop_back();
  return link;
}

void Replica::give(std::unique_ptr<CubeLink> link) {
  std::lock_guard lock(mutex_);
  if (!link->awaits_answer()) {
    if (idle_.size() < kMostIdle) idle_.push_back(std::move(link));
  } else if (owing_.size() < kMostOwing) {
    owing_.push_back(std::move(link));
    owing = true;
  }
}

void Replica::forget_idle() {
  std::vector<std::unique_ptr<CubeLink>> closed;
  std::lock_guard lock(mutex_);
  closed.swap(idle_);
}

void Replica::failed(wire::Clock::time_point now) {
  std::vector<std::unique_ptr<CubeLink>> closed;  // they go to the same process
  std::lock_guard lock(mutex_);
  closed.swap(idle_);
  const auto pause = std::min<wire::Clock::duration>(kLongestPause, kShortestPause * (1 << std::min(failures_++, 10)));
  avoided_until = (now + pause).time_since_epoch().count();
}

void Replica::succeeded() {
  if (!avoided_until.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(mutex_);
  failures_ = 0;
  avoided_until = 0;
}

// Takes in answers that no call waits for any more; gives up on those that do not come.
void Replica::check_owing(wire::Clock::time_point now, wire::Clock::duration patience) {
  bool lost = false;
  {
    std::lock_guard lock(mutex_);
    std::erase_if(owing_, [&](std::unique_ptr<CubeLink> &link) {
      try {
        if (link->advance()) {
          link->finish();
          idle_.push_back(std::move(link));
          return true;
        }
        if (now - link->asked_at < patience) return false;
      } catch (const std::runtime_error &) {
      }
      return lost = true;
    });
    owing = !owing_.empty();
  }
  if (lost) failed(now);
}

int choose(const Replicas &replicas, uint64_t not_these, uint32_t turn, wire::Clock::duration patience) {
  wire::Clock::time_point now{};
  int best = -1;
  wire::Clock::rep best_rank = 0;
  for (size_t i = 0; i < replicas.size(); ++i) {
    const size_t each = (turn + i) % replicas.size();
    if (not_these >> each & 1) continue;
    Replica &replica = *replicas[each];
    wire::Clock::rep rank = replica.avoided_until.load(std::memory_order_relaxed);  // 0: healthy; 1: owes an answer
    if (rank || replica.owing.load(std::memory_order_relaxed)) {
      if (now == wire::Clock::time_point{}) now = wire::Clock::now();
      if (replica.owing) replica.check_owing(now, patience);
      rank = replica.avoided_until;
      if (rank <= now.time_since_epoch().count()) rank = replica.owing ? 1 : 0;
    }
    if (best < 0 || rank < best_rank) {
      best = static_cast<int>(each);
      best_rank = rank;
    }
    if (!best_rank) break;
  }
  return best;
}

}  // namespace clickline::cube
