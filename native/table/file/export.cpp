// The weights of a table, and nothing else of it, as a dictionary: what serving needs.
#include <algorithm>
#include <mutex>

#include "dictionary/row_encoding.h"
#include "dictionary/writer.h"
#include "table/table.h"

namespace clickline::table {

dictionary::DictionarySummary Table::write_dictionary(const std::string &path, uint32_t dtype, uint32_t first_bucket,
                                                      uint32_t last_bucket, int threads) const {
  dictionary::DictionaryHeader shape;
  shape.dtype = dtype, shape.dim = layout_.dim;
  shape.row_bytes = static_cast<uint32_t>(dictionary::DictionaryHeader::bytes_of_row(dtype, layout_.dim));
  shape.first_bucket = first_bucket, shape.last_bucket = last_bucket;
  if (!shape.row_bytes)
    throw std::invalid_argument("dtype must be 1 (fp32), 2 (fp16) or 3 (u8) but is " + std::to_string(dtype));
  static_assert(dictionary::kSliceBuckets == kStripeBuckets);  // a slice is a stripe
  auto source = [&](uint32_t first, uint32_t last, bool values, dictionary::DictionarySlice &slice) {
    const Stripe &stripe = stripes_[first / kStripeBuckets];
    std::vector<std::pair<uint64_t, const RowHeader *>> rows;
    rows.reserve(stripe.rows.live());
    for (uint32_t i = 0; i < stripe.rows.used(); ++i) {
      const RowHeader *row = stripe.rows[i];
      const uint32_t bucket = base::bucket_of(row->key);
      if (row->live && bucket >= first && bucket < last) rows.emplace_back(dictionary::spread_of(row->key), row);
    }
    if (values) std::sort(rows.begin(), rows.end());
    slice.made.resize(values ? rows.size() * shape.row_bytes : 0);
    slice.rows.reserve(rows.size());
    char *place = slice.made.data();
    for (const auto &[spread, row] : rows) {
      if (values) dictionary::encode_rows(row->weights(), 1, layout_.dim, dtype, place);
      const char *value = values ? place : reinterpret_cast<const char *>(row);  // only its size counts then
      slice.rows.push_back({spread, std::string_view(value, shape.row_bytes)});
      if (values) place += shape.row_bytes;
    }
  };
  std::unique_lock closed(gate_);
  return dictionary::write_dictionary(path, shape, source, threads);
}

}  // namespace clickline::table
