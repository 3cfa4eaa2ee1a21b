// Letting go of Python's lock while native code works, and taking it on threads that Python does not know.
//
// Both are safe at exit: when the interpreter is shutting down, Python before 3.14 ends a thread that asks for the GIL
// with pthread_exit, whose unwinding must not pass through a destructor (it would abort the process), and once it is
// gone, asking is fatal. As Python 3.14 does, such a thread is put to sleep until the process is gone.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>

namespace clickline::bind {

inline std::atomic<bool> interpreter_ending{false};  // set by an atexit function, the last to run

[[noreturn]] inline void sleep_until_the_end() {
  for (;;) pause();
}

// Like nanobind's gil_scoped_release.
class NoGil {
 public:
  NoGil() : state_(PyEval_SaveThread()) {}
  NoGil(const NoGil &) = delete;
  ~NoGil() {
    try {
      PyEval_RestoreThread(state_);
    } catch (abi::__forced_unwind &) {
      sleep_until_the_end();
    }
  }

 private:
  PyThreadState *state_;
};

// Fewer keys take less time than getting the lock back can: another thread may keep it for milliseconds.
constexpr size_t kReleaseFrom = 1024;

// Work on so many keys, without the lock if that is worth it.
template <class Work>
void without_lock(size_t keys, Work work) {
  if (keys < kReleaseFrom) return work();
  NoGil released;
  work();
}

// Like nanobind's gil_scoped_acquire.
class Gil {
 public:
  Gil() {
    if (interpreter_ending) sleep_until_the_end();
    try {
      state_ = PyGILState_Ensure();
    } catch (abi::__forced_unwind &) {
      sleep_until_the_end();
    }
  }
  Gil(const Gil &) = delete;
  ~Gil() {
    try {
      PyGILState_Release(state_);
    } catch (abi::__forced_unwind &) {
      sleep_until_the_end();
    }
  }

 private:
  PyGILState_STATE state_;
};

}  // namespace clickline::bind
