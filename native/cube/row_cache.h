// Rows of one table of one version that were asked for lately, in a bounded amount of memory. It belongs to a version,
// whose rows never change, so what it holds is never stale; another version has another cache. Whole keys are compared.
//
// Eight ways to a set; in a full set the row goes that was not asked for since the others were (a clock with two bits).
// One thread at a time: a lock keeps it so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace clickline::cube {

class RowCache {
 public:
  static constexpr size_t kWays = 8;

  // Throws std::invalid_argument if not even one set fits into so many bytes.
  RowCache(size_t bytes, size_t dim);

  size_t dim() const { return dim_; }
  size_t capacity() const { return sets_ * kWays; }   // rows
  size_t size() const { return size_; }

  // Copies the rows of known keys to their places in `rows` [keys, dim] and says in `missing` [keys] whether the version
  // has none (1). Gives back the places of all others, in order.
  std::vector<int64_t> lookup(const uint64_t *keys, size_t count, float *rows, uint8_t *missing);
  void insert(const uint64_t *keys, size_t count, const float *rows, const uint8_t *missing);

 private:
  struct Way {
    uint64_t key;
    uint8_t used;      // 0: free; else 1 + how recently it was asked for
    uint8_t missing;   // there is no such row in the version
  };
  size_t set_of(uint64_t key) const { return static_cast<size_t>((key * 0x9E3779B97F4A7C15ull) >> 32) & (sets_ - 1); }
  Way *find(size_t set, uint64_t key);
  size_t victim(size_t set);

  const size_t dim_;
  size_t sets_ = 0, size_ = 0;
  std::vector<Way> ways_;
  std::vector<uint8_t> hands_;   // of each set: where the clock stands
  std::unique_ptr<float[]> rows_;
  std::mutex lock_;
};

}  // namespace clickline::cube
