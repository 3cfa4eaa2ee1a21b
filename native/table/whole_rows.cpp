// Whole rows, weights and optimizer state together: what trainers that keep copies of a table exchange with it.
#include <algorithm>
#include <cmath>
#include <mutex>
#include <shared_mutex>

#include "table/draws.h"
#include "table/reservation.h"
#include "table/table.h"

namespace clickline::table {

void Table::read_whole(std::span<const uint64_t> keys, float *out) const {
  const size_t dim = layout_.dim, width = dim + layout_.state_width;
  const float scale = static_cast<float>(config_.init_scale), state = initial_state();
  look_up(
      keys, [&](size_t i, const RowHeader &row) { std::copy_n(row.weights(), width, out + i * width); },
      [&](size_t i) {
        initial_values(keys[i], config_.seed, scale, out + i * width, dim);
        std::fill_n(out + i * width + dim, layout_.state_width, state);
      });
}

void Table::assign_whole(std::span<const uint64_t> keys, const float *rows, const uint16_t *slots, uint32_t tick) {
  const size_t width = layout_.dim + layout_.state_width;
  std::shared_lock open(gate_);
  const Reservation room(*this, keys, 1);
  for_runs(keys, 0, keys.size(), [&](Stripe &stripe, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      uint32_t row = stripe.find(keys[i]);
      if (row == kNoRow) {
        row = stripe.insert(keys[i]);
        stripe.pending.erase(keys[i]);
        RowHeader *made = stripe.rows[row];
        made->show = made->click = 0;
        made->slot = slots[i];
      }
      RowHeader *header = stripe.rows[row];
      header->last_seen = tick;
      std::copy_n(rows + i * width, width, header->weights());
    }
  });
}

void Table::add_whole(const Push &push) {
  const size_t dim = layout_.dim, width = dim + layout_.state_width;
  for (size_t i = 0; i < push.keys.size() * width; ++i)
    if (!std::isfinite(push.gradients[i]))
      throw NotFinite("a difference of key " + std::to_string(push.keys[i / width]) +
                      " is not finite; nothing of it was applied. Check the loss; a smaller learning rate may help");
  std::shared_lock open(gate_);
  const bool derived = config_.optimizer.name == "ftrl";  // weights follow from the state, which is a sum
  const std::vector<float> zeros(dim, 0.0f);
  const Reservation room(*this, push.keys, 1);
  const StepFactors step(config_.optimizer, 1.0, step_.fetch_add(1) + 1);
  for_runs(push.keys, 0, push.keys.size(), [&](Stripe &stripe, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      uint32_t row = stripe.find(push.keys[i]);
      if (row == kNoRow) row = admit(stripe, push, i);
      if (row == kNoRow) continue;
      RowHeader *header = stripe.rows[row];
      header->show += push.shows[i];
      header->click += push.clicks[i];
      if (header->last_seen < push.tick) header->last_seen = push.tick;
      const float *difference = push.gradients + i * width;
      float *weights = header->weights();
      for (size_t d = derived ? dim : 0; d < width; ++d) weights[d] += difference[d];
      if (derived) Ftrl::update(weights, weights + dim, zeros.data(), dim, step);
    }
  });
}

}  // namespace clickline::table
