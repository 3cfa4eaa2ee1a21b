#include "base/recycled.h"

#include <array>
#include <bit>
#include <mutex>
#include <new>
#include <vector>

namespace clickline::base::detail {
namespace {

constexpr std::align_val_t kAlign{64};
constexpr size_t kSmallest = size_t{1} << 15;      // below this malloc does as well
constexpr size_t kKept = size_t{256} << 20;        // bytes on the list at most
constexpr size_t kKeptPerSize = 16;

// Under a sanitizer every array is its own allocation, so that use after release is seen.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kRecycle = false;
#else
constexpr bool kRecycle = true;
#endif

struct FreeLists {
  std::mutex mutex;
  std::array<std::vector<void *>, 64> free;  // by power of two
  size_t kept = 0;
  FreeLists() {
    for (auto &list : free) list.reserve(kKeptPerSize);
  }
};

// Never destroyed: a plan may be released by Python after static destructors have run.
FreeLists &free_lists() {
  static FreeLists *const instance = new FreeLists;
  return *instance;
}

}  // namespace

void *take_memory(size_t &bytes) {
  if (kRecycle && bytes >= kSmallest) {
    bytes = std::bit_ceil(bytes);
    // Only try: after fork the lock may be held by a thread that the child does not have.
    if (std::unique_lock lock(free_lists().mutex, std::try_to_lock); lock) {
      auto &list = free_lists().free[std::countr_zero(bytes)];
      if (!list.empty()) {
        void *memory = list.back();
        list.pop_back();
        free_lists().kept -= bytes;
        return memory;
      }
    }
  }
  return ::operator new(bytes, kAlign);
}

void give_memory(void *memory, size_t bytes) noexcept {
  if (kRecycle && bytes >= kSmallest) {
    if (std::unique_lock lock(free_lists().mutex, std::try_to_lock); lock) {
      auto &list = free_lists().free[std::countr_zero(bytes)];
      if (list.size() < kKeptPerSize && free_lists().kept + bytes <= kKept) {
        list.push_back(memory);
        free_lists().kept += bytes;
        return;
      }
    }
  }
  ::operator delete(memory, kAlign);
}

}  // namespace clickline::base::detail
