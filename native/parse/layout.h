// What the columns of a log are used for: the job's labels, slots and dense features, resolved once per parser.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parse/fields.h"

namespace clickline::parse {

// As the user wrote it (see config/features.py); nothing here is checked yet.
struct SlotSpec {
  std::string name, column, bucket, separator;
  int64_t max_values = 1000;
  bool keep_last = false;
};
struct DenseSpec {
  std::string name, column;
  int64_t size = 1;
  std::string normalise;
  double center = 0, spread = 1, missing = 0;
};
struct ParserSpec {
  std::string format;
  std::vector<std::string> columns, labels;
  std::vector<SlotSpec> slots;
  std::vector<DenseSpec> dense;
  std::string weight, time, group;   // empty: none
  bool raw_keys = false;
  bool numeric_labels = false;       // any finite number; otherwise 0 or 1
  std::string delimiter;
};

struct Slot {
  std::string name, column;
  bool bucketed, split, keep_last;
  char separator;
  uint32_t max_values;
  SlotKeys keys;
  uint64_t missing_key;
};
struct Dense {
  std::string name, column;
  uint32_t size, first;   // its numbers are [first, first + size) of a row
  Normalise normalise;
  double center, spread;
  float missing;
};

// One column may serve several purposes, e.g. an integer as slot and as dense feature.
enum class Purpose : uint32_t { label, slot, dense, weight, time, group };
struct Use {
  Purpose purpose;
  uint32_t index;   // of the label, slot or dense feature
};
struct Column {
  std::string name;
  std::vector<Use> uses;
};

class Layout {
 public:
  explicit Layout(const ParserSpec &spec);   // throws std::invalid_argument

  std::vector<std::string> labels;
  std::vector<Slot> slots;
  std::vector<Dense> dense;
  uint32_t dense_width = 0;
  std::string weight, time, group;
  SlotKeys group_keys;
  bool raw_keys, numeric_labels;
  std::vector<Column> columns;   // those that are used, in no particular order

  const Column *find(std::string_view name) const {
    for (uint64_t at = base::xxh64(name, 0);; ++at) {
      const uint32_t place = places_[at & (places_.size() - 1)];
      if (!place) return nullptr;
      if (columns[place - 1].name == name) return &columns[place - 1];
    }
  }

 private:
  void use(const std::string &column, Purpose purpose, size_t index);
  std::vector<uint32_t> places_;   // open addressing; 0 = free, else 1 + index of a column
};

}  // namespace clickline::parse
