// Builds the arrays of parsed rows. A format hands over the values of one row in any order; a row that turns out
// to be bad leaves nothing but its reason. What comes out is row-major, as clickline.data.batch.Batch wants it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parse/layout.h"

namespace clickline::parse {

// Memory that is not zeroed first, and that Python can take over.
template <class T>
class Array {
 public:
  Array() = default;
  explicit Array(size_t count) { resize(count); }
  Array(Array &&other) noexcept : data_(other.release()) {}
  Array &operator=(Array &&other) noexcept { std::swap(data_, other.data_); return *this; }
  ~Array() { std::free(data_); }

  void resize(size_t count) {
    if (count > SIZE_MAX / sizeof(T)) throw std::bad_alloc();
    void *grown = std::realloc(data_, count * sizeof(T) + 1);
    if (!grown) throw std::bad_alloc();
    data_ = static_cast<T *>(grown);
  }
  T *data() const { return data_; }
  T &operator[](size_t i) const { return data_[i]; }
  T *release() { return std::exchange(data_, nullptr); }   // the caller frees it, with std::free

 private:
  T *data_ = nullptr;
};

struct ParsedRows {
  size_t n = 0, lines = 0, bad = 0, keys_count = 0;
  Array<float> labels, dense, weights;
  Array<uint64_t> keys, groups;
  Array<int64_t> offsets, times;
  bool ragged = false;   // whether some slot of some row has several keys; only then are there offsets
  std::vector<std::pair<size_t, std::string>> errors;   // line (1 = first), reason
  std::vector<uint64_t> missing_slots, missing_dense;   // rows without a value, per slot and per dense feature
};

class RowBuilder {
 public:
  RowBuilder(const Layout &layout, size_t capacity);   // room for `capacity` rows; never give it more

  void blank() { ++out_.lines; }   // a line without a row
  void begin();                    // a line with a row
  // A value of the row; false if it spoils the row. An empty text says that there is no value.
  template <class V>
  bool take(const Column &column, V value);
  void finish();                             // the row is complete
  bool fail(const std::string &reason);      // the row is bad; returns false
  bool fail(std::string_view what, std::string_view name, std::string_view expected, std::string_view got);
  bool bad() const { return bad_; }          // whether the row has failed, once it is finished
  std::string forgiven();                    // why the row failed; more of its values may be handed over then
  ParsedRows done();

  // For a format with exactly one value per slot that fills in keys and dense numbers itself (Criteo).
  uint64_t *key_row() const { return out_.keys.data() + out_.n * layout_.slots.size(); }
  float *dense_row() const { return out_.dense.data() + out_.n * layout_.dense_width; }
  void missing_slot(size_t slot, bool missing = true) { out_.missing_slots[slot] += missing; }
  void missing_dense(size_t feature, bool missing = true) { out_.missing_dense[feature] += missing; }
  void finish_filled();

 private:
  template <class V>
  bool take_label(uint32_t index, V value);
  template <class V>
  bool take_slot(uint32_t index, V value);
  template <class V>
  bool take_dense(uint32_t index, V value);
  template <class V>
  bool take_extra(Purpose purpose, V value);
  bool once(uint32_t bit, std::string_view what, const std::string &name);
  void add_key(uint32_t slot, uint64_t key);
  bool complete_single();   // labels, weight, time, group
  bool complete_dense();
  void complete_slots();
  void start_offsets();

  static constexpr uint32_t kWeight = 16, kTime = 17, kGroup = 18;   // bits of seen_ after those of the labels
  const Layout &layout_;
  ParsedRows out_;
  size_t capacity_, keys_capacity_;
  // Of the current row:
  bool bad_ = false, in_order_ = true;
  uint32_t seen_ = 0;
  std::vector<uint32_t> counts_, dense_counts_, pending_slots_;
  std::vector<uint64_t> pending_keys_;
  std::vector<int64_t> cursors_;
};

// Defined in row_builder.cpp for every type of value that a format hands over.
extern template bool RowBuilder::take(const Column &, std::string_view);
extern template bool RowBuilder::take(const Column &, int64_t);
extern template bool RowBuilder::take(const Column &, uint64_t);
extern template bool RowBuilder::take(const Column &, double);
extern template bool RowBuilder::take(const Column &, float);
extern template bool RowBuilder::take(const Column &, bool);

}  // namespace clickline::parse
