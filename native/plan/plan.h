// A batch names the same key many times; tables should hear of it once. A Plan is made per batch and table: it
// finds the distinct keys, with what a table wants to know of each, and then carries rows from the distinct keys
// to the batch (gather, pooled per slot) and gradients back (scatter).
//
// Promises:
// - unique() is ordered by bucket_of, ascending, so also grouped by stripe (bucket >> 4); within a bucket, by
//   first occurrence in the batch.
// - Every result is the same, bit for bit, for any number of threads; a sum runs over occurrences in batch order.
// - A plan does not change after construction and keeps no pointer into its inputs: gather and scatter may be
//   called from several threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/recycled.h"

namespace clickline::plan {

enum class Pooling : uint8_t { sum = 0, mean = 1, max = 2 };

struct PlanInput {
  std::span<const uint64_t> keys;     // row-major: row 0's first slot, row 0's second slot, …
  std::span<const int64_t> offsets;   // rows * columns + 1 of them, or empty: one key per (row, slot)
  size_t columns;                     // slots per row in keys
  std::span<const int64_t> select;    // the slots this plan is about, in the order of the output
  std::span<const int64_t> pooling;   // a Pooling for each selected slot
  const float *labels;                // one per row
  size_t rows;
  ptrdiff_t label_stride = 1;         // in floats
  int64_t sequence_length = 0;        // > 0: no pooling; the last so many values of the one selected slot, apart
  int threads = 1;
};

// Division of 32-bit numbers by the same one again and again, by multiplication.
struct Divider {
  explicit Divider(uint32_t by) : by(by), magic(UINT64_MAX / by + 1) {}
  uint32_t quotient(uint32_t x) const {
    return by == 1 ? x : static_cast<uint32_t>((static_cast<unsigned __int128>(magic) * x) >> 64);
  }
  uint32_t remainder(uint32_t x) const { return x - quotient(x) * by; }
  uint32_t by;
  uint64_t magic;
};

class Plan {
 public:
  // Throws std::invalid_argument if the input contradicts itself.
  explicit Plan(const PlanInput &input);

  size_t rows() const { return rows_; }
  size_t places() const { return sequence_ ? sequence_ : width_; }  // second dimension of gather's output
  size_t sequence_length() const { return sequence_; }
  size_t occurrences() const { return occurrences_; }

  // All of the same length, one entry per distinct key.
  std::span<const uint64_t> unique() const { return {unique_.data(), distinct_}; }
  std::span<const uint16_t> slots() const { return {slots_.data(), distinct_}; }  // of the first occurrence
  std::span<const float> shows() const { return {shows_.data(), distinct_}; }     // occurrences
  std::span<const float> clicks() const { return {clicks_.data(), distinct_}; }  // those with label > 0.5

  // Values kept per row. Only with sequence_length.
  std::span<const int32_t> lengths() const { return {lengths_.data(), lengths_.size()}; }

  // rows: [unique, dim]; out: [rows, places, dim]. An empty (row, slot), and a sequence's unused tail, are zeros.
  void gather(const float *rows, size_t dim, float *out, int threads) const;

  // The transpose: grad has the shape of gather's output, out that of rows. With max pooling an element's
  // gradient goes to the value it came from, the first of equal ones; this is what rows is read for.
  void scatter(const float *grad, const float *rows, size_t dim, float *out, int threads) const;

 private:
  friend class PlanBuilder;

  base::Recycled<uint32_t> find_maxima(const float *rows, size_t dim, int threads) const;
  template <class Dim>
  void gather_rows(const float *rows, Dim dim, float *out, size_t first, size_t last) const;
  template <class Dim>
  void scatter_keys(const float *grad, const uint32_t *maxima, Dim dim, float *out, size_t first, size_t last) const;

  size_t rows_ = 0, width_ = 0, sequence_ = 0, occurrences_ = 0, distinct_ = 0;
  bool ragged_ = false;              // else occurrence i is (row, slot) i
  Divider slot_of_{1};               // remainder of a (row, slot)'s number = its place in select
  std::vector<Pooling> pooling_;     // per selected slot
  std::vector<uint32_t> max_index_;  // per selected slot: which of the max-pooled ones it is
  uint32_t max_slots_ = 0;

  base::Recycled<uint64_t> unique_;
  base::Recycled<uint16_t> slots_;
  base::Recycled<float> shows_, clicks_;
  base::Recycled<int32_t> lengths_;
  base::Recycled<uint32_t> starts_;   // ragged: where each (row, slot), or each row's sequence, starts in which_
  base::Recycled<uint32_t> which_;    // per occurrence, in batch order: its place in unique
  base::Recycled<uint32_t> targets_;  // per occurrence, ordered by (key, batch order): the output vector it adds to
  base::Recycled<uint32_t> runs_;     // where each distinct key starts in targets_, plus the end
};

}  // namespace clickline::plan
