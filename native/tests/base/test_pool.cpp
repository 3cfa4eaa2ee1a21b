// The pool: every chunk once, on several threads, with exceptions, nesting, many callers, and after fork.
#include "base/pool.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "check.h"

using namespace clickline::base;

namespace {

void every_chunk_runs_once() {
  for (int threads : {-1, 0, 1, 2, 3, 8, 1000})
    for (size_t chunks : {0, 1, 2, 7, 1000}) {
      std::vector<int> ran(chunks, 0);  // plain ints: each chunk is one thread's, and finished on return
      parallel_for(chunks, threads, [&](size_t i) { ++ran[i]; });
      for (int times : ran) CHECK_EQ(times, 1);
    }
}

void really_runs_on_several_threads() {
  std::latch both(2);  // would wait for ever if one thread ran both chunks
  std::thread::id ids[2];
  parallel_for(2, 2, [&](size_t i) {
    both.arrive_and_wait();
    ids[i] = std::this_thread::get_id();
  });
  CHECK(ids[0] != ids[1]);
}

void one_thread_is_the_caller_in_order() {
  std::vector<size_t> order;
  parallel_for(5, 1, [&](size_t i) { order.push_back(i); });
  CHECK(order == (std::vector<size_t>{0, 1, 2, 3, 4}));
}

void exceptions_reach_the_caller() {
  for (int threads : {1, 2, 4})
    for (int round = 0; round < 50; ++round) {
      CHECK_THROWS(parallel_for(20, threads, [&](size_t i) { if (i == 7) throw std::runtime_error("chunk seven"); }),
                   "chunk seven");
      CHECK_THROWS(parallel_for(20, threads, [&](size_t) { throw std::runtime_error("each"); }), "each");
    }
  std::atomic<int> ran{0};
  parallel_for(20, 4, [&](size_t) { ++ran; });  // and the pool is none the worse for it
  CHECK_EQ(ran.load(), 20);
}

void many_callers_and_nesting() {
  std::vector<std::thread> callers;
  std::vector<size_t> sums(6, 0);
  for (size_t c = 0; c < sums.size(); ++c)
    callers.emplace_back([&, c] {
      for (int round = 0; round < 100; ++round) {
        std::vector<size_t> part(16, 0);
        parallel_for(4, 3, [&](size_t i) {
          parallel_for(4, 2, [&, i](size_t j) { part[i * 4 + j] = i * 4 + j + 1; });
        });
        sums[c] += std::accumulate(part.begin(), part.end(), size_t{0});
      }
    });
  for (auto &caller : callers) caller.join();
  for (size_t sum : sums) CHECK_EQ(sum, size_t{100 * 136});
}

void results_are_visible_when_workers_had_slept() {
  for (int round = 0; round < 20; ++round) {
    // Longer than workers watch before they sleep; whether they do is not what is checked.
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(round % 2 ? 100 : 0);
    while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
    std::vector<size_t> values(64, 0);
    parallel_for(64, 4, [&](size_t i) { values[i] = i; });
    CHECK_EQ(std::accumulate(values.begin(), values.end(), size_t{0}), size_t{64 * 63 / 2});
  }
}

// The thread sanitizer does not support threads after a fork of a process that had some.
#if !defined(__SANITIZE_THREAD__)
void a_forked_child_gets_its_own_threads() {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    really_runs_on_several_threads();
    many_callers_and_nesting();
    _exit(42);
  }
  int status = 0;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status));
  CHECK_EQ(WEXITSTATUS(status), 42);
  really_runs_on_several_threads();
}
#endif

}  // namespace

int main() {
  every_chunk_runs_once();
  really_runs_on_several_threads();
  one_thread_is_the_caller_in_order();
  exceptions_reach_the_caller();
  many_callers_and_nesting();
  results_are_visible_when_workers_had_slept();
#if !defined(__SANITIZE_THREAD__)
  a_forked_child_gets_its_own_threads();
#endif
}
