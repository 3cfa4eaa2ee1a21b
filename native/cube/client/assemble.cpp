// How the shards' answers become what the caller gets.
#include <cstring>

#include "cube/client/shard_requests.h"

namespace clickline {

// Rows into the caller's order; a key that came twice is copied twice. Returns how many are missing.
uint64_t CubeClient::scatter(Batch &batch, Got &got, const Ask *known) {
  const size_t n = got.count, width = got.row_bytes;
  got.status = Recycled<uint8_t>(n);
  uint64_t missing = 0;
  if (known && width && batch.used == 1 && batch.keys.unique() == n) {  // it is theirs already
    got.values = Recycled<char>(got.values_bytes = n * width);
    if (n) std::memcpy(got.status.data(), known->status, n);
    if (n) std::memcpy(got.values.data(), known->values, n * width);
    for (size_t i = 0; i < n; ++i) missing += got.status[i] == static_cast<uint8_t>(Found::No);
    return missing;
  }
  batch.rows.assign(batch.keys.unique(), {nullptr, 0, Found::Unknown});
  for (const Ask &ask : batch.all()) {
    if (ask.state != Ask::State::Done || !known) continue;
    for (size_t i = 0, at = batch.keys.first(ask.shard); i < ask.keys.size(); ++i, ++at) {
      Batch::Row &row = batch.rows[at];
      row.status = static_cast<Found>(ask.status[i]);
      row.size = width ? width : ask.offsets[i + 1] - ask.offsets[i];
      row.data = ask.values + (width ? i * width : ask.offsets[i]);
    }
  }
  size_t bytes = n * width;
  if (!width) {
    got.offsets = Recycled<uint64_t>(n + 1);
    got.offsets[0] = 0;
    for (size_t i = 0; i < n; ++i) got.offsets[i + 1] = bytes += batch.rows[batch.keys.place(i)].size;
  }
  got.values = Recycled<char>(got.values_bytes = bytes);
  char *out = got.values.data();
  for (size_t i = 0; i < n; ++i) {
    const Batch::Row &row = batch.rows[batch.keys.place(i)];
    got.status[i] = static_cast<uint8_t>(row.status);
    missing += row.status == Found::No;
    if (row.size) std::memcpy(out, row.data, row.size);
    if (!row.data && width) std::memset(out, 0, width);
    out += width ? width : row.size;
  }
  return missing;
}

Got CubeClient::assemble(Batch &batch, std::string_view table, uint64_t version) {
  Got got;
  const size_t n = got.count = batch.keys.size();
  got.version = version;
  const Ask *known = nullptr;
  size_t failed = 0;
  for (const Ask &ask : batch.all()) {
    if (ask.state != Ask::State::Done || !version) {
      ++failed;
      got.errors.push_back(ask.error);
      continue;
    }
    if (known && (ask.head.dtype != known->head.dtype || ask.head.dim != known->head.dim ||
                  ask.head.row_bytes != known->head.row_bytes))
      throw PeerFailure("the table is of another kind in shard " + std::to_string(known->shard) + " than in shard " +
                        std::to_string(ask.shard));
    known = &ask;
  }
  counts.shards_failed += failed;
  if (failed) got.code = failed == batch.used ? Outcome::AllFailed : Outcome::SomeFailed;
  GotHead shape{};
  {
    std::lock_guard lock(mutex_);
    const auto seen = shapes_.find(table);
    if (known && seen == shapes_.end()) shapes_.emplace(table, known->head);
    if (known && seen != shapes_.end()) seen->second = known->head;
    if (known) shape = known->head;
    if (!known && seen != shapes_.end()) shape = seen->second;
  }
  got.dtype = shape.dtype;
  got.dim = shape.dim;
  got.row_bytes = shape.row_bytes;

  const auto missing = scatter(batch, got, version ? known : nullptr);
  counts.gets.fetch_add(1, std::memory_order_relaxed);
  counts.keys.fetch_add(n, std::memory_order_relaxed);
  counts.unique_keys.fetch_add(batch.keys.unique(), std::memory_order_relaxed);
  counts.missing.fetch_add(missing, std::memory_order_relaxed);
  return got;
}

}  // namespace clickline
