#include "base/recycled.h"

#include <array>
#include <bit>
#include <mutex>
#include <new>
#include <vector>

namespace clickline::detail {
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

struct Shelf {
  std::mutex mutex;
  std::array<std::vector<void *>, 64> free;  // by power of two
  size_t kept = 0;
  Shelf() {
    for (auto &list : free) list.reserve(kKeptPerSize);
  }
};

// Never destroyed: a plan may be released by Python after static destructors have run.
Shelf &shelf() {
  static Shelf *const instance = new Shelf;
  return *instance;
}

}  // namespace

void *take_memory(size_t &bytes) {
  if (kRecycle && bytes >= kSmallest) {
    bytes = std::bit_ceil(bytes);
    // Only try: after fork the lock may be held by a thread that the child does not have.
    if (std::unique_lock lock(shelf().mutex, std::try_to_lock); lock) {
      auto &list = shelf().free[std::countr_zero(bytes)];
      if (!list.empty()) {
        void *memory = list.back();
        list.pop_back();
        shelf().kept -= bytes;
        return memory;
      }
    }
  }
  return ::operator new(bytes, kAlign);
}

void give_memory(void *memory, size_t bytes) noexcept {
  if (kRecycle && bytes >= kSmallest) {
    if (std::unique_lock lock(shelf().mutex, std::try_to_lock); lock) {
      auto &list = shelf().free[std::countr_zero(bytes)];
      if (list.size() < kKeptPerSize && shelf().kept + bytes <= kKept) {
        list.push_back(memory);
        shelf().kept += bytes;
        return;
      }
    }
  }
  ::operator delete(memory, kAlign);
}

}  // namespace clickline::detail
