#include "plan/check.h"

#include <stdexcept>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace clickline::plan {
namespace {

// Positions are 31 bits, the vectors of the output are counted with 32.
constexpr size_t kMost = (size_t{1} << 31) - 1;

[[noreturn]] void refuse(const std::string &message) { throw std::invalid_argument(message); }
std::string str(auto value) { return std::to_string(value); }

}  // namespace

void check_input(const PlanInput &in) {
  if (in.threads < 1) refuse("threads must be at least 1, got " + str(in.threads));
  if (in.columns < 1 || in.columns > 65536) refuse("columns must be 1 to 65536, got " + str(in.columns));
  if (in.rows > kMost / in.columns)
    refuse("a plan holds at most " + str(kMost) + " (row, slot)s, got " + str(in.rows) +
           " rows (the length of labels) of " + str(in.columns) + " columns; use smaller batches");
  if (in.keys.size() > kMost)
    refuse("a plan holds at most " + str(kMost) + " keys, got " + str(in.keys.size()) + "; use smaller batches");
  const size_t cells = in.rows * in.columns;
  if (in.offsets.empty() && in.keys.size() != cells)
    refuse("without offsets there must be one key per row and column: expected " + str(in.rows) +
           " rows (the length of labels) * " + str(in.columns) + " columns = " + str(cells) + " keys, got " +
           str(in.keys.size()));
  if (!in.offsets.empty() && in.offsets.size() != cells + 1)
    refuse("offsets must have rows * columns + 1 = " + str(cells + 1) + " entries, got " + str(in.offsets.size()));
  if (!in.offsets.empty() && in.offsets.front() != 0)
    refuse("offsets must start with 0, got " + str(in.offsets.front()));
  if (!in.offsets.empty() && in.offsets.back() != static_cast<int64_t>(in.keys.size()))
    refuse("offsets must end with the number of keys, " + str(in.keys.size()) + ", got " + str(in.offsets.back()));
  if (in.select.empty()) refuse("select names no column; a plan needs at least one");
  std::vector<bool> seen(in.columns);
  for (int64_t column : in.select) {
    if (column < 0 || column >= static_cast<int64_t>(in.columns))
      refuse("select holds column " + str(column) + ", but there are only columns 0 to " + str(in.columns - 1));
    if (seen[column]) refuse("select holds column " + str(column) + " twice");
    seen[column] = true;
  }
  if (in.pooling.size() != in.select.size())
    refuse("pooling must have one entry per selected column, " + str(in.select.size()) + ", got " +
           str(in.pooling.size()));
  for (int64_t kind : in.pooling)
    if (kind < 0 || kind > 2) refuse("pooling must be 0 (sum), 1 (mean) or 2 (max), got " + str(kind));
  if (in.sequence_length < 0) refuse("sequence_length must not be negative, got " + str(in.sequence_length));
  if (in.sequence_length > 0 && in.select.size() != 1)
    refuse("sequence_length > 0 needs exactly one selected column, got " + str(in.select.size()));
  if (in.sequence_length > 0 && in.rows && static_cast<size_t>(in.sequence_length) > kMost / in.rows)
    refuse("sequence_length " + str(in.sequence_length) + " times " + str(in.rows) + " rows is more than " +
           str(kMost));
}

void check_offsets(std::span<const int64_t> offsets, size_t first, size_t last) {
  bool falls = false;
  for (size_t i = first; i < last; ++i) falls |= offsets[i + 1] < offsets[i];
  if (!falls) return;
  for (size_t i = first + 1;; ++i)
    if (offsets[i] < offsets[i - 1])
      refuse("offsets must not decrease, but offsets[" + str(i) + "] = " + str(offsets[i]) + " is below offsets[" +
             str(i - 1) + "] = " + str(offsets[i - 1]));
}

}  // namespace clickline::plan
