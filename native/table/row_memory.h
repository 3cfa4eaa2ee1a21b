// Memory of rows: pieces of one size, carved from large blocks. Blocks ask for huge pages, since random
// access to gigabytes of rows is bound by address translation as much as by memory itself.
// Nothing is given back before the table goes: rows that were evicted are reused by the rows to come.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace clickline::table {

class RowMemory {
 public:
  explicit RowMemory(size_t piece_bytes) : piece_bytes_(piece_bytes) {}

  // Thread safe: stripes grow at the same time.
  char *piece() {
    std::lock_guard lock(mutex_);
    if (left_ < piece_bytes_) add_block();
    char *result = next_;
    next_ += piece_bytes_;
    left_ -= piece_bytes_;
    return result;
  }

  // Everything taken from the system, used or not.
  size_t bytes() const {
    std::lock_guard lock(mutex_);
    return total_ + blocks_.capacity() * sizeof(Block);
  }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;
  struct Free {
    void operator()(char *block) const { ::operator delete(block, std::align_val_t{kHugePage}); }
  };
  using Block = std::unique_ptr<char, Free>;

  // A block is a 32nd of what there is, so that both the slack and the number of blocks stay small.
  void add_block() {
    const size_t wanted = std::max(piece_bytes_, total_ / 32);
    const size_t bytes = (wanted + kHugePage - 1) / kHugePage * kHugePage;
    blocks_.reserve(blocks_.size() < blocks_.capacity() ? 0 : std::max<size_t>(4, blocks_.size() * 2));
    Block block(static_cast<char *>(::operator new(bytes, std::align_val_t{kHugePage})));
#if defined(__linux__)
    madvise(block.get(), bytes, MADV_HUGEPAGE);  // advice only: failing changes nothing but speed
#endif
    next_ = block.get();
    blocks_.push_back(std::move(block));
    left_ = bytes;
    total_ += bytes;
  }

  const size_t piece_bytes_;
  mutable std::mutex mutex_;
  std::vector<Block> blocks_;
  char *next_ = nullptr;
  size_t left_ = 0, total_ = 0;
};

}  // namespace clickline::table
