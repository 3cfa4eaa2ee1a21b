// One of a table's 256 parts: its lock, its index, its rows, its pending keys. All but `mutex` is only
// touched with the lock held (or with the whole table to itself, see base/gate.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/hash.h"
#include "table/key_index.h"
#include "table/pending_keys.h"
#include "table/row_store.h"

namespace clickline::table {

inline constexpr uint32_t kStripes = 256;
inline constexpr uint32_t kStripeBuckets = base::kBuckets / kStripes;

// Keys grouped by bucket are thereby grouped by stripe.
inline uint32_t stripe_of(uint64_t key) { return base::bucket_of(key) / kStripeBuckets; }

struct alignas(64) Stripe {
  std::mutex mutex;
  KeyIndex index;
  RowStore rows;
  PendingKeys pending;
  std::atomic<uint32_t> reserved{0};  // rows and pending keys that pushes under way may still need or have made

  uint32_t find(uint64_t key) const { return index.find(key, rows); }

  // A row for a key that has none; the caller fills it.
  uint32_t insert(uint64_t key) {
    index.reserve(rows.live() + 1, rows);  // before the row is taken, as it may throw and indexes what is live
    const uint32_t row = rows.take();
    rows[row]->key = key;
    index.add(key, row);
    return row;
  }

  // Makes sure that each of these keys can get a row or become pending, whatever else happens until `reserved` is
  // lowered again by the number that is returned. Throws if there is no memory for it, having changed no row.
  // Most often there is room for all keys as if all were new, which costs nothing. Such room is made if it is a small
  // part of the stripe, or small altogether (4 MiB for all stripes of a table). Otherwise the new keys are counted.
  uint32_t reserve(const uint64_t *keys, size_t count, bool may_wait) {
    const auto has_room = [&](uint64_t more) {
      const uint64_t all = uint64_t{reserved} + more;
      return rows.spare() >= all && index.holds(rows.live() + all) && (!may_wait || pending.holds(all));
    };
    uint64_t more = count;
    if (!has_room(more)) {
      const bool little = count <= rows.live() / 32 || count * rows.stride() <= size_t{16} << 10;
      if (!little || rows.live() + reserved + count > kNoRow) {
        more = 0;
        visit<false>(keys, count, sizeof(RowHeader), [&](size_t, uint32_t row) { more += row == kNoRow; });
      }
      const uint64_t all = uint64_t{reserved} + more;
      rows.reserve(all);
      index.reserve(static_cast<uint32_t>(rows.live() + all), rows);
      if (may_wait) pending.reserve(all);
    }
    reserved += static_cast<uint32_t>(more);
    return static_cast<uint32_t>(more);
  }

  // Frees the rows that `keep` refuses (it may change rows as it looks at them).
  template <class Keep>
  size_t retain(Keep keep) {
    if (!rows.used()) return 0;
    KeyIndex fresh(rows.live() + reserved);  // first, so that running out of memory changes nothing
    size_t dropped = 0;
    for (uint32_t row = 0; row < rows.used(); ++row) {
      RowHeader *header = rows[row];
      if (!header->live) continue;
      if (keep(*header)) {
        fresh.add(header->key, row);
      } else {
        rows.release(row);
        ++dropped;
      }
    }
    index = std::move(fresh);
    return dropped;
  }

  // Calls use(i, row or kNoRow) for each key in order. In three steps per group, so that the cache misses of
  // a group overlap: ask for its index lines, then for its rows (`bytes` of each), then use them.
  // `use` may insert: a row's number stays true, and kNoRow has to be checked by find() in case of repeats.
  template <bool kWrite, class Use>
  void visit(const uint64_t *keys, size_t count, size_t bytes, Use use) const {
    constexpr size_t kGroup = kWrite ? 16 : 32;  // measured: a push asks for twice the lines per row
    if (index.empty()) {
      for (size_t i = 0; i < count; ++i) use(i, kNoRow);
      return;
    }
    uint64_t hashes[kGroup];
    uint32_t found[kGroup];
    const size_t reach = bytes < 512 ? bytes : 512;  // the hardware follows longer rows by itself
    for (size_t begin = 0; begin < count; begin += kGroup) {
      const size_t size = count - begin < kGroup ? count - begin : kGroup;
      for (size_t i = 0; i < size; ++i) {
        hashes[i] = KeyIndex::hash(keys[begin + i]);
        index.prefetch(hashes[i]);
      }
      for (size_t i = 0; i < size; ++i) {
        found[i] = index.candidate(hashes[i]);
        if (found[i] == kNoRow) continue;
        const char *row = reinterpret_cast<const char *>(rows[found[i]]);
        for (size_t at = 0; at < reach; at += 64) __builtin_prefetch(row + at, kWrite);
        __builtin_prefetch(row + reach - 1, kWrite);
      }
      for (size_t i = 0; i < size; ++i) {
        const uint64_t key = keys[begin + i];
        const bool right = found[i] == kNoRow || rows[found[i]]->key == key;
        use(begin + i, right ? found[i] : find(key));
      }
    }
  }
};

}  // namespace clickline::table
