// Rows to the batch and gradients back. The inner loops are compiled for the usual widths of a row, so that a
// vector stays in registers, and once for any other.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/pool.h"
#include "plan/plan.h"

namespace clickline::plan {
namespace {

constexpr size_t kFloatsWorthSharing = 32768;  // floats; less is done before a helper is awake
constexpr size_t kAhead = 16;            // occurrences between asking for a vector and reading it
constexpr size_t kTasksPerThread = 4;

template <class Body>
void with_width(size_t dim, const Body &body) {
  switch (dim) {
    case 1: return body(std::integral_constant<size_t, 1>{});
    case 4: return body(std::integral_constant<size_t, 4>{});
    case 8: return body(std::integral_constant<size_t, 8>{});
    case 10: return body(std::integral_constant<size_t, 10>{});
    case 11: return body(std::integral_constant<size_t, 11>{});
    case 16: return body(std::integral_constant<size_t, 16>{});
    case 32: return body(std::integral_constant<size_t, 32>{});
    default: return body(dim);
  }
}

template <class Dim>
inline void copy(float *__restrict out, const float *__restrict from, Dim dim) {
  if constexpr (std::is_same_v<Dim, size_t>) {
    for (size_t d = 0; d < dim; ++d) out[d] = from[d];
  } else {
    std::memcpy(out, from, dim * sizeof(float));
  }
}

template <class Dim>
inline void add(float *__restrict out, const float *__restrict from, Dim dim) {
  for (size_t d = 0; d < dim; ++d) out[d] += from[d];
}

template <class Dim>
inline void add_scaled(float *__restrict out, const float *__restrict from, float scale, Dim dim) {
  for (size_t d = 0; d < dim; ++d) out[d] += scale * from[d];
}

// What a key's gradients are summed in: registers if the width is known, else the output itself.
template <class Dim>
struct Sum {
  Sum(float *out, Dim) : out(out) {}
  ~Sum() { std::memcpy(out, values, sizeof values); }
  float *data() { return values; }
  float *out;
  float values[Dim::value] = {};
};
template <>
struct Sum<size_t> {
  Sum(float *out, size_t) : out(out) {}
  float *data() { return out; }
  float *out;
};

}  // namespace

template <class Dim>
void Plan::gather_rows(const float *rows, Dim dim, float *out, size_t first, size_t last) const {
  const uint32_t *which = which_.data(), *starts = starts_.data();
  auto vector = [&](size_t occurrence) { return rows + size_t{which[occurrence]} * dim; };
  auto expect = [&](size_t occurrence) { __builtin_prefetch(vector(std::min(occurrence + kAhead, occurrences_ - 1))); };
  if (!ragged_ && !sequence_) {  // whatever the pooling: it is over one value
    const size_t end = last * width_;
    for (size_t i = first * width_; i < end; ++i) {
      expect(i);
      copy(out + i * dim, vector(i), dim);
    }
    return;
  }
  for (size_t r = first; r < last; ++r) {
    if (sequence_) {
      const size_t start = ragged_ ? starts[r] : r, length = static_cast<size_t>(lengths_[r]);
      float *to = out + r * sequence_ * dim;
      for (size_t k = 0; k < length; ++k) {
        expect(start + k);
        copy(to + k * dim, vector(start + k), dim);
      }
      std::memset(to + length * dim, 0, (sequence_ - length) * dim * sizeof(float));
      continue;
    }
    for (size_t s = 0; s < width_; ++s) {
      const size_t cell = r * width_ + s, start = starts[cell], end = starts[cell + 1];
      if (start == end) {
        std::memset(out + cell * dim, 0, dim * sizeof(float));
        continue;
      }
      expect(start);
      if (end - start == 1) {
        copy(out + cell * dim, vector(start), dim);
        continue;
      }
      Sum<Dim> sum(out + cell * dim, dim);
      float *to = sum.data();
      copy(to, vector(start), dim);
      if (pooling_[s] == Pooling::max) {
        for (size_t i = start + 1; i < end; ++i) {
          expect(i);
          const float *from = vector(i);
          for (size_t d = 0; d < dim; ++d) to[d] = from[d] > to[d] ? from[d] : to[d];
        }
      } else {
        for (size_t i = start + 1; i < end; ++i) {
          expect(i);
          add(to, vector(i), dim);
        }
        if (pooling_[s] == Pooling::mean) {
          const float scale = 1.0f / static_cast<float>(end - start);
          for (size_t d = 0; d < dim; ++d) to[d] *= scale;
        }
      }
    }
  }
}

// maxima is null if every value simply gets its vector's gradient.
template <class Dim>
void Plan::scatter_keys(const float *grad, const uint32_t *maxima, Dim dim, float *out, size_t first,
                        size_t last) const {
  const uint32_t *targets = targets_.data(), *runs = runs_.data();
  auto expect = [&](size_t i) { return targets[std::min(i + kAhead, occurrences_ - 1)]; };
  const bool simple = !ragged_ || sequence_ || std::ranges::count(pooling_, Pooling::sum) == std::ssize(pooling_);
  if (simple) {
    for (size_t u = first; u < last; ++u) {
      Sum<Dim> sum(out + u * dim, dim);
      size_t i = runs[u];
      const size_t end = runs[u + 1];
      __builtin_prefetch(grad + size_t{expect(i)} * dim);
      copy(sum.data(), grad + size_t{targets[i]} * dim, dim);
      for (++i; i < end; ++i) {
        __builtin_prefetch(grad + size_t{expect(i)} * dim);
        add(sum.data(), grad + size_t{targets[i]} * dim, dim);
      }
    }
    return;
  }
  for (size_t u = first; u < last; ++u) {
    Sum<Dim> sum(out + u * dim, dim);
    float *to = sum.data();
    for (size_t d = 0; d < dim; ++d) to[d] = 0.0f;
    for (size_t i = runs[u]; i < runs[u + 1]; ++i) {
      __builtin_prefetch(grad + size_t{expect(i)} * dim);
      __builtin_prefetch(starts_.data() + expect(i));
      const uint32_t cell = targets[i], s = slot_of_.remainder(cell), count = starts_[cell + 1] - starts_[cell];
      const float *from = grad + size_t{cell} * dim;
      if (count == 1 || pooling_[s] == Pooling::sum) {
        add(to, from, dim);
      } else if (pooling_[s] == Pooling::mean) {
        add_scaled(to, from, 1.0f / static_cast<float>(count), dim);
      } else if (i == runs[u] || targets[i - 1] != cell) {  // a key that is twice in the cell gets it once
        const uint32_t *winner = maxima + ((cell / width_) * max_slots_ + max_index_[s]) * dim;
        for (size_t d = 0; d < dim; ++d) to[d] += winner[d] == u ? from[d] : 0.0f;
      }
    }
  }
}

// For every element of a max-pooled (row, slot) with several values: the key it came from. [rows, max slots, dim]
base::Recycled<uint32_t> Plan::find_maxima(const float *rows, size_t dim, int threads) const {
  base::Recycled<uint32_t> maxima(rows_ * max_slots_ * dim);
  const size_t tasks = std::min(rows_, static_cast<size_t>(threads) * kTasksPerThread);
  base::parallel_for(tasks, threads, [&](size_t task) {
    for (size_t r = rows_ * task / tasks; r < rows_ * (task + 1) / tasks; ++r)
      for (size_t s = 0; s < width_; ++s) {
        const size_t cell = r * width_ + s, start = starts_[cell], end = starts_[cell + 1];
        if (pooling_[s] != Pooling::max || end - start < 2) continue;
        uint32_t *winner = maxima.data() + (r * max_slots_ + max_index_[s]) * dim;
        std::fill_n(winner, dim, which_[start]);
        for (size_t i = start + 1; i < end; ++i)
          for (size_t d = 0; d < dim; ++d)
            if (rows[size_t{which_[i]} * dim + d] > rows[size_t{winner[d]} * dim + d]) winner[d] = which_[i];
      }
  });
  return maxima;
}

void Plan::gather(const float *rows, size_t dim, float *out, int threads) const {
  if (occurrences_ * dim < kFloatsWorthSharing) threads = 1;
  const size_t tasks = threads <= 1 ? 1 : std::min(rows_, static_cast<size_t>(threads) * kTasksPerThread);
  with_width(dim, [&](auto width) {
    base::parallel_for(tasks, threads, [&](size_t task) {
      gather_rows(rows, width, out, rows_ * task / tasks, rows_ * (task + 1) / tasks);
    });
  });
}

void Plan::scatter(const float *grad, const float *rows, size_t dim, float *out, int threads) const {
  if (distinct_ == 0) return;
  if (occurrences_ * dim < kFloatsWorthSharing) threads = 1;
  base::Recycled<uint32_t> maxima;
  if (ragged_ && max_slots_) maxima = find_maxima(rows, dim, threads);
  // Tasks of about as many occurrences each, cut between keys.
  const size_t tasks = threads <= 1 ? 1 : static_cast<size_t>(threads) * kTasksPerThread, keys = distinct_;
  auto cut = [&](size_t task) -> size_t {
    if (task == tasks) return keys;
    const auto goal = static_cast<uint32_t>(occurrences_ * task / tasks);
    return static_cast<size_t>(std::lower_bound(runs_.data(), runs_.data() + keys, goal) - runs_.data());
  };
  with_width(dim, [&](auto width) {
    base::parallel_for(tasks, threads, [&](size_t task) {
      const size_t first = cut(task), last = cut(task + 1);
      if (first < last) scatter_keys(grad, maxima.data(), width, out, first, last);
    });
  });
}

}  // namespace clickline::plan
