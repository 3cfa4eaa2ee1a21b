// Criteo's log: label, 13 integers, 26 categories, separated by tabs; an empty field is a missing value. The
// public data has billions of such lines, so this format has a path of its own: separators are found 64 bytes at
// a time, each number is parsed once whatever it is used for, and every slot has exactly one key.
#include <algorithm>
#include <limits>
#include <stdexcept>

#include "parser.h"
#include "scan.h"

namespace clickline {

namespace {
constexpr uint32_t kFields = 40;
constexpr size_t kPiece = 32 * 1024;   // a piece and its index stay in the first two caches
constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();   // no field is ever parsed to this
}  // namespace

void Parser::prepare_criteo() {
  for (const Slot &slot : layout_.slots)
    if (slot.split) throw std::invalid_argument("slot " + quoted(slot.name) + ": a Criteo field holds one value, no separator");
  for (const Dense &dense : layout_.dense)
    if (dense.size != 1) throw std::invalid_argument("dense feature " + quoted(dense.name) + ": a Criteo field holds one number");
  criteo_dense_.resize(layout_.dense.size());
  for (const Field &field : fields_) {
    bool numeric = false;
    Column single{.name = field.column->name, .uses = {}};
    for (const Use use : field.column->uses) {
      if (use.purpose == Purpose::dense) {
        criteo_dense_[use.index] = field.at;
        numeric = true;
      } else if (use.purpose == Purpose::slot) {
        const bool bucketed = layout_.slots[use.index].bucketed;
        (bucketed ? criteo_bucketed_ : criteo_plain_).push_back({field.at, use.index});
        numeric |= bucketed;
      } else {
        single.uses.push_back(use);
      }
    }
    if (numeric) criteo_numbers_.push_back(field);
    if (!single.uses.empty()) criteo_columns_.push_back(single), criteo_single_.push_back({field.at, nullptr});
  }
  for (size_t i = 0; i < criteo_single_.size(); ++i) criteo_single_[i].column = &criteo_columns_[i];
  const auto in_order = [](const CriteoSlot &a, const CriteoSlot &b) { return a.slot < b.slot; };
  std::sort(criteo_plain_.begin(), criteo_plain_.end(), in_order);
  std::sort(criteo_bucketed_.begin(), criteo_bucketed_.end(), in_order);
}

void Parser::criteo_row(Rows &rows, const char *piece, const char *readable, uint32_t start,
                        const uint32_t *ends) const {
  uint32_t starts[kFields + 1];
  starts[0] = start;
  for (uint32_t i = 0; i < kFields; ++i) starts[i + 1] = ends[i] + 1;
  if (ends[kFields - 1] > starts[kFields - 1] && piece[ends[kFields - 1] - 1] == '\r') --starts[kFields];
  const auto field = [&](uint32_t at) { return std::string_view(piece + starts[at], starts[at + 1] - starts[at] - 1); };

  // First what can fail, then what is counted.
  for (const Field &single : criteo_single_)
    if (!rows.take(*single.column, field(single.at))) return;
  double numbers[kFields];
  for (const Field &number : criteo_numbers_) {
    const std::string_view text = field(number.at);
    if (text.empty()) {
      numbers[number.at] = kMissing;
    } else if (!parse_number(text, readable, numbers[number.at])) {
      rows.fail("column", number.column->name, "a finite number", text);
      return;
    }
  }
  float *dense = rows.dense_row();
  for (size_t i = 0; i < criteo_dense_.size(); ++i) {
    const double v = numbers[criteo_dense_[i]];
    const Dense &feature = layout_.dense[i];
    dense[i] = std::isnan(v) ? feature.missing : normalised(v, feature.normalise, feature.center, feature.spread);
    if (!std::isfinite(dense[i]) && !std::isnan(v)) {
      rows.fail("dense feature", feature.name, "within 32-bit range", field(criteo_dense_[i]));
      return;
    }
  }
  uint64_t *keys = rows.key_row();
  for (const CriteoSlot slot : criteo_bucketed_) {
    const Slot &to = layout_.slots[slot.slot];
    const double v = numbers[slot.at];
    int64_t bucket = 0;
    if (std::isnan(v)) {
      keys[slot.slot] = to.missing_key;
    } else if (log_bucket(v, bucket)) {
      keys[slot.slot] = to.keys.of_bucket(bucket);
    } else {
      rows.fail("slot", to.name, "a number within 64-bit range (bucket: log)", field(slot.at));
      return;
    }
  }
  for (const CriteoSlot slot : criteo_plain_) {
    const Slot &to = layout_.slots[slot.slot];
    const std::string_view text = field(slot.at);
    if (text.empty()) {
      keys[slot.slot] = to.missing_key;
    } else if (!layout_.raw_keys) {
      keys[slot.slot] = to.keys.of(text);
    } else if (!parse_key(text, keys[slot.slot])) {
      rows.fail("slot", to.name, "a decimal number of 64 bits (keys: raw)", text);
      return;
    }
  }

  for (size_t i = 0; i < criteo_dense_.size(); ++i)
    if (std::isnan(numbers[criteo_dense_[i]])) rows.missing_dense(i);
  for (const CriteoSlot slot : criteo_bucketed_)
    if (std::isnan(numbers[slot.at])) rows.missing_slot(slot.slot);
  for (const CriteoSlot slot : criteo_plain_)
    if (starts[slot.at] + 1 == starts[slot.at + 1]) rows.missing_slot(slot.slot);
  rows.finish_filled();
}

Parsed Parser::parse_criteo(std::string_view data) const {
  Rows rows(layout_, std::min(count_lines(data), data.size() / (kFields - 1)));
  SeparatorIndex index;
  const char *readable = data.data() + data.size();
  while (!data.empty()) {
    const std::string_view piece = take_piece(data, kPiece);
    index.build(piece, '\t');
    uint32_t start = 0, first = 0;
    for (size_t line = 0; line < index.lines; ++line) {
      const uint32_t last = index.line_end[line], end = index.field_end[last];
      const uint32_t fields = last - first + 1;
      if (fields == kFields) {
        rows.begin();
        criteo_row(rows, piece.data(), readable, start, &index.field_end[first]);
      } else if (fields == 1 && (end == start || (end == start + 1 && piece[start] == '\r'))) {
        rows.blank();
      } else {
        rows.begin();
        rows.fail("a line needs 40 fields separated by tabs (label, 13 integers, 26 categories), got " +
                  std::to_string(fields));
      }
      start = end + 1, first = last + 1;
    }
  }
  return rows.done();
}

}  // namespace clickline
