// Operations that visit the whole table: eviction, size, memory, the list of keys.
#include <algorithm>
#include <shared_mutex>

#include "base/pool.h"
#include "table/table.h"

namespace clickline::table {

size_t Table::evict(uint32_t now, double decay, int threads) {
  if (!(decay > 0 && decay <= 1))
    throw std::invalid_argument("decay must be above 0 and at most 1 but got " + std::to_string(decay));
  std::shared_lock open(gate_);
  const float factor = static_cast<float>(decay);
  auto unseen = [now](const Policy *policy, uint32_t last_seen) {
    return policy && policy->unseen_for && now > last_seen && now - last_seen > policy->unseen_for;
  };
  std::atomic<size_t> dropped{0};
  base::parallel_for(kStripes, threads, [&](size_t number) {
    Stripe &stripe = stripes_[number];
    std::lock_guard lock(stripe.mutex);
    dropped += stripe.retain([&](RowHeader &row) {
      row.show *= factor;
      row.click *= factor;
      const Policy *policy = policy_of(row.slot);
      if (unseen(policy, row.last_seen)) return false;
      if (!policy || !(policy->min_score > 0)) return true;
      return policy->show_weight * row.show + policy->click_weight * row.click >= policy->min_score;
    });
    stripe.pending.retain([&](const PendingKey &key) { return !unseen(policy_of(key.slot), key.last_seen); },
                          stripe.reserved);
  });
  return dropped;
}

void Table::reset(int threads) {
  std::unique_lock closed(gate_);
  base::parallel_for(kStripes, threads, [&](size_t number) {
    RowStore &rows = stripes_[number].rows;
    for (uint32_t row = 0; row < rows.used(); ++row)
      if (rows[row]->live) start(rows[row]);
  });
  step_ = 0;
}

size_t Table::size() const {
  std::shared_lock open(gate_);
  size_t result = 0;
  for (uint32_t i = 0; i < kStripes; ++i) {
    std::lock_guard lock(stripes_[i].mutex);
    result += stripes_[i].rows.live();
  }
  return result;
}

TableMemory Table::memory() const {
  std::shared_lock open(gate_);
  TableMemory result{};
  result.payload_bytes_per_row = layout_.payload();
  result.total_bytes = sizeof(Table) + kStripes * sizeof(Stripe) + memory_.bytes();
  for (uint32_t i = 0; i < kStripes; ++i) {
    const Stripe &stripe = stripes_[i];
    std::lock_guard lock(stripes_[i].mutex);
    result.rows += stripe.rows.live();
    result.waiting += stripe.pending.size();
    result.index_bytes += stripe.index.bytes();
    result.waiting_bytes += stripe.pending.bytes();
    result.total_bytes += stripe.rows.bytes() + stripe.index.bytes() + stripe.pending.bytes();
  }
  return result;
}

std::vector<uint64_t> Table::keys() const {
  std::shared_lock open(gate_);
  std::vector<uint64_t> result;
  for (uint32_t i = 0; i < kStripes; ++i) {
    const RowStore &rows = stripes_[i].rows;
    std::lock_guard lock(stripes_[i].mutex);
    const size_t before = result.size();
    for (uint32_t row = 0; row < rows.used(); ++row)
      if (rows[row]->live) result.push_back(rows[row]->key);
    std::sort(result.begin() + static_cast<ptrdiff_t>(before), result.end(), [](uint64_t a, uint64_t b) {
      return std::pair(base::bucket_of(a), a) < std::pair(base::bucket_of(b), b);
    });
  }
  return result;
}

}  // namespace clickline::table
