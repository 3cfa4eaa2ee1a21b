// Criteo's log: label, 13 integers, 26 categories, separated by tabs; an empty field is a missing value. The
// public data has billions of such lines, so this format has a path of its own: separators are found 64 bytes at
// a time, each number is parsed once whatever it is used for, and every slot has exactly one key.
#include <algorithm>
#include <bit>
#include <stdexcept>

#include "parse/parser.h"
#include "parse/scan.h"

namespace clickline::parse {

namespace {
constexpr uint32_t kFields = 40;
// `a` if so, else `b`, by arithmetic: compilers make branches of ?: as they like.
template <class T>
T either(bool so, T a, T b) { return b ^ ((a ^ b) & (T{0} - T{so})); }

}  // namespace

void Parser::prepare_criteo() {
  for (const Slot &slot : layout_.slots)
    if (slot.split)
      throw std::invalid_argument("slot " + quoted(slot.name) + ": a Criteo field holds one value, no separator");
  for (const Dense &dense : layout_.dense)
    if (dense.size != 1)
      throw std::invalid_argument("dense feature " + quoted(dense.name) + ": a Criteo field holds one number");
  criteo_dense_.resize(layout_.dense.size());
  for (const Field &field : fields_) {
    bool numeric = false;
    Column single{.name = field.column->name, .uses = {}};
    for (const Use use : field.column->uses) {
      if (use.purpose == Purpose::dense) {
        criteo_dense_[use.index] = field.at;
        numeric = true;
      } else if (use.purpose == Purpose::slot) {
        const Slot &slot = layout_.slots[use.index];
        const bool bucketed = slot.bucketed;
        auto &slots = bucketed ? criteo_bucketed_ : criteo_plain_;
        slots.push_back({field.at, use.index, slot.keys.seed(), slot.missing_key});
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

void Parser::criteo_row(RowBuilder &rows, const char *piece, const char *readable, uint32_t start,
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
    if (!parse_number(text, readable, numbers[number.at])) [[unlikely]] {
      rows.fail("column", number.column->name, "a finite number", text);
      return;
    }
  }
  // Whether a field is empty is next to random, so below it selects a value and never decides on a branch.
  const auto empty = [&](uint32_t at) { return starts[at] + 1 == starts[at + 1]; };
  float *dense = rows.dense_row();
  for (size_t i = 0; i < criteo_dense_.size(); ++i) {
    const uint32_t at = criteo_dense_[i];
    const Dense &to = layout_.dense[i];
    const float number = normalised(numbers[at], to.normalise, to.center, to.spread);
    if (!std::isfinite(number)) [[unlikely]] {
      rows.fail("dense feature", to.name, "within 32-bit range", field(at));
      return;
    }
    const auto given = std::bit_cast<uint32_t>(number), missing = std::bit_cast<uint32_t>(to.missing);
    dense[i] = std::bit_cast<float>(either(empty(at), missing, given));
  }
  uint64_t *keys = rows.key_row();
  for (const CriteoSlot &slot : criteo_bucketed_) {
    int64_t bucket;
    if (!log_bucket(numbers[slot.at], bucket)) [[unlikely]] {
      rows.fail("slot", layout_.slots[slot.slot].name, "within 64-bit range (bucket: log)", field(slot.at));
      return;
    }
    keys[slot.slot] = either(empty(slot.at), slot.missing_key, layout_.slots[slot.slot].keys.of_bucket(bucket));
  }
  for (const CriteoSlot &slot : criteo_plain_) {
    const std::string_view text = field(slot.at);
    if (!(text.size() & ~size_t{8}) && readable - text.data() >= 8 && !layout_.raw_keys) [[likely]] {
      keys[slot.slot] = either(text.empty(), slot.missing_key, base::hash_eight(text.data(), slot.seed));
    } else if (text.empty()) {
      keys[slot.slot] = slot.missing_key;
    } else if (!layout_.raw_keys) {
      keys[slot.slot] = base::xxh64(text, slot.seed);
    } else if (!parse_key(text, keys[slot.slot])) {
      rows.fail("slot", layout_.slots[slot.slot].name, "a decimal number of 64 bits (keys: raw)", text);
      return;
    }
  }

  for (size_t i = 0; i < criteo_dense_.size(); ++i) rows.missing_dense(i, empty(criteo_dense_[i]));
  for (const CriteoSlot &slot : criteo_bucketed_) rows.missing_slot(slot.slot, empty(slot.at));
  for (const CriteoSlot &slot : criteo_plain_) rows.missing_slot(slot.slot, empty(slot.at));
  rows.finish_filled();
}

ParsedRows Parser::parse_criteo(std::string_view data) const {
  RowBuilder rows(layout_, std::min(count_lines(data), data.size() / (kFields - 1)));
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

}  // namespace clickline::parse
