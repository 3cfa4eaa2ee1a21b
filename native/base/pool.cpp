// How it works: a call puts a Job, which lives on the caller's stack, on the pool's list. Workers join jobs that
// still want help; all threads of a job draw chunk numbers from one counter. The caller takes the job off the list
// when the counter runs out, so that no more threads can join, and waits for those that had joined.
#include "base/pool.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

namespace clickline::base {
namespace {

using Clock = std::chrono::steady_clock;

// Long enough to bridge the gap between the phases of one native call, short enough not to be felt.
constexpr auto kWatch = std::chrono::microseconds(12);
constexpr int kMaxWorkers = 255;

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

template <class Condition>
bool watch(const Condition &condition) {
  const auto end = Clock::now() + kWatch;
  do {
    for (int i = 0; i < 8; ++i) {
      if (condition()) return true;
      relax();
    }
  } while (Clock::now() < end);
  return condition();
}

struct Job {
  const std::function<void(size_t)> &body;
  const size_t chunks;
  int wanted;              // helpers that may still join; guarded by Pool::mutex, as are the next two
  bool asleep = false;     // the caller waits on Pool::left
  Job *after = nullptr;    // next on the list
  std::atomic<int> inside{0};
  std::atomic<size_t> drawn{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error{};

  void run() {
    for (size_t i; (i = drawn.fetch_add(1, std::memory_order_relaxed)) < chunks;) {
      try {
        body(i);
      } catch (...) {
        if (!failed.exchange(true)) error = std::current_exception();
        drawn.store(chunks, std::memory_order_relaxed);
      }
    }
  }
};

class Pool {
 public:
  void run(Job &job) {
    open(job);
    job.run();
    close(job);
    if (job.error) std::rethrow_exception(job.error);
  }

 private:
  void open(Job &job) {
    int wake;
    {
      std::lock_guard lock(mutex_);
      while (workers_ < job.wanted && start()) ++workers_;
      job.wanted = std::min(job.wanted, workers_);
      if (!job.wanted) return;
      job.after = jobs_;
      jobs_ = &job;
      pending_.store(true, std::memory_order_release);
      wake = std::min(job.wanted, sleepers_);
    }
    for (; wake; --wake) arrived_.notify_one();
  }

  void close(Job &job) {
    {
      std::lock_guard lock(mutex_);
      unlink(job);
    }
    auto alone = [&] { return job.inside.load(std::memory_order_acquire) == 0; };
    if (alone() || watch(alone)) return;
    std::unique_lock lock(mutex_);
    job.asleep = true;
    left_.wait(lock, alone);
  }

  void unlink(Job &job) {
    for (Job **link = &jobs_; *link; link = &(*link)->after)
      if (*link == &job) {
        *link = job.after;
        break;
      }
    pending_.store(jobs_ != nullptr, std::memory_order_release);
  }

  Job *join() {
    std::lock_guard lock(mutex_);
    Job *job = jobs_;
    if (!job) return nullptr;
    job->inside.fetch_add(1, std::memory_order_relaxed);
    if (--job->wanted == 0) unlink(*job);
    return job;
  }

  void leave(Job &job) {
    bool wake;
    {
      std::lock_guard lock(mutex_);
      wake = job.asleep;
      job.inside.fetch_sub(1, std::memory_order_release);  // the caller may now destroy the job
    }
    if (wake) left_.notify_all();
  }

  void work() {
    auto pending = [this] { return pending_.load(std::memory_order_acquire); };
    for (;;) {
      if (Job *job = watch(pending) ? join() : nullptr) {
        job->run();
        leave(*job);
      } else {
        std::unique_lock lock(mutex_);
        ++sleepers_;
        arrived_.wait(lock, pending);
        --sleepers_;
      }
    }
  }

  // False if the system has no more threads to give: fewer helpers then, not an error.
  bool start() {
    if (workers_ >= kMaxWorkers) return false;
    // Signals are for Python's main thread; a new thread inherits the mask.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = true;
    try {
      std::thread([this] { work(); }).detach();
    } catch (const std::system_error &) {
      started = false;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return started;
  }

  std::mutex mutex_;
  std::condition_variable arrived_, left_;
  std::atomic<bool> pending_{false};  // jobs_ is not empty; written under the mutex, watched without
  Job *jobs_ = nullptr;
  int workers_ = 0, sleepers_ = 0;
};

// Never destroyed: workers outlive static destructors, and at exit the system ends them where they sleep.
std::atomic<Pool *> current{nullptr};
std::atomic<Pool *> abandoned{nullptr};  // keeps a parent's pool reachable in the child, for leak checkers

Pool &pool() {
  if (Pool *existing = current.load(std::memory_order_acquire)) return *existing;
  // fork copies no threads but the calling one, and may copy a locked mutex: the child starts over.
  [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, [] {
    if (Pool *parents = current.exchange(nullptr)) abandoned.store(parents);
  });
  Pool *fresh = new Pool, *expected = nullptr;
  if (current.compare_exchange_strong(expected, fresh, std::memory_order_acq_rel)) return *fresh;
  delete fresh;
  return *expected;
}

}  // namespace

void parallel_for(size_t chunks, int threads, const std::function<void(size_t)> &body) {
  if (threads <= 1 || chunks <= 1) {
    for (size_t i = 0; i < chunks; ++i) body(i);
    return;
  }
  const size_t helpers = std::min<size_t>({static_cast<size_t>(threads), chunks, kMaxWorkers + 1}) - 1;
  Job job{.body = body, .chunks = chunks, .wanted = static_cast<int>(helpers)};
  pool().run(job);
}

}  // namespace clickline::base
