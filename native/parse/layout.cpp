// Checks what the Python side hands over; the job was checked before, so these messages are for programmers.
#include "parse/layout.h"

#include <bit>
#include <limits>
#include <stdexcept>

namespace clickline::parse {

namespace {

[[noreturn]] void refuse(const std::string &message) { throw std::invalid_argument(message); }

Slot slot_of(const SlotSpec &spec, bool raw_keys) {
  const std::string subject = "slot " + quoted(spec.name);
  if (spec.bucket != "none" && spec.bucket != "log")
    refuse(subject + ": bucket must be 'none' or 'log', got " + quoted(spec.bucket));
  const bool bucketed = spec.bucket == "log";
  if (bucketed && raw_keys) refuse(subject + ": a bucket is hashed, so it does not go with raw keys");
  if (spec.separator.size() > 1) refuse(subject + ": separator must be one ASCII character, got " + quoted(spec.separator));
  if (spec.max_values < 1 || spec.max_values > std::numeric_limits<int32_t>::max())
    refuse(subject + ": max_values must be at least 1, got " + std::to_string(spec.max_values));
  Slot slot{.name = spec.name,
            .column = spec.column,
            .bucketed = bucketed,
            .split = !spec.separator.empty(),
            .keep_last = spec.keep_last,
            .separator = spec.separator.empty() ? '\0' : spec.separator[0],
            .max_values = static_cast<uint32_t>(spec.max_values),
            .keys = SlotKeys(spec.name, bucketed),
            .missing_key = 0};
  if (!raw_keys) slot.missing_key = slot.keys.of("");
  return slot;
}

Dense dense_of(const DenseSpec &spec, uint32_t first) {
  const std::string subject = "dense feature " + quoted(spec.name);
  if (spec.size < 1 || spec.size > 65'536) refuse(subject + ": size must be 1 to 65536, got " + std::to_string(spec.size));
  Normalise how = Normalise::none;
  if (spec.normalise == "log1p") how = Normalise::log1p;
  else if (spec.normalise == "criteo") how = Normalise::criteo;
  else if (spec.normalise == "standard" || spec.normalise == "minmax") how = Normalise::affine;
  else if (spec.normalise != "none")
    refuse(subject + ": normalise must be none, log1p, standard, minmax or criteo, got " + quoted(spec.normalise));
  if (how == Normalise::affine && !(std::isfinite(spec.center) && std::isfinite(spec.spread) && spec.spread > 0))
    refuse(subject + ": center must be finite and spread finite and above 0");
  return {.name = spec.name,
          .column = spec.column,
          .size = static_cast<uint32_t>(spec.size),
          .first = first,
          .normalise = how,
          .center = spec.center,
          .spread = spec.spread,
          .missing = static_cast<float>(spec.missing)};
}

}  // namespace

Layout::Layout(const ParserSpec &spec)
    : labels(spec.labels), weight(spec.weight), time(spec.time), group(spec.group), group_keys(spec.group, false),
      raw_keys(spec.raw_keys), numeric_labels(spec.numeric_labels) {
  if (labels.size() > 16) refuse("at most 16 labels, got " + std::to_string(labels.size()));
  if (spec.slots.size() > 65'535) refuse("at most 65535 slots, got " + std::to_string(spec.slots.size()));
  for (const SlotSpec &slot : spec.slots) slots.push_back(slot_of(slot, raw_keys));
  for (const DenseSpec &one : spec.dense) {
    dense.push_back(dense_of(one, dense_width));
    if (dense_width > (1u << 30)) refuse("more than 2^30 dense numbers in a row");
    dense_width += dense.back().size;
  }
  for (size_t i = 0; i < labels.size(); ++i) use(labels[i], Purpose::label, i);
  for (size_t i = 0; i < slots.size(); ++i) use(slots[i].column, Purpose::slot, i);
  for (size_t i = 0; i < dense.size(); ++i) use(dense[i].column, Purpose::dense, i);
  if (!weight.empty()) use(weight, Purpose::weight, 0);
  if (!time.empty()) use(time, Purpose::time, 0);
  if (!group.empty()) use(group, Purpose::group, 0);
}

void Layout::use(const std::string &name, Purpose purpose, size_t index) {
  if (name.empty()) refuse("a column has no name");
  const auto place = [this](uint32_t column) {
    uint64_t at = base::xxh64(columns[column].name, 0);
    while (places_[at & (places_.size() - 1)]) ++at;
    places_[at & (places_.size() - 1)] = column + 1;
  };
  if (places_.size() < 2 * (columns.size() + 1)) {
    places_.assign(std::bit_ceil(4 * (columns.size() + 1)), 0);
    for (uint32_t i = 0; i < columns.size(); ++i) place(i);
  }
  const Column *found = find(name);
  if (!found) {
    columns.push_back({.name = name, .uses = {}});
    place(static_cast<uint32_t>(columns.size() - 1));
    found = &columns.back();
  }
  columns[static_cast<size_t>(found - columns.data())].uses.push_back({purpose, static_cast<uint32_t>(index)});
}

}  // namespace clickline::parse
