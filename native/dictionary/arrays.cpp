// A dictionary from arrays in any order: dealt out to slices of buckets, then each slice sorted by itself.
#include <algorithm>
#include <array>

#include "base/pool.h"
#include "dictionary/writer.h"

namespace clickline::dictionary {

namespace {

constexpr uint32_t kSlices = base::kBuckets / kSliceBuckets;

struct Entry {
  uint64_t spread, index;
  bool operator<(const Entry &other) const { return spread < other.spread; }
};

uint32_t slice_of(uint64_t spread) { return static_cast<uint32_t>(spread >> 52) / kSliceBuckets; }

class SortedKeys {
 public:
  SortedKeys(std::span<const uint64_t> keys, const DictionaryHeader &shape, int threads) : entries_(keys.size()) {
    for (const uint64_t key : keys) {
      const uint32_t bucket = base::bucket_of(key);
      if (bucket < shape.first_bucket || bucket >= shape.last_bucket)
        throw std::invalid_argument("key " + std::to_string(key) + " is of bucket " + std::to_string(bucket) +
                                    ", which is not among " + std::to_string(shape.first_bucket) + " to below " +
                                    std::to_string(shape.last_bucket));
      ++begins_[bucket / kSliceBuckets + 1];
    }
    for (uint32_t s = 0; s < kSlices; ++s) begins_[s + 1] += begins_[s];
    auto next = begins_;
    for (uint64_t i = 0; i < keys.size(); ++i) {
      const uint64_t spread = spread_of(keys[i]);
      entries_[next[slice_of(spread)]++] = {spread, i};
    }
    base::parallel_for(kSlices, threads, [&](size_t s) {
      const std::span<Entry> slice(entries_.data() + begins_[s], begins_[s + 1] - begins_[s]);
      std::sort(slice.begin(), slice.end());
      for (size_t i = 1; i < slice.size(); ++i)
        if (slice[i].spread == slice[i - 1].spread)
          throw std::invalid_argument("key " + std::to_string(key_of(slice[i].spread)) + " comes twice");
    });
  }

  // Writers ask for whole slices, or what their own buckets leave of them, and no key is of other buckets.
  std::span<const Entry> slice(uint32_t first_bucket) const {
    const uint32_t s = first_bucket / kSliceBuckets;
    return {entries_.data() + begins_[s], begins_[s + 1] - begins_[s]};
  }

 private:
  std::vector<Entry> entries_;
  std::array<uint64_t, kSlices + 1> begins_{};
};

void check_offsets(const DictionaryArrays &arrays) {
  for (size_t i = 0; i < arrays.keys.size(); ++i)
    if (arrays.offsets[i] > arrays.offsets[i + 1])
      throw std::invalid_argument("offsets must not descend, but " + std::to_string(arrays.offsets[i + 1]) +
                                  " follows " + std::to_string(arrays.offsets[i]));
}

}  // namespace

DictionarySummary write_arrays(const std::string &path, const DictionaryHeader &shape, const DictionaryArrays &arrays,
                               int threads) {
  shape.check_shape();
  if (arrays.offsets) check_offsets(arrays);
  const SortedKeys rows(arrays.keys, shape, threads), deleted(arrays.deleted, shape, threads);
  auto source = [&](uint32_t first, uint32_t, bool, DictionarySlice &slice) {
    const auto mine = rows.slice(first), gone = deleted.slice(first);
    slice.rows.reserve(mine.size());
    for (const Entry &entry : mine) {
      const uint64_t begin = arrays.offsets ? arrays.offsets[entry.index] : entry.index * shape.row_bytes;
      const uint64_t end = arrays.offsets ? arrays.offsets[entry.index + 1] : begin + shape.row_bytes;
      slice.rows.push_back({entry.spread, {arrays.values + begin, end - begin}});
    }
    auto row = mine.begin();
    for (const Entry &entry : gone) {
      row = std::lower_bound(row, mine.end(), entry);
      if (row != mine.end() && row->spread == entry.spread)
        throw std::invalid_argument("key " + std::to_string(key_of(entry.spread)) + " is both written and deleted");
      slice.deleted.push_back(entry.spread);
    }
  };
  return write_dictionary(path, shape, source, threads);
}

}  // namespace clickline::dictionary
