// Lets many calls work on a table at once, or one that needs all of it to itself: a save sees whole pushes
// only. Whoever wants it all waits for the calls under way, and no new one starts before it had its turn.
#pragma once

#include <mutex>
#include <shared_mutex>

namespace clickline {

class Gate {
 public:
  void lock_shared() {
    { std::lock_guard turn(turn_); }
    door_.lock_shared();
  }
  void unlock_shared() { door_.unlock_shared(); }

  void lock() {
    turn_.lock();
    door_.lock();
  }
  void unlock() {
    door_.unlock();
    turn_.unlock();
  }

 private:
  std::mutex turn_;
  std::shared_mutex door_;
};

}  // namespace clickline
