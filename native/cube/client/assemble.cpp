// Putting the shards' answers together in the caller's order.
#include <cstring>

#include "cube/client/shard_requests.h"

namespace clickline::cube {

// Rows into the caller's order; a key that came twice is copied twice. Returns how many are missing.
uint64_t CubeClient::scatter(Call &call, GetResult &got, const ShardRequest *known) {
  const size_t n = got.count, width = got.row_bytes;
  got.status = base::Recycled<uint8_t>(n);
  uint64_t missing = 0;
  if (known && width && call.used == 1 && call.keys.unique() == n) {  // it is theirs already
    got.values = base::Recycled<char>(got.values_bytes = n * width);
    if (n) std::memcpy(got.status.data(), known->status, n);
    if (n) std::memcpy(got.values.data(), known->values, n * width);
    for (size_t i = 0; i < n; ++i) missing += got.status[i] == static_cast<uint8_t>(KeyStatus::No);
    return missing;
  }
  call.rows.assign(call.keys.unique(), {nullptr, 0, KeyStatus::Unknown});
  for (const ShardRequest &request : call.all()) {
    if (request.state != ShardRequest::State::Done || !known) continue;
    for (size_t i = 0, at = call.keys.first(request.shard); i < request.keys.size(); ++i, ++at) {
      Call::Row &row = call.rows[at];
      row.status = static_cast<KeyStatus>(request.status[i]);
      row.size = width ? width : request.offsets[i + 1] - request.offsets[i];
      row.data = request.values + (width ? i * width : request.offsets[i]);
    }
  }
  size_t bytes = n * width;
  if (!width) {
    got.offsets = base::Recycled<uint64_t>(n + 1);
    got.offsets[0] = 0;
    for (size_t i = 0; i < n; ++i) got.offsets[i + 1] = bytes += call.rows[call.keys.place(i)].size;
  }
  got.values = base::Recycled<char>(got.values_bytes = bytes);
  char *out = got.values.data();
  for (size_t i = 0; i < n; ++i) {
    const Call::Row &row = call.rows[call.keys.place(i)];
    got.status[i] = static_cast<uint8_t>(row.status);
    missing += row.status == KeyStatus::No;
    if (row.size) std::memcpy(out, row.data, row.size);
    if (!row.data && width) std::memset(out, 0, width);
    out += width ? width : row.size;
  }
  return missing;
}

GetResult CubeClient::assemble(Call &call, std::string_view table, uint64_t version) {
  GetResult got;
  const size_t n = got.count = call.keys.size();
  got.version = version;
  const ShardRequest *known = nullptr;
  size_t failed = 0;
  for (const ShardRequest &request : call.all()) {
    if (request.state != ShardRequest::State::Done || !version) {
      ++failed;
      got.errors.push_back(request.error);
      continue;
    }
    if (known && (request.head.dtype != known->head.dtype || request.head.dim != known->head.dim ||
                  request.head.row_bytes != known->head.row_bytes))
      throw wire::PeerFailure("the table is of another kind in shard " + std::to_string(known->shard) + " than in shard " +
                              std::to_string(request.shard));
    known = &request;
  }
  counts.shards_failed += failed;
  if (failed) got.code = failed == call.used ? Outcome::AllFailed : Outcome::SomeFailed;
  GetReplyHead shape{};
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

  const auto missing = scatter(call, got, version ? known : nullptr);
  counts.gets.fetch_add(1, std::memory_order_relaxed);
  counts.keys.fetch_add(n, std::memory_order_relaxed);
  counts.unique_keys.fetch_add(call.keys.unique(), std::memory_order_relaxed);
  counts.missing.fetch_add(missing, std::memory_order_relaxed);
  return got;
}

}  // namespace clickline::cube
