// Saving a table. Columns over rows sorted by (bucket, key): the same table always gives the same bytes, and
// a server can read only its own buckets. docs/reference/table-format.md is the specification.
#include <algorithm>
#include <mutex>

#include "table/file/sections.h"
#include "table/table.h"

namespace clickline::table {

namespace {

template <class T>
std::string_view bytes_of(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}

auto place(uint64_t key) { return std::pair(base::bucket_of(key), key); }

}  // namespace

// Goes through the table stripe by stripe, bucket by bucket, and appends to all columns.
class TableWriter {
 public:
  TableWriter(const Table &table, const base::File &file) : table_(table), file_(file) {
    header_.dim = table.layout_.dim;
    header_.states = table.states_;
    header_.optimizer = table.config_.optimizer.name;
    header_.seed = table.config_.seed;
    header_.step = table.step();
    header_.bucket_rows.assign(base::kBuckets, 0);
    header_.bucket_waiting.assign(base::kBuckets, 0);
    header_.checksums.assign(base::kBuckets, 0);
  }

  void write() {
    for (uint32_t i = 0; i < kStripes; ++i) count(table_.stripes_[i]);
    for (uint32_t b = 0; b < base::kBuckets; ++b) {
      header_.rows += header_.bucket_rows[b];
      header_.waiting += header_.bucket_waiting[b];
    }
    const SectionPlan plan(header_, kPreamble + header_.text().size());
    for (int s = 0; s < kSections; ++s) columns_.emplace_back(file_, plan.begin[s]);
    for (uint32_t i = 0; i < kStripes; ++i) append(table_.stripes_[i], i * kStripeBuckets);
    for (SectionWriter &column : columns_) column.flush();
    const std::string text = header_.text();  // last, so that a file cut short is not taken for a table
    file_.write(text.data(), text.size(), kPreamble);
    file_.write(table_preamble(text).data(), kPreamble, 0);
  }

 private:
  void count(const Stripe &stripe) {
    for (uint32_t row = 0; row < stripe.rows.used(); ++row)
      if (stripe.rows[row]->live) ++header_.bucket_rows[base::bucket_of(stripe.rows[row]->key)];
    for (const PendingKey &key : stripe.pending.all()) ++header_.bucket_waiting[base::bucket_of(key.key)];
  }

  void append(const Stripe &stripe, uint32_t bucket) {
    std::vector<const RowHeader *> rows;
    rows.reserve(stripe.rows.live());
    for (uint32_t row = 0; row < stripe.rows.used(); ++row)
      if (stripe.rows[row]->live) rows.push_back(stripe.rows[row]);
    std::sort(rows.begin(), rows.end(), [](auto a, auto b) { return place(a->key) < place(b->key); });
    std::vector<PendingKey> waiting = stripe.pending.all();
    std::sort(waiting.begin(), waiting.end(), [](auto &a, auto &b) { return place(a.key) < place(b.key); });
    const RowHeader *const *row = rows.data();
    const PendingKey *key = waiting.data();
    for (const uint32_t end = bucket + kStripeBuckets; bucket < end; ++bucket) {
      append(bucket, std::span(row, header_.bucket_rows[bucket]), std::span(key, header_.bucket_waiting[bucket]));
      row += header_.bucket_rows[bucket];
      key += header_.bucket_waiting[bucket];
    }
  }

  void append(uint32_t bucket, std::span<const RowHeader *const> rows, std::span<const PendingKey> waiting) {
    const RowLayout &layout = table_.layout_;
    std::vector<uint64_t> keys, waiting_keys;
    std::vector<float> counts, weights, state;
    std::vector<uint32_t> last_seen, waiting_seen;
    std::vector<uint16_t> slots, waiting_slots, sightings;
    weights.reserve(rows.size() * layout.dim);
    state.reserve(rows.size() * layout.state_width);
    for (const RowHeader *row : rows) {
      keys.push_back(row->key);
      counts.insert(counts.end(), {row->show, row->click});
      last_seen.push_back(row->last_seen);
      weights.insert(weights.end(), row->weights(), row->weights() + layout.dim);
      state.insert(state.end(), row->weights() + layout.dim, row->weights() + layout.dim + layout.state_width);
      slots.push_back(row->slot);
    }
    for (const PendingKey &key : waiting) {
      waiting_keys.push_back(key.key);
      waiting_seen.push_back(key.last_seen);
      waiting_slots.push_back(key.slot);
      sightings.push_back(key.sightings);
    }
    const std::string_view pieces[kSections] = {
        bytes_of(keys),  bytes_of(waiting_keys), bytes_of(counts), bytes_of(last_seen),     bytes_of(weights),
        bytes_of(state), bytes_of(waiting_seen), bytes_of(slots),  bytes_of(waiting_slots), bytes_of(sightings)};
    uint64_t checksum = 0;
    for (int s = 0; s < kSections; ++s) {
      checksum = base::xxh64(pieces[s], checksum);
      columns_[s].append(pieces[s]);
    }
    header_.checksums[bucket] = checksum;
  }

  const Table &table_;
  const base::File &file_;
  TableHeader header_;
  std::vector<SectionWriter> columns_;
};

void Table::save(const std::string &path) const {
  std::unique_lock closed(gate_);
  try {
    base::File file(path, O_WRONLY | O_CREAT | O_TRUNC);
    file.size();  // throws unless it is a regular file: what stands there otherwise is not ours to remove
    try {
      TableWriter(*this, file).write();
      file.finish();
    } catch (...) {
      ::unlink(path.c_str());  // a full disk gets its room back
      throw;
    }
  } catch (const base::FileError &error) {
    throw TableFileError("table file " + path + ": " + error.what());
  }
}

}  // namespace clickline::table
