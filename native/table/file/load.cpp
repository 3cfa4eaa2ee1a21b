// Loading a table. Nothing in the file is believed: sizes are checked against the file's before anything is
// allocated, every byte that is used is covered by a checksum, and what checksums cannot promise (order of
// keys, their buckets) is looked at. docs/reference/table-format.md is the specification.
#include <mutex>

#include "table/file/sections.h"
#include "table/table.h"

namespace clickline::table {

namespace {

template <class T>
T item(std::string_view bytes, size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

// Keys of one bucket: of that bucket, ascending, no two the same.
void check_keys(std::string_view keys, uint32_t bucket) {
  for (size_t i = 0; i < keys.size() / 8; ++i) {
    const uint64_t key = item<uint64_t>(keys, i);
    if (base::bucket_of(key) != bucket)
      throw TableFileError("key " + std::to_string(key) + " is in a bucket not its own");
    if (i && key <= item<uint64_t>(keys, i - 1))
      throw TableFileError("key " + std::to_string(key) + " is out of order");
  }
}

std::pair<TableHeader, uint64_t> read_header(const base::File &file) {
  const uint64_t size = file.size();
  if (size < kPreamble) throw TableFileError("a file of " + std::to_string(size) + " bytes is too short for a table");
  std::string preamble(kPreamble, '\0');
  file.read(preamble.data(), kPreamble, 0);
  std::string header(check_preamble(preamble, size), '\0');
  file.read(header.data(), header.size(), kPreamble);
  check_header(preamble, header);
  return {TableHeader::parse(header), kPreamble + header.size()};
}

}  // namespace

// Reads bucket by bucket; the gate is closed.
class TableReader {
 public:
  TableReader(Table &table, const base::File &file) : table_(table), file_(file) {}

  // Adds rows to buckets that are empty.
  void load(uint32_t first, uint32_t last) {
    read(first, last, /*adding=*/true);
  }

  // Changes rows that are there.
  void restore(uint32_t first, uint32_t last) {
    read(first, last, /*adding=*/false);
  }

 private:
  void read(uint32_t first, uint32_t last, bool adding) {
    const auto [header, data] = read_header(file_);
    check_fit(header);
    const SectionPlan plan(header, data);
    if (plan.end != file_.size())
      throw TableFileError("the header promises " + std::to_string(plan.end) + " bytes but the file has " +
                           std::to_string(file_.size()));
    if (adding) check_empty(header, first, last);
    std::vector<SectionReader> columns;
    for (int s = 0; s < kSections; ++s)
      columns.emplace_back(file_, plan.begin[s], s + 1 < kSections ? plan.begin[s + 1] : plan.end);
    try {
      for (uint32_t b = 0; b < last; ++b) {
        std::string_view pieces[kSections];
        uint64_t checksum = 0;
        for (int s = 0; s < kSections; ++s) {
          const uint64_t count = SectionPlan::waits(s) ? header.bucket_waiting[b] : header.bucket_rows[b];
          if (b < first) {
            columns[s].skip(count * plan.width[s]);
          } else {
            pieces[s] = columns[s].next(count * plan.width[s]);
            checksum = base::xxh64(pieces[s], checksum);
          }
        }
        if (b < first) continue;
        if (checksum != header.checksums[b])
          throw TableFileError("bucket " + std::to_string(b) + ": checksum does not match");
        adding ? add(b, pieces) : change(b, pieces);
      }
    } catch (...) {
      if (adding) remove(header, first, last);
      throw;
    }
    if (table_.step_ < header.step) table_.step_ = header.step;
  }

  void check_fit(const TableHeader &h) const {
    auto differs = [](const std::string &what, const std::string &file, const std::string &table) {
      throw TableFileError("was saved with " + what + " " + file + " but the table has " + what + " " + table +
                           "; give the job the same value, or start from an empty table");
    };
    const TableConfig &config = table_.config_;
    if (h.dim != config.dim) differs("dim", std::to_string(h.dim), std::to_string(config.dim));
    if (h.optimizer != config.optimizer.name) differs("optimizer", h.optimizer, config.optimizer.name);
    if (h.seed != config.seed) differs("seed", std::to_string(h.seed), std::to_string(config.seed));
    if (h.states != table_.states_)
      throw TableFileError("header: " + h.optimizer + " has " + std::to_string(table_.states_) + " states, not " +
                           std::to_string(h.states));
  }

  // Whether the key's bucket is one that this load fills.
  static bool brings(const TableHeader &h, uint32_t first, uint32_t last, uint64_t key) {
    const uint32_t bucket = base::bucket_of(key);
    return bucket >= first && bucket < last && h.bucket_rows[bucket] + h.bucket_waiting[bucket];
  }

  void check_empty(const TableHeader &h, uint32_t first, uint32_t last) const {
    auto refuse = [&](uint64_t key) {
      if (brings(h, first, last, key))
        throw TableFileError("bucket " + std::to_string(base::bucket_of(key)) +
                             " holds keys already; load into an empty table, or buckets not loaded before");
    };
    for (uint32_t i = first / kStripeBuckets; i * kStripeBuckets < last; ++i) {
      const Stripe &stripe = table_.stripes_[i];
      for (uint32_t row = 0; row < stripe.rows.used(); ++row)
        if (stripe.rows[row]->live) refuse(stripe.rows[row]->key);
      for (const PendingKey &key : stripe.pending.all()) refuse(key.key);
    }
  }

  void add(uint32_t bucket, const std::string_view (&pieces)[kSections]) {
    Stripe &stripe = table_.stripes_[bucket / kStripeBuckets];
    const size_t rows = pieces[kKeys].size() / 8, waiting = pieces[kWaitingKeys].size() / 8;
    const size_t dim = table_.layout_.dim, state = table_.layout_.state_width;
    check_keys(pieces[kKeys], bucket);
    check_keys(pieces[kWaitingKeys], bucket);
    for (size_t i = 0; i < rows; ++i) {
      RowHeader *row = stripe.rows[stripe.insert(item<uint64_t>(pieces[kKeys], i))];
      row->show = item<float>(pieces[kCounts], 2 * i);
      row->click = item<float>(pieces[kCounts], 2 * i + 1);
      row->last_seen = item<uint32_t>(pieces[kLastSeen], i);
      row->slot = item<uint16_t>(pieces[kSlots], i);
      std::memcpy(row->weights(), pieces[kWeights].data() + i * dim * 4, dim * 4);
      if (state) std::memcpy(row->weights() + dim, pieces[kState].data() + i * state * 4, state * 4);
    }
    for (size_t i = 0; i < waiting; ++i) {
      const PendingKey key{item<uint64_t>(pieces[kWaitingKeys], i), item<uint32_t>(pieces[kWaitingSeen], i),
                           item<uint16_t>(pieces[kWaitingSlots], i), item<uint16_t>(pieces[kSightings], i)};
      if (!key.sightings) throw TableFileError("key " + std::to_string(key.key) + " waits without a sighting");
      if (stripe.find(key.key) != kNoRow)
        throw TableFileError("key " + std::to_string(key.key) + " waits for a row that it has");
      stripe.pending.add(key);
    }
  }

  void change(uint32_t bucket, const std::string_view (&pieces)[kSections]) {
    Stripe &stripe = table_.stripes_[bucket / kStripeBuckets];
    const size_t dim = table_.layout_.dim, state = table_.layout_.state_width;
    check_keys(pieces[kKeys], bucket);
    for (size_t i = 0; i < pieces[kKeys].size() / 8; ++i) {
      const uint32_t number = stripe.find(item<uint64_t>(pieces[kKeys], i));
      if (number == kNoRow) continue;  // evicted since
      RowHeader *row = stripe.rows[number];
      std::memcpy(row->weights(), pieces[kWeights].data() + i * dim * 4, dim * 4);
      if (state) std::memcpy(row->weights() + dim, pieces[kState].data() + i * state * 4, state * 4);
    }
  }

  // What a load that failed has added: all in the buckets it brings, since they were empty.
  void remove(const TableHeader &h, uint32_t first, uint32_t last) {
    auto stays = [&](uint64_t key) { return !brings(h, first, last, key); };
    for (uint32_t i = first / kStripeBuckets; i * kStripeBuckets < last; ++i) {
      table_.stripes_[i].retain([&](RowHeader &row) { return stays(row.key); });
      table_.stripes_[i].pending.retain([&](const PendingKey &key) { return stays(key.key); }, 0);
    }
  }

  Table &table_;
  const base::File &file_;
};

namespace {

void check_range(uint32_t first_bucket, uint32_t last_bucket) {
  if (first_bucket > last_bucket || last_bucket > base::kBuckets)
    throw std::invalid_argument("buckets must be 0 <= first <= last <= 4096 but got " + std::to_string(first_bucket) +
                                " and " + std::to_string(last_bucket));
}

}  // namespace

void Table::load(const std::string &path, uint32_t first_bucket, uint32_t last_bucket) {
  check_range(first_bucket, last_bucket);
  std::unique_lock closed(gate_);
  try {
    const base::File file(path, O_RDONLY);
    TableReader(*this, file).load(first_bucket, last_bucket);
  } catch (const base::FileError &error) {
    throw TableFileError("table file " + path + ": " + error.what());
  }
}

void Table::restore(const std::string &path, uint32_t first_bucket, uint32_t last_bucket) {
  check_range(first_bucket, last_bucket);
  std::unique_lock closed(gate_);
  try {
    const base::File file(path, O_RDONLY);
    TableReader(*this, file).restore(first_bucket, last_bucket);
  } catch (const base::FileError &error) {
    throw TableFileError("table file " + path + ": " + error.what());
  }
}

}  // namespace clickline::table
