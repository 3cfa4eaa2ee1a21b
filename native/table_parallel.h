// Runs a body for every chunk number on some threads; the first exception is thrown once all have ended.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace clickline {

inline void parallel_for(size_t n_chunks, int threads, const std::function<void(size_t)> &body) {
  const size_t workers = std::min<size_t>(n_chunks, static_cast<size_t>(std::max(threads, 1)));
  if (workers <= 1) {
    for (size_t chunk = 0; chunk < n_chunks; ++chunk) body(chunk);
    return;
  }
  std::atomic<size_t> next{0};
  std::exception_ptr failure;
  std::mutex failing;
  auto work = [&] {
    try {
      for (size_t chunk; (chunk = next.fetch_add(1)) < n_chunks;) body(chunk);
    } catch (...) {
      std::lock_guard lock(failing);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> pool;
    for (size_t i = 1; i < workers; ++i) pool.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace clickline
