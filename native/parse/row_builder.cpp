// From the values of a row to its place in the output arrays.
#include "parse/row_builder.h"

#include <algorithm>
#include <type_traits>

namespace clickline::parse {

namespace {
constexpr size_t kErrorsKept = 10;
constexpr size_t kMostKeys = size_t{1} << 31;   // of one row, so that 32 bits count them
}

RowBuilder::RowBuilder(const Layout &layout, size_t capacity)
    : layout_(layout), capacity_(capacity), keys_capacity_(capacity * layout.slots.size()),
      counts_(layout.slots.size()), dense_counts_(layout.dense.size()), cursors_(layout.slots.size()) {
  out_.labels.resize(capacity * layout.labels.size());
  out_.dense.resize(capacity * layout.dense_width);
  out_.keys.resize(keys_capacity_);
  if (!layout.weight.empty()) out_.weights.resize(capacity);
  if (!layout.time.empty()) out_.times.resize(capacity);
  if (!layout.group.empty()) out_.groups.resize(capacity);
  out_.missing_slots.assign(layout.slots.size(), 0);
  out_.missing_dense.assign(layout.dense.size(), 0);
}

void RowBuilder::begin() {
  ++out_.lines;
  bad_ = false, in_order_ = true, seen_ = 0;
  std::fill(counts_.begin(), counts_.end(), 0);
  std::fill(dense_counts_.begin(), dense_counts_.end(), 0);
  pending_slots_.clear(), pending_keys_.clear();
}

bool RowBuilder::fail(const std::string &reason) {
  if (!bad_) {
    ++out_.bad;
    if (out_.errors.size() < kErrorsKept) out_.errors.emplace_back(out_.lines, reason);
  }
  bad_ = true;
  return false;
}

bool RowBuilder::fail(std::string_view what, std::string_view name, std::string_view expected, std::string_view got) {
  if (bad_ || out_.errors.size() >= kErrorsKept) return fail(std::string());   // only the first reasons are kept
  std::string reason(what);
  reason.append(" '").append(name).append("' must be ").append(expected).append(", got ").append(quoted(got));
  return fail(reason);
}

std::string RowBuilder::forgiven() {
  std::string reason = std::move(out_.errors.back().second);
  out_.errors.pop_back();
  --out_.bad;
  bad_ = false;
  return reason;
}

bool RowBuilder::once(uint32_t bit, std::string_view what, const std::string &name) {
  if (seen_ & (1u << bit)) return fail(std::string(what) + " '" + name + "' is given more than once");
  seen_ |= 1u << bit;
  return true;
}

template <class V>
bool RowBuilder::take_label(uint32_t index, V value) {
  double v;
  TextBuffer buffer;
  if (!to_number(value, v) || (v != 0 && v != 1)) {
    // Beside the usual labels, so that these cost no further test.
    if (!layout_.numeric_labels) return fail("label", layout_.labels[index], "0 or 1", to_text(value, buffer));
    if (!to_number(value, v) || !std::isfinite(static_cast<float>(v)))
      return fail("label", layout_.labels[index], "a finite number of 32 bits", to_text(value, buffer));
  }
  out_.labels[out_.n * layout_.labels.size() + index] = static_cast<float>(v);
  return once(index, "label", layout_.labels[index]);
}

void RowBuilder::add_key(uint32_t slot, uint64_t key) {
  in_order_ &= pending_keys_.size() == slot;
  pending_slots_.push_back(slot);
  pending_keys_.push_back(key);
  ++counts_[slot];
}

template <class V>
bool RowBuilder::take_slot(uint32_t index, V value) {
  const Slot &slot = layout_.slots[index];
  TextBuffer buffer;
  if constexpr (std::is_same_v<V, std::string_view>) {
    if (value.empty()) return true;
    if (slot.split) {
      if (const size_t cut = value.find(slot.separator); cut != std::string_view::npos) {
        for (std::string_view rest = value; !rest.empty();) {
          const size_t end = std::min(rest.find(slot.separator), rest.size());
          if (end && !take_slot(index, rest.substr(0, end))) return false;
          rest.remove_prefix(std::min(end + 1, rest.size()));
        }
        return true;
      }
    }
  }
  if (slot.bucketed) {
    double v;
    int64_t bucket;
    if (!to_number(value, v) || !log_bucket(v, bucket))
      return fail("slot", slot.name, "a finite number (bucket: log)", to_text(value, buffer));
    add_key(index, slot.keys.of_bucket(bucket));
    return true;
  }
  if constexpr (std::is_floating_point_v<V>) {
    if (!std::isfinite(value)) return fail("slot", slot.name, "text or a finite number", to_text(value, buffer));
  }
  const std::string_view text = to_text(value, buffer);
  uint64_t key;
  if (!layout_.raw_keys)
    key = slot.keys.of(text);
  else if (!parse_key(text, key))
    return fail("slot", slot.name, "a decimal number of 64 bits (keys: raw)", text);
  add_key(index, key);
  return true;
}

template <class V>
bool RowBuilder::take_dense(uint32_t index, V value) {
  if constexpr (std::is_same_v<V, std::string_view>) {
    if (value.empty()) return true;
  }
  const Dense &dense = layout_.dense[index];
  TextBuffer buffer;
  double v;
  if (!to_number(value, v)) return fail("dense feature", dense.name, "a finite number", to_text(value, buffer));
  const float number = normalised(v, dense.normalise, dense.center, dense.spread);
  if (!std::isfinite(number)) return fail("dense feature", dense.name, "within 32-bit range", to_text(value, buffer));
  const uint32_t at = dense_counts_[index]++;
  if (at < dense.size) dense_row()[dense.first + at] = number;
  return true;
}

template <class V>
bool RowBuilder::take_extra(Purpose purpose, V value) {
  TextBuffer buffer;
  if (purpose == Purpose::weight) {
    double v;
    if (!to_number(value, v) || !(v >= 0) || !std::isfinite(static_cast<float>(v)))
      return fail("weight", layout_.weight, "a finite number of at least 0", to_text(value, buffer));
    out_.weights[out_.n] = static_cast<float>(v);
    return once(kWeight, "weight", layout_.weight);
  }
  if (purpose == Purpose::time) {
    if (!to_seconds(value, out_.times[out_.n]))
      return fail("time", layout_.time, "seconds since 1970", to_text(value, buffer));
    return once(kTime, "time", layout_.time);
  }
  out_.groups[out_.n] = layout_.group_keys.of(to_text(value, buffer));
  return once(kGroup, "group", layout_.group);
}

template <class V>
bool RowBuilder::take(const Column &column, V value) {
  for (const Use use : column.uses) {
    bool good;
    switch (use.purpose) {
      case Purpose::slot: good = take_slot(use.index, value); break;
      case Purpose::dense: good = take_dense(use.index, value); break;
      case Purpose::label: good = take_label(use.index, value); break;
      default: good = take_extra(use.purpose, value); break;
    }
    if (!good) return false;
  }
  return true;
}

template bool RowBuilder::take(const Column &, std::string_view);
template bool RowBuilder::take(const Column &, int64_t);
template bool RowBuilder::take(const Column &, uint64_t);
template bool RowBuilder::take(const Column &, double);
template bool RowBuilder::take(const Column &, float);
template bool RowBuilder::take(const Column &, bool);

bool RowBuilder::complete_single() {
  const size_t labels = layout_.labels.size();
  if ((seen_ & ((1u << labels) - 1)) != (1u << labels) - 1)
    for (size_t i = 0; i < labels; ++i)
      if (!(seen_ >> i & 1)) return fail("label '" + layout_.labels[i] + "' is missing");
  if (out_.weights.data() && !(seen_ >> kWeight & 1)) return fail("weight '" + layout_.weight + "' is missing");
  if (out_.times.data() && !(seen_ >> kTime & 1)) return fail("time '" + layout_.time + "' is missing");
  if (out_.groups.data() && !(seen_ >> kGroup & 1)) out_.groups[out_.n] = layout_.group_keys.of("");
  return true;
}

bool RowBuilder::complete_dense() {
  for (size_t i = 0; i < dense_counts_.size(); ++i) {
    const Dense &dense = layout_.dense[i];
    if (dense_counts_[i] && dense_counts_[i] != dense.size)
      return fail("dense feature '" + dense.name + "' needs " + std::to_string(dense.size) + " numbers, got " +
                  std::to_string(dense_counts_[i]));
  }
  for (size_t i = 0; i < dense_counts_.size(); ++i) {   // counted only once nothing can fail any more
    if (dense_counts_[i]) continue;
    const Dense &dense = layout_.dense[i];
    std::fill_n(dense_row() + dense.first, dense.size, dense.missing);
    missing_dense(i);
  }
  return true;
}

// Until a slot has several keys, offsets would only repeat what is known.
void RowBuilder::start_offsets() {
  const size_t slots = layout_.slots.size();
  out_.offsets.resize(capacity_ * slots + 1);
  for (size_t i = 0; i < out_.n * slots; ++i) out_.offsets[i] = static_cast<int64_t>(i);
  out_.ragged = true;
}

void RowBuilder::complete_slots() {
  const size_t slots = counts_.size(), given = pending_keys_.size(), first = out_.keys_count;
  size_t total = 0;
  for (size_t s = 0; s < slots; ++s) total += std::clamp(counts_[s], 1u, layout_.slots[s].max_values);
  if (first + total > keys_capacity_) {
    keys_capacity_ = std::max(first + total, keys_capacity_ + keys_capacity_ / 2);
    out_.keys.resize(keys_capacity_);
  }
  if (total != slots && !out_.ragged) start_offsets();
  uint64_t *keys = out_.keys.data() + first;
  if (in_order_ && given == slots) {
    std::copy(pending_keys_.begin(), pending_keys_.end(), keys);
    if (out_.ragged)
      for (size_t s = 0; s < slots; ++s) out_.offsets[out_.n * slots + s] = static_cast<int64_t>(first + s);
  } else {
    int64_t at = 0;
    for (size_t s = 0; s < slots; ++s) {
      const Slot &slot = layout_.slots[s];
      const uint32_t count = counts_[s], kept = std::clamp(count, 1u, slot.max_values);
      if (out_.ragged) out_.offsets[out_.n * slots + s] = static_cast<int64_t>(first) + at;
      if (!count) {
        keys[at] = slot.missing_key;
        missing_slot(s);
      }
      cursors_[s] = slot.keep_last && count > kept ? at - (count - kept) : at;
      counts_[s] = static_cast<uint32_t>(at);   // from here on: where the slot's keys start
      at += kept;
    }
    for (size_t i = 0; i < given; ++i) {
      const uint32_t s = pending_slots_[i];
      const int64_t to = cursors_[s]++, start = counts_[s];
      if (to >= start && to < start + static_cast<int64_t>(layout_.slots[s].max_values)) keys[to] = pending_keys_[i];
    }
  }
  out_.keys_count += total;
}

void RowBuilder::finish() {
  if (bad_) return;
  if (pending_keys_.size() > kMostKeys) fail("more than 2^31 values in one row");
  else if (complete_single() && complete_dense()) complete_slots(), ++out_.n;
}

void RowBuilder::finish_filled() {
  out_.keys_count += layout_.slots.size();
  ++out_.n;
}

ParsedRows RowBuilder::done() {
  if (out_.ragged) out_.offsets[out_.n * layout_.slots.size()] = static_cast<int64_t>(out_.keys_count);
  return std::move(out_);
}

}  // namespace clickline::parse
