// Pull and push.
#include "table/table.h"

#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <shared_mutex>

#include "base/pool.h"
#include "table/draws.h"
#include "table/reservation.h"

namespace clickline::table {

namespace {

constexpr size_t kChunk = 1024;  // keys per piece of work: some 50 microseconds

size_t chunks(size_t count) { return (count + kChunk - 1) / kChunk; }

uint32_t states_of(const std::string &optimizer) {
  return with_rule(optimizer, [](auto rule) { return rule.kStates; });
}

// False if any is infinite or not a number, by the exponent bits: integer compares vectorise.
bool all_finite(const float *values, size_t count) {
  uint32_t bad = 0;
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, values + i, sizeof bits);
    bad |= (bits & 0x7F800000u) == 0x7F800000u;
  }
  return !bad;
}

const TableConfig &checked(const TableConfig &config) {
  if (config.dim < 1 || config.dim > Table::kMaxDim)
    throw std::invalid_argument("dim must be 1 to " + std::to_string(Table::kMaxDim) + " but got " +
                                std::to_string(config.dim));
  if (!(config.optimizer.learning_rate > 0) || !std::isfinite(config.optimizer.learning_rate))
    throw std::invalid_argument("learning_rate must be above 0 but got " +
                                std::to_string(config.optimizer.learning_rate));
  if (!(config.init_scale >= 0) || !std::isfinite(config.init_scale))
    throw std::invalid_argument("init_scale must be 0 or more but got " + std::to_string(config.init_scale));
  if (config.policies.size() > 65536)
    throw std::invalid_argument("at most 65536 policies, one per slot, but got " +
                                std::to_string(config.policies.size()));
  for (const Policy &policy : config.policies) {
    if (policy.count < 1 || policy.count > 65535)
      throw std::invalid_argument("admission count must be 1 to 65535 but got " + std::to_string(policy.count));
    if (!(policy.probability > 0 && policy.probability <= 1))
      throw std::invalid_argument("admission probability must be above 0 and at most 1 but got " +
                                  std::to_string(policy.probability));
  }
  return config;
}

}  // namespace

Table::Table(TableConfig config)
    : config_(checked(config)),
      layout_{config_.dim, config_.dim * states_of(config_.optimizer.name)},
      states_(layout_.state_width / config_.dim),
      memory_(size_t{layout_.piece_rows()} * layout_.stride()),
      stripes_(std::make_unique<Stripe[]>(kStripes)) {
  for (uint32_t i = 0; i < kStripes; ++i) stripes_[i].rows.open(layout_, &memory_);
}

void Table::pull(std::span<const uint64_t> keys, float *out, bool training, const uint16_t *slots, int threads) const {
  std::shared_lock open(gate_);
  const size_t dim = layout_.dim;
  const float scale = static_cast<float>(config_.init_scale);
  base::parallel_for(chunks(keys.size()), threads, [&](size_t chunk) {
    const size_t first = chunk * kChunk, last = std::min(keys.size(), first + kChunk);
    for_runs(keys, first, last, [&](Stripe &stripe, size_t begin, size_t end) {
      stripe.visit<false>(&keys[begin], end - begin, layout_.pulled(), [&](size_t i, uint32_t row) {
        float *place = out + (begin + i) * dim;
        if (row != kNoRow) {
          const float *weights = stripe.rows[row]->weights();
          for (size_t d = 0; d < dim; ++d) place[d] = weights[d];
          return;
        }
        const Policy *policy = slots ? policy_of(slots[begin + i]) : nullptr;
        const bool starts = training && !(policy && policy->selects());
        initial_values(keys[begin + i], config_.seed, starts ? scale : 0.0f, place, dim);
      });
    });
  });
}

// All before the first row changes, so that a bad push leaves the table as it was. Costs some 3 ns per key.
void Table::check(const Push &push, int threads) const {
  const size_t dim = layout_.dim, policies = config_.policies.size();
  if (!(push.scale > 0) || !std::isfinite(push.scale))
    throw std::invalid_argument("scale must be above 0 but got " + std::to_string(push.scale));
  std::atomic<size_t> first_bad{std::numeric_limits<size_t>::max()};
  auto fits = [&](size_t begin, size_t end) {
    bool good = all_finite(push.gradients + begin * dim, (end - begin) * dim) &&
                all_finite(push.shows + begin, end - begin) && all_finite(push.clicks + begin, end - begin);
    if (policies)
      for (size_t i = begin; i < end; ++i) good &= push.slots[i] < policies;
    return good;
  };
  base::parallel_for(chunks(push.keys.size()), threads, [&](size_t chunk) {
    const size_t begin = chunk * kChunk, end = std::min(push.keys.size(), begin + kChunk);
    if (fits(begin, end)) return;
    size_t at = begin;
    while (fits(at, at + 1)) ++at;
    for (size_t known = first_bad; at < known && !first_bad.compare_exchange_weak(known, at);) {}
  });
  const size_t at = first_bad;
  if (at == std::numeric_limits<size_t>::max()) return;
  const std::string key = "key " + std::to_string(push.keys[at]) + " (number " + std::to_string(at) + " of the push)";
  if (policies && push.slots[at] >= policies)
    throw std::invalid_argument(key + " is of slot " + std::to_string(push.slots[at]) + " but the table has " +
                                std::to_string(policies) + " slots; nothing was applied");
  const bool gradient = !all_finite(push.gradients + at * dim, dim);
  throw NotFinite((gradient ? "the gradient of " : "the count of shows or clicks of ") + key +
                  " is not finite; nothing of this push was applied. Check the loss; a smaller learning rate "
                  "or the optimizer's `clip` may help");
}

// The row a new key gets now, or kNoRow if it has to wait.
uint32_t Table::admit(Stripe &stripe, const Push &push, size_t i) {
  const uint64_t key = push.keys[i];
  const uint16_t slot = push.slots[i];
  float shows = push.shows[i];
  if (const Policy *policy = policy_of(slot); policy && policy->selects()) {
    if (policy->count > 1) {
      const uint32_t sightings = static_cast<uint32_t>(std::clamp(std::round(shows), 1.0f, 65535.0f));
      const uint32_t seen = stripe.pending.see(key, sightings, push.tick, slot);
      if (seen < policy->count) return kNoRow;
      shows = std::max(shows, static_cast<float>(seen));
    }
    if (policy->probability < 1.0 && !chance(key, config_.seed, push.tick, policy->probability)) return kNoRow;
  }
  const uint32_t row = stripe.insert(key);
  stripe.pending.erase(key);
  RowHeader *header = stripe.rows[row];
  header->show = shows - push.shows[i];  // of the pushes before this one; this one's are added with all others
  header->click = 0;
  header->last_seen = push.tick;
  header->slot = slot;
  start(header);
  return row;
}

void Table::start(RowHeader *row) const {
  initial_values(row->key, config_.seed, static_cast<float>(config_.init_scale), row->weights(), layout_.dim);
  std::fill_n(row->weights() + layout_.dim, layout_.state_width, initial_state());
}

template <class Rule>
void Table::push_range(const Push &push, const StepFactors &step, size_t first, size_t last) {
  const size_t dim = layout_.dim;
  const bool shaped = step.clip > 0 || (Rule::kPenalised && (step.l1 > 0 || step.l2 > 0));
  std::array<float, kMaxDim> buffer;  // not allocated: that could fail half way
  for_runs(push.keys, first, last, [&](Stripe &stripe, size_t begin, size_t end) {
    stripe.visit<true>(&push.keys[begin], end - begin, layout_.stride(), [&](size_t offset, uint32_t row) {
      const size_t i = begin + offset;
      if (row == kNoRow) {
        row = stripe.find(push.keys[i]);  // an earlier one of the same push may have made it
        if (row == kNoRow) row = admit(stripe, push, i);
        if (row == kNoRow) return;
      }
      RowHeader *header = stripe.rows[row];
      header->show += push.shows[i];
      header->click += push.clicks[i];
      if (header->last_seen < push.tick) header->last_seen = push.tick;
      const float *gradient = push.gradients + i * dim;
      float *weights = header->weights();
      if (shaped) {
        shape_gradient(weights, gradient, buffer.data(), dim, step, Rule::kPenalised);
        gradient = buffer.data();
      }
      Rule::update(weights, weights + dim, gradient, dim, step);
    });
  });
}

void Table::push(const Push &push, int threads) {
  check(push, threads);
  std::shared_lock open(gate_);
  const Reservation room(*this, push.keys, threads);
  const StepFactors step(config_.optimizer, push.scale, step_.fetch_add(1) + 1);
  const size_t count = push.keys.size();
  with_rule(config_.optimizer.name, [&](auto rule) {
    auto work = [&](size_t chunk) {
      push_range<decltype(rule)>(push, step, chunk * kChunk, std::min(count, (chunk + 1) * kChunk));
    };
    base::parallel_for(chunks(count), threads, std::ref(work));  // by reference: a copy would be allocated
  });
}

}  // namespace clickline::table
