// The rows of one stripe, by number. A row is a header, its weights and the optimizer's state, side by side,
// so that a push touches neighbouring cache lines only. Rows live in pieces that never move, so growth does
// not copy them (only the first piece starts small and is copied while it is). Freed numbers are used again.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include "table/row_memory.h"

namespace clickline::table {

// Rows need 4-byte alignment only: an odd number of floats follows where dim is odd.
struct __attribute__((packed, aligned(4))) RowHeader {
  uint64_t key;
  float show, click;
  uint32_t last_seen;
  uint16_t slot;
  uint16_t live;  // 0: free, and `key` holds the number of the next free row

  float *weights() { return reinterpret_cast<float *>(reinterpret_cast<char *>(this) + sizeof(RowHeader)); }
  const float *weights() const { return const_cast<RowHeader *>(this)->weights(); }
};
static_assert(sizeof(RowHeader) == 24);

inline constexpr uint32_t kNoRow = 0xFFFFFF;  // row numbers have 24 bits; the last means none

struct RowLayout {
  uint32_t dim, state_width;  // floats per row: weights; optimizer state

  uint32_t stride() const { return sizeof(RowHeader) + 4 * (dim + state_width); }
  uint32_t pulled() const { return sizeof(RowHeader) + 4 * dim; }
  // Key, show, click, last seen, slot, weights, state: what a row is worth, whatever holds it.
  uint32_t payload() const { return 22 + 4 * (dim + state_width); }
  // Rows of a piece: a power of two, and about 64 KiB of them.
  uint32_t piece_rows() const { return std::clamp(std::bit_floor((uint32_t{1} << 16) / stride()), 1u, 1024u); }
};

class RowStore {
 public:
  void open(RowLayout layout, RowMemory *memory) {
    stride_ = layout.stride();
    shift_ = static_cast<uint32_t>(std::countr_zero(layout.piece_rows()));
    memory_ = memory;
  }

  RowHeader *operator[](uint32_t row) const {
    char *piece = pieces_[row >> shift_];
    return reinterpret_cast<RowHeader *>(piece + size_t{row & ((1u << shift_) - 1)} * stride_);
  }

  // A number whose row is marked live; everything else in it is the caller's to fill.
  uint32_t take() {
    uint32_t row = free_;
    if (row != kNoRow) {
      free_ = static_cast<uint32_t>((*this)[row]->key);
    } else {
      if (used_ == room_) make_room();
      row = used_++;
    }
    (*this)[row]->live = 1;
    ++live_;
    return row;
  }

  void release(uint32_t row) {
    RowHeader *header = (*this)[row];
    header->live = 0;
    header->key = free_;
    free_ = row;
    --live_;
  }

  // Room for so many more rows than there are, without allocating anything then. Throws having changed no row.
  void reserve(uint64_t more) {
    while (spare() < more) make_room();
  }
  uint32_t spare() const { return room_ - live_; }  // new numbers, and those of rows that were freed

  uint32_t stride() const { return stride_; }
  uint32_t live() const { return live_; }
  uint32_t used() const { return used_; }  // numbers below this were handed out; check `live`
  // Without the pieces, which RowMemory counts.
  size_t bytes() const { return pieces_.capacity() * sizeof(char *) + (small_ ? room_ * size_t{stride_} : 0); }

 private:
  // Another piece or, while there is not even one, a larger beginning of it.
  void make_room() {
    if (room_ == kNoRow) throw std::length_error("a table holds at most 16,777,215 rows per stripe of 16 buckets");
    const uint32_t piece_rows = 1u << shift_;
    pieces_.reserve(pieces_.size() < pieces_.capacity() ? 0 : std::max<size_t>(1, pieces_.size() * 2));
    if (room_ >= piece_rows) {
      pieces_.push_back(memory_->piece());
      room_ = std::min(kNoRow, room_ + piece_rows);
      return;
    }
    const uint32_t rows = std::min(piece_rows, std::max(4u, room_ * 2));
    std::unique_ptr<char[]> larger(rows < piece_rows ? new char[rows * size_t{stride_}] : nullptr);
    char *place = larger ? larger.get() : memory_->piece();
    if (used_) std::memcpy(place, pieces_[0], used_ * size_t{stride_});
    if (pieces_.empty()) pieces_.push_back(nullptr);
    pieces_[0] = place;
    small_ = std::move(larger);
    room_ = rows;
  }

  std::vector<char *> pieces_;
  std::unique_ptr<char[]> small_;  // the first piece while it is smaller than a piece
  RowMemory *memory_ = nullptr;
  uint32_t stride_ = 0, shift_ = 0;
  uint32_t room_ = 0;  // numbers below this have memory
  uint32_t used_ = 0, live_ = 0, free_ = kNoRow;
};

}  // namespace clickline::table
