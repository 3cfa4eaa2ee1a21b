// Arrow record batches: Parquet, and readers of one's own. Numbers in slots become keys by their shortest decimal
// text, so that the same data as CSV gives the same keys. A null is a missing value.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "parse/parser.h"

namespace clickline::parse {

namespace {

constexpr size_t kMost = size_t{1} << 48;   // values; no sum or product below can overflow

template <class T>
T at(const base::Bytes &buffer, size_t i) {
  T v;
  std::memcpy(&v, buffer.data + i * sizeof(T), sizeof(T));
  return v;
}
bool bit(const base::Bytes &buffer, size_t i) { return buffer.data[i / 8] >> (i % 8) & 1; }

size_t bytes_needed(ArrowType kind, size_t count) {
  switch (kind) {
    case ArrowType::text32: case ArrowType::text64: return 0;   // depends on the starts, checked value by value
    case ArrowType::boolean: return (count + 7) / 8;
    case ArrowType::float32: return count * 4;
    default: return count * 8;
  }
}

void check(const ArrowColumn &c, size_t rows) {
  const auto refuse = [&](const char *what) { throw std::invalid_argument("column " + quoted(c.name) + ": " + what); };
  if (c.offset > kMost || c.length > kMost || c.list_offset > kMost || rows > kMost) refuse("more than 2^48 values");
  const size_t end = c.offset + c.length;
  if (c.values.size < bytes_needed(c.kind, end)) refuse("its buffer of values is too short");
  if (c.validity.data && c.validity.size < (end + 7) / 8) refuse("its buffer of nulls is too short");
  const size_t width = c.kind == ArrowType::text32 ? 4 : c.kind == ArrowType::text64 ? 8 : 0;
  if (width && c.length && c.starts.size < (end + 1) * width) refuse("its buffer of offsets is too short");
  if (!c.listed) {
    if (c.length < rows) refuse("it has fewer values than there are rows");
    return;
  }
  const size_t last = c.list_offset + rows;
  if (rows && c.list_starts.size < (last + 1) * 8) refuse("its buffer of list offsets is too short");
  if (c.list_validity.data && c.list_validity.size < (last + 7) / 8) refuse("its buffer of null lists is too short");
}

template <class Start>
std::string_view text_at(const ArrowColumn &c, size_t i) {
  const auto from = static_cast<size_t>(at<Start>(c.starts, i)), to = static_cast<size_t>(at<Start>(c.starts, i + 1));
  if (from > to || to > c.values.size)   // of a negative start, the unsigned value is beyond any size
    throw std::invalid_argument("column " + quoted(c.name) + ": its offsets leave the buffer of values");
  return {c.values.data + from, to - from};
}

bool take_value(RowBuilder &rows, const Column &to, const ArrowColumn &c, size_t index) {
  const size_t i = c.offset + index;
  if (c.validity.data && !bit(c.validity, i)) return true;
  switch (c.kind) {
    case ArrowType::text32: return rows.take(to, text_at<int32_t>(c, i));
    case ArrowType::text64: return rows.take(to, text_at<int64_t>(c, i));
    case ArrowType::int64: return rows.take(to, at<int64_t>(c.values, i));
    case ArrowType::uint64: return rows.take(to, at<uint64_t>(c.values, i));
    case ArrowType::float32: return rows.take(to, at<float>(c.values, i));
    case ArrowType::float64: return rows.take(to, at<double>(c.values, i));
    case ArrowType::boolean: return rows.take(to, bit(c.values, i));
  }
  return true;
}

bool take_list(RowBuilder &rows, const Column &to, const ArrowColumn &c, size_t row) {
  const size_t i = c.list_offset + row;
  if (c.list_validity.data && !bit(c.list_validity, i)) return true;
  const auto from = static_cast<size_t>(at<int64_t>(c.list_starts, i));
  const auto end = static_cast<size_t>(at<int64_t>(c.list_starts, i + 1));
  if (from > end || end > c.length)
    throw std::invalid_argument("column " + quoted(c.name) + ": its list offsets leave the values");
  for (size_t value = from; value < end; ++value)
    if (!take_value(rows, to, c, value)) return false;
  return true;
}

}  // namespace

ParsedRows Parser::parse_columns(size_t rows, const std::vector<ArrowColumn> &columns) const {
  std::vector<std::pair<const Column *, const ArrowColumn *>> pairs;
  for (const Column &column : layout_.columns) {
    const auto named = [&](const ArrowColumn &c) { return c.name == column.name; };
    const auto found = std::find_if(columns.begin(), columns.end(), named);
    if (found == columns.end()) throw std::invalid_argument("no column " + quoted(column.name) + " in the batch");
    check(*found, rows);
    pairs.emplace_back(&column, &*found);
  }
  RowBuilder out(layout_, pairs.empty() ? 0 : rows);
  for (size_t row = 0; row < rows && !pairs.empty(); ++row) {
    out.begin();
    for (const auto &[to, column] : pairs)
      if (!(column->listed ? take_list : take_value)(out, *to, *column, row)) break;
    out.finish();
  }
  return out.done();
}

}  // namespace clickline::parse
