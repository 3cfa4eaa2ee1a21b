// Rows by 64-bit key in one read-only file, the dictionary, and layers of them: a base and deltas above it.
// docs/reference/dictionary-format.md is the specification; dictionary/writer.h writes them.
// Promises:
// - Everything here is immutable once opened: any number of threads may call anything at any time, and a
//   shared pointer to it keeps its rows alive. Nothing here waits for a lock.
// - Opening looks at the header and at the size of the file only. Nothing in the other sections is believed: a hostile
//   file can give wrong rows, never a read out of bounds. verify() looks at every byte.
// - A file that is mapped must not be written to or cut while it is open; replace it by rename.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dictionary/header.h"
#include "dictionary/mapped_file.h"

namespace clickline::dictionary {

// Status of a key in a lookup, one byte each.
inline constexpr uint8_t kFound = 0, kMissing = 1, kDeleted = 2;

struct DictionaryLocation {
  std::string path;
  uint64_t offset = 0;             // inside a tar; a multiple of 64 unless `memory`
  std::optional<uint64_t> length = {};  // up to the end of the file, if not given
  bool memory = false;             // read into memory of huge pages instead of mapped
};

class Dictionary : public std::enable_shared_from_this<Dictionary> {
 public:
  // Throws DictionaryError, which names the file.
  static std::shared_ptr<Dictionary> open(const DictionaryLocation &place);
  Dictionary(const Dictionary &) = delete;
  Dictionary &operator=(const Dictionary &) = delete;

  // Rows of one size (row_bytes > 0). Row i goes to rows + i * stride, which is the only time its bytes are copied, so
  // `rows` may lie in a reply that is being built; a key without a row gets row_bytes zeros. status: one byte per key.
  void lookup(std::span<const uint64_t> keys, uint8_t *status, char *rows, size_t stride, int threads = 1) const;

  // Values of any size, and of one size as well, in two steps: find() tells where each value lies, in memory of the
  // dictionary (a key without one: an empty view); place_values() and copy_values() below do the rest.
  void find(std::span<const uint64_t> keys, uint8_t *status, std::string_view *values) const;

  const DictionaryHeader &header() const { return header_; }
  const std::string &path() const { return path_; }
  uint64_t file_bytes() const { return memory_.size(); }
  uint64_t resident_bytes() const { return memory_.resident(); }  // of what is in memory now; mapped pages count too

  std::span<const uint64_t> keys() const { return {keys_, header_.count}; }  // in order of spread, if the file is sound
  std::span<const uint64_t> deleted_keys() const { return {deleted_keys_, header_.deleted}; }
  const char *values() const { return values_; }  // header().values_bytes
  std::string_view value(uint64_t index) const;   // index < count; within bounds whatever the file says
  // Keys of buckets [first, last) are [begin, end) of keys() or deleted_keys().
  static std::pair<uint64_t, uint64_t> range(std::span<const uint64_t> keys, uint32_t first, uint32_t last);

  // Every byte: hashes of all sections, order of keys, directories, offsets, padding. Throws DictionaryError.
  void verify() const;
  // The part of verify() that a caller needs before it copies values of any size in bulk: overlapping offsets in a
  // hostile file would have the same bytes copied many times.
  void verify_offsets() const;

 private:
  friend class Layers;
  explicit Dictionary(const DictionaryLocation &place);
  template <class Use>
  void visit(const uint64_t *keys, size_t count, Use use) const;
  void check_section(DictionarySection section) const;

  std::string path_;
  MappedFile memory_;
  DictionaryHeader header_;
  DictionaryIndex index_, deleted_index_;
  const uint64_t *keys_ = nullptr, *deleted_keys_ = nullptr, *offsets_ = nullptr;
  const char *values_ = nullptr;
};

// One table of one version. A later layer's row, or deletion, hides the earlier layers'; a deleted key is missing.
class Layers : public std::enable_shared_from_this<Layers> {
 public:
  // Base first. At least one, all of the same dtype, dim and row_bytes (else std::invalid_argument).
  explicit Layers(std::vector<std::shared_ptr<const Dictionary>> layers);

  // As Dictionary's; status is kFound or kMissing.
  void lookup(std::span<const uint64_t> keys, uint8_t *status, char *rows, size_t stride, int threads = 1) const;
  void find(std::span<const uint64_t> keys, uint8_t *status, std::string_view *values) const;

  uint32_t dtype() const { return layers_.front()->header().dtype; }
  uint32_t dim() const { return layers_.front()->header().dim; }
  uint32_t row_bytes() const { return layers_.front()->header().row_bytes; }  // 0: values of any size
  uint64_t file_bytes() const;
  uint64_t resident_bytes() const;
  const std::vector<std::shared_ptr<const Dictionary>> &layers() const { return layers_; }

 private:
  template <class Use>
  void visit(const uint64_t *keys, size_t count, Use use) const;

  std::vector<std::shared_ptr<const Dictionary>> layers_;
};

// offsets[0 … n]: where each value begins when they lie one behind the other, and the end of the last. Returns that.
uint64_t place_values(std::span<const std::string_view> values, uint64_t *offsets);
// Copies them there; `out` has room for what place_values() returned.
void copy_values(std::span<const std::string_view> values, char *out);

}  // namespace clickline::dictionary
