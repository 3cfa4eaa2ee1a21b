// The sparse table: rows of weights by 64-bit key, with the optimizer inside. It has no size set beforehand.
// Promises:
// - Any number of threads may call anything at any time. A whole save or load, and nothing else, has the
//   table to itself. Two pushes at once may interleave between rows, never within one.
// - Keys may come in any order; grouped by bucket they are fastest. A key that comes twice in a push is
//   applied twice.
// - The number of threads changes no result as long as the keys of a push are unique.
// - A push that throws has applied nothing: gradients and counts that are not finite are looked for, and room for new
//   rows is reserved, before the first row changes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/gate.h"
#include "table/optimizers.h"
#include "table/stripe.h"

namespace clickline::dictionary {
struct DictionarySummary;
}

namespace clickline::table {

// When keys of a slot get a row, and when they lose it.
struct Policy {
  uint32_t count = 1;         // sightings before a key gets a row
  double probability = 1.0;   // chance, at each push, that it gets one
  uint64_t unseen_for = 0;    // ticks without a sighting after which it loses it; 0: never
  double min_score = 0.0;     // the same by score: show_weight * shows + click_weight * clicks; 0: never
  double show_weight = 0.1, click_weight = 1.0;

  bool selects() const { return count > 1 || probability < 1.0; }
};

struct TableConfig {
  uint32_t dim = 0;
  OptimizerConfig optimizer;
  double init_scale = 0.01;
  uint64_t seed = 0;
  std::vector<Policy> policies;  // one per slot column; empty: every key gets a row and keeps it
};

// Raised for a gradient or count that is not finite: the model diverged, which a user can do something about.
struct NotFinite : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What one push brings, all of the length of `keys` (gradients: times dim, summed per key already).
struct Push {
  std::span<const uint64_t> keys;
  const float *gradients, *shows, *clicks;
  const uint16_t *slots;
  uint32_t tick;        // event time in seconds, or the step; the same unit as in Policy::unseen_for
  double scale = 1.0;   // multiplies the learning rate
};

struct TableMemory {
  uint64_t rows, waiting, payload_bytes_per_row, total_bytes, index_bytes, waiting_bytes;
};

class Table {
 public:
  static constexpr uint32_t kMaxDim = 4096;

  explicit Table(TableConfig config);

  // Never creates a row. A key without one: zeros; in training its initial value, unless `slots` are given
  // and the key's slot selects which keys it admits.
  void pull(std::span<const uint64_t> keys, float *out, bool training, const uint16_t *slots, int threads) const;

  // Creates, counts, admits and learns; all of a push is one step of the optimizer.
  void push(const Push &push, int threads);

  // Multiplies shows and clicks by `decay`, then drops rows and pending keys by their slot's policy.
  size_t evict(uint32_t now, double decay, int threads);

  // Whole rows, weights then state. Of keys without a row, read gives what a new row would have; assign makes them;
  // add, whose `gradients` are differences of whole rows, admits them like a push. Not for hot paths: one thread.
  void read_whole(std::span<const uint64_t> keys, float *out) const;
  void assign_whole(std::span<const uint64_t> keys, const float *rows, const uint16_t *slots, uint32_t tick);
  void add_whole(const Push &push);

  // Every row learns anew from its initial value; keys, counts and pending keys stay.
  void reset(int threads);

  size_t size() const;
  uint64_t step() const { return step_.load(); }
  const TableConfig &config() const { return config_; }
  const RowLayout &layout() const { return layout_; }
  TableMemory memory() const;

  std::vector<uint64_t> keys() const;  // sorted by bucket, then key
  // Of existing rows; of others `missing` is called. For tests, tools and export: one lock per run of keys.
  template <class Found, class Missing>
  void look_up(std::span<const uint64_t> keys, Found found, Missing missing) const {
    std::shared_lock open(gate_);
    for_runs(keys, 0, keys.size(), [&](Stripe &stripe, size_t begin, size_t end) {
      stripe.visit<false>(&keys[begin], end - begin, layout_.stride(), [&](size_t i, uint32_t row) {
        row == kNoRow ? missing(begin + i) : found(begin + i, static_cast<const RowHeader &>(*stripe.rows[row]));
      });
    });
  }

  // One file, see docs/reference/table-format.md. A failed save leaves no file.
  void save(const std::string &path) const;
  // Adds the rows of the buckets first <= b < last, which must be empty so far. All of it or, if it throws,
  // nothing.
  void load(const std::string &path, uint32_t first_bucket, uint32_t last_bucket);
  // Gives rows that the table has the weights and state that they have in the file; keys, counts and pending keys stay,
  // and keys that only the file has get no row. If it throws, some rows have their new values.
  void restore(const std::string &path, uint32_t first_bucket, uint32_t last_bucket);
  // The weights of the rows in these buckets, see docs/reference/dictionary-format.md. dtype: a DictionaryType.
  dictionary::DictionarySummary write_dictionary(const std::string &path, uint32_t dtype, uint32_t first_bucket,
                                                 uint32_t last_bucket, int threads) const;

 private:
  friend class TableWriter;
  friend class TableReader;

  // body(stripe, begin, end) for each stretch of keys of one stripe, with its lock held.
  template <class Body>
  void for_runs(std::span<const uint64_t> keys, size_t begin, size_t end, Body body) const {
    while (begin < end) {
      const uint32_t number = stripe_of(keys[begin]);
      size_t stop = begin + 1;
      while (stop < end && stripe_of(keys[stop]) == number) ++stop;
      Stripe &stripe = stripes_[number];
      std::lock_guard lock(stripe.mutex);
      body(stripe, begin, stop);
      begin = stop;
    }
  }

  const Policy *policy_of(uint16_t slot) const {
    return slot < config_.policies.size() ? &config_.policies[slot] : nullptr;
  }
  void check(const Push &push, int threads) const;
  class Reservation;
  template <class Rule>
  void push_range(const Push &push, const StepFactors &step, size_t begin, size_t end);
  uint32_t admit(Stripe &stripe, const Push &push, size_t i);
  void start(RowHeader *row) const;
  float initial_state() const {
    return config_.optimizer.name == "adagrad" ? static_cast<float>(config_.optimizer.initial) : 0.0f;
  }

  const TableConfig config_;
  const RowLayout layout_;
  const uint32_t states_;  // of the optimizer, per weight
  RowMemory memory_;
  const std::unique_ptr<Stripe[]> stripes_;
  std::atomic<uint64_t> step_{0};
  mutable base::Gate gate_;
};

}  // namespace clickline::table
