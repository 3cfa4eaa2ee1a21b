// Making dictionaries: from arrays, and from other dictionaries. All of it is a walk through the buckets in order,
// twice: once to count, since the sizes decide where sections begin, and once to write.
// docs/reference/dictionary-format.md is the specification.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dictionary/dictionary.h"

namespace clickline::dictionary {

// Counts of a dictionary file that was written.
struct DictionarySummary {
  uint64_t count = 0, deleted = 0, bytes = 0;
};

// Rows and deleted keys of some buckets, in order of spread.
struct DictionarySlice {
  struct Row {
    uint64_t spread;
    std::string_view value;
  };
  std::vector<Row> rows;
  std::vector<uint64_t> deleted;  // spreads
  std::vector<char> made;         // memory of values that are encoded for this slice
};

// Fills an empty slice with what is in buckets [first, last), at most kSliceBuckets that begin at a multiple of it. Is
// called from several threads, for each slice twice: first only for the counts and sizes (`values` false: the views
// need to have their size, not to point anywhere), then for the bytes.
inline constexpr uint32_t kSliceBuckets = 16;
using DictionarySource = std::function<void(uint32_t first, uint32_t last, bool values, DictionarySlice &slice)>;

// Writes to `path`, which is on the disk when this returns and removed if it throws. Of `shape` only dtype, dim,
// row_bytes and the buckets count. Throws DictionaryError if the source is out of order or changes between the calls.
DictionarySummary write_dictionary(const std::string &path, const DictionaryHeader &shape,
                                   const DictionarySource &source, int threads);

// From arrays, in any order of keys. Value i is [offsets[i], offsets[i + 1]) of `values`, or row i if offsets is null.
// Throws std::invalid_argument for a key that comes twice, is both written and deleted, or is of other buckets.
struct DictionaryArrays {
  std::span<const uint64_t> keys, deleted;
  const char *values = nullptr;
  const uint64_t *offsets = nullptr;
};
DictionarySummary write_arrays(const std::string &path, const DictionaryHeader &shape, const DictionaryArrays &arrays,
                               int threads);

using DictionaryList = std::vector<std::shared_ptr<const Dictionary>>;

// What a reader of these layers sees, in one file, of buckets [first, last), each of which must be of one layer at
// least. keep_deleted: keys whose newest entry is a deletion stay deleted, for a delta; otherwise they are left out.
DictionarySummary merge_dictionaries(const std::string &path, const DictionaryList &layers, uint32_t first,
                                     uint32_t last, bool keep_deleted, int threads);

// The delta that makes `made` of `parent`: rows that are new or have other bytes, and keys that are gone. Both are
// layers, of the same buckets.
DictionarySummary difference_dictionary(const std::string &path, const DictionaryList &parent,
                                        const DictionaryList &made, int threads);

}  // namespace clickline::dictionary
