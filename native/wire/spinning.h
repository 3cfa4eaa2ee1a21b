// Adaptive spinning: waiting for a peer for a moment without going to sleep, since waking up takes longer than most
// answers do.
// Promises:
// - A thread spins no longer than its limit, and not at all where recent waits were longer: a connection that is used
//   seldom sleeps.
// - At most (cores - 1) threads of a process spin at a time, on one core none.
// - A thread that spun in vain, or lost its core to others, sleeps at once for the next while. (It does not yield: the
//   scheduler lets a thread that yields wait longer than one that sleeps.)
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>

namespace clickline::wire {

namespace detail {
inline std::atomic<int> spinners{0};

inline int most_spinners() {
  static const int most = [] {
    cpu_set_t cores;
    return sched_getaffinity(0, sizeof cores, &cores) ? 0 : CPU_COUNT(&cores) - 1;
  }();
  return most;
}
}  // namespace detail

// Decides, for one connection, whether to spin or to sleep, by how long its recent waits were.
class AdaptiveSpin {
  using Clock = std::chrono::steady_clock;
  using Nanoseconds = std::chrono::nanoseconds;

 public:
  // A client waits for an answer longer than a server waits for the next request of a client that has its answer.
  static constexpr Nanoseconds kForQuestion = std::chrono::microseconds(100);
  static constexpr Nanoseconds kForAnswer = std::chrono::microseconds(200);

  explicit AdaptiveSpin(Nanoseconds longest = kForQuestion) : longest_(longest) {}

  // Asks `ready` again and again. False: it is time to sleep. Either way the wait began now; ended() is its end.
  template <class Ready>
  bool spin(Ready ready) {
    const auto now = began_ = Clock::now();
    if (average_ > longest_ || now < rest_until_) return false;
    if (detail::spinners.fetch_add(1, std::memory_order_relaxed) >= detail::most_spinners()) {
      detail::spinners.fetch_sub(1, std::memory_order_relaxed);
      return false;
    }
    const bool found = look(ready, now);
    detail::spinners.fetch_sub(1, std::memory_order_relaxed);
    return found;
  }

  void ended() {
    const Nanoseconds took = std::min<Nanoseconds>(Clock::now() - began_, kLong);
    average_ += (took - average_) / 8;
  }

 private:
  static constexpr Nanoseconds kLong = std::chrono::milliseconds(1);    // longer waits say nothing more
  static constexpr Nanoseconds kBusy = std::chrono::microseconds(50);   // between two looks: another thread ran
  static constexpr Nanoseconds kRest = std::chrono::milliseconds(10);

  template <class Ready>
  bool look(Ready &ready, Clock::time_point last) {
    const auto end = last + std::min(longest_, 2 * average_ + std::chrono::microseconds(20));
    for (;;) {
      if (ready()) return true;
      const auto now = Clock::now();
      if (now - last > kBusy || now > end) {
        rest_until_ = now + kRest;
        return false;
      }
      last = now;
    }
  }

  Nanoseconds longest_;
  Clock::time_point began_{}, rest_until_{};
  Nanoseconds average_ = kLong;  // no spinning before short waits have been seen
};

}  // namespace clickline::wire
