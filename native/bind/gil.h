// Lets other Python threads run while native code works.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

namespace clickline::bind {

// Like nanobind's gil_scoped_release, but safe at exit: when the interpreter is shutting down, Python before 3.14 ends
// a daemon thread that asks for the GIL with pthread_exit, whose unwinding must not pass through a destructor (it
// would abort the process). As Python 3.14 does, such a thread is put to sleep until the process is gone.
class NoGil {
 public:
  NoGil() : state_(PyEval_SaveThread()) {}
  NoGil(const NoGil &) = delete;
  ~NoGil() {
    try {
      PyEval_RestoreThread(state_);
    } catch (abi::__forced_unwind &) {
      for (;;) pause();
    }
  }

 private:
  PyThreadState *state_;
};

}  // namespace clickline::bind
