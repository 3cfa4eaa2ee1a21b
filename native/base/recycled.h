// Big arrays that live for one training step. Fresh megabytes from the system cost a page fault per 4 KiB, every
// step anew; so a released array goes on a list and the next step takes it from there, warm.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace clickline::base {

namespace detail {
// Memory of at least `bytes`, 64-byte aligned, uninitialised; `bytes` becomes the true size, to be handed back.
void *take_memory(size_t &bytes);
void give_memory(void *memory, size_t bytes) noexcept;
}  // namespace detail

// An uninitialised array of plain values.
template <class T>
class Recycled {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  Recycled() = default;
  explicit Recycled(size_t size) : size_(size), bytes_(size * sizeof(T)) {
    if (size) data_ = static_cast<T *>(detail::take_memory(bytes_));
  }
  Recycled(Recycled &&other) noexcept { *this = std::move(other); }
  Recycled &operator=(Recycled &&other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Recycled() {
    if (data_) detail::give_memory(data_, bytes_);
  }

  T *data() { return data_; }
  const T *data() const { return data_; }
  size_t size() const { return size_; }
  T &operator[](size_t i) { return data_[i]; }
  const T &operator[](size_t i) const { return data_[i]; }

 private:
  T *data_ = nullptr;
  size_t size_ = 0, bytes_ = 0;
};

}  // namespace clickline::base
