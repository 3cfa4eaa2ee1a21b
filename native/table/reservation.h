// Room for every row that a push may make, in every stripe of its keys, from before its first change until it is done.
// Others push and evict meanwhile, so the room is counted in each stripe and left alone by them.
#pragma once

#include <array>
#include <span>

#include "base/pool.h"
#include "table/table.h"

namespace clickline::table {

class Table::Reservation {
 public:
  // Throws if there is no memory, or no number for a row, having changed nothing that can be read.
  Reservation(const Table &table, std::span<const uint64_t> keys, int threads) : table_(table) {
    bool may_wait = false;
    for (const Policy &policy : table.config_.policies) may_wait |= policy.count > 1;
    try {
      base::parallel_for((keys.size() + kKeys - 1) / kKeys, threads, [&](size_t chunk) {
        table.for_runs(keys, chunk * kKeys, std::min(keys.size(), (chunk + 1) * kKeys),
                       [&](Stripe &stripe, size_t begin, size_t end) {
          taken_[static_cast<size_t>(&stripe - table.stripes_.get())] +=
              stripe.reserve(&keys[begin], end - begin, may_wait);
        });
      });
    } catch (...) {
      give_back();
      throw;
    }
  }
  ~Reservation() { give_back(); }
  Reservation(const Reservation &) = delete;

 private:
  static constexpr size_t kKeys = 65536;  // per piece of work: a run costs some 30 ns, whatever its length

  void give_back() {
    for (uint32_t i = 0; i < kStripes; ++i)
      if (taken_[i]) table_.stripes_[i].reserved -= taken_[i];
  }

  const Table &table_;
  std::array<uint32_t, kStripes> taken_{};  // each with its stripe's lock
};

}  // namespace clickline::table
