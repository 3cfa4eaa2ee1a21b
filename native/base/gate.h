// A shared mutex that does not starve the exclusive side: many calls work on a table at once, or one has it to itself,
// so that a save sees whole pushes only. The exclusive call waits for the calls under way, and no new one starts before
// it had its turn.
#pragma once

#include <mutex>
#include <shared_mutex>

namespace clickline::base {

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

}  // namespace clickline::base
