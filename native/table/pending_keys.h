// Keys of one stripe that were seen but not admitted yet: their slot asks for more sightings before a key gets a row.
// 16 bytes each, so that the long tail of a log costs a tenth of what its rows would. (Table files and statistics call
// them waiting keys.)
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "table/key_index.h"

namespace clickline::table {

struct PendingKey {
  uint64_t key;
  uint32_t last_seen;
  uint16_t slot;
  uint16_t sightings;  // 0: no key here
};
static_assert(sizeof(PendingKey) == 16);

class PendingKeys {
 public:
  uint32_t size() const { return size_; }
  size_t bytes() const { return entries_.capacity() * sizeof(PendingKey); }

  // Room for so many more keys than there are, without allocating anything then. Throws having changed nothing.
  void reserve(uint64_t more) {
    if (!holds(more)) resize(std::bit_ceil(std::max<size_t>(8, (size_ + more) * 5 / 4 + 1)));
  }
  bool holds(uint64_t more) const { return (size_ + more) * 5 <= entries_.size() * 4; }

  // Adds sightings to those the key has; returns the sum, which stops at 65,535.
  uint16_t see(uint64_t key, uint32_t sightings, uint32_t tick, uint16_t slot) {
    PendingKey &entry = place(key);
    if (!entry.sightings) {
      entry = {key, tick, slot, 0};
      ++size_;
    }
    entry.last_seen = std::max(entry.last_seen, tick);
    entry.sightings = static_cast<uint16_t>(std::min(65535u, entry.sightings + std::min(sightings, 65535u)));
    return entry.sightings;
  }

  // Of a key that is not there already.
  void add(const PendingKey &entry) {
    place(entry.key) = entry;
    ++size_;
  }

  bool contains(uint64_t key) const { return !entries_.empty() && entries_[find(key)].sightings; }

  void erase(uint64_t key) {
    if (!contains(key)) return;
    // Entries after the hole move up unless that would put them before their home, so probing never breaks.
    size_t hole = find(key);
    for (size_t at = (hole + 1) & mask(); entries_[at].sightings; at = (at + 1) & mask()) {
      const size_t home = KeyIndex::hash(entries_[at].key) & mask();
      if (((at - home) & mask()) >= ((at - hole) & mask())) {
        entries_[hole] = entries_[at];
        hole = at;
      }
    }
    entries_[hole].sightings = 0;
    --size_;
  }

  template <class Keep>
  void retain(Keep keep, uint64_t reserved) {
    std::vector<PendingKey> kept = all();
    std::erase_if(kept, [&](const PendingKey &entry) { return !keep(entry); });
    if (kept.size() == size_) return;
    PendingKeys fresh;
    if (reserved) fresh.reserve(kept.size() + reserved);
    for (const PendingKey &entry : kept) fresh.add(entry);
    *this = std::move(fresh);
  }

  std::vector<PendingKey> all() const {
    std::vector<PendingKey> result;
    result.reserve(size_);
    for (const PendingKey &entry : entries_)
      if (entry.sightings) result.push_back(entry);
    return result;
  }

 private:
  size_t mask() const { return entries_.size() - 1; }

  size_t find(uint64_t key) const {
    size_t at = KeyIndex::hash(key) & mask();
    while (entries_[at].sightings && entries_[at].key != key) at = (at + 1) & mask();
    return at;
  }

  // Where the key is or would be; makes room for one more first.
  PendingKey &place(uint64_t key) {
    if (!holds(1)) resize(std::max<size_t>(8, entries_.size() * 2));
    return entries_[find(key)];
  }

  void resize(size_t entries) {
    std::vector<PendingKey> old(entries);
    old.swap(entries_);
    for (const PendingKey &entry : old)
      if (entry.sightings) entries_[find(entry.key)] = entry;
  }

  std::vector<PendingKey> entries_;  // a power of two of them
  uint32_t size_ = 0;
};

}  // namespace clickline::table
