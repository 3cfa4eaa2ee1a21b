// What the native tests of the table share: a CHECK that can fail, a push that owns its arrays, and a table
// written out as plain values to compare with another.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <tuple>
#include <vector>

#include "table/table.h"

#define CHECK(condition)                                                   \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                        \
    }                                                                      \
  } while (0)

namespace clickline::testing {

inline table::TableConfig config(const std::string &optimizer, uint32_t dim, double init_scale = 0.01) {
  table::TableConfig result;
  result.dim = dim;
  result.optimizer.name = optimizer;
  result.init_scale = init_scale;
  result.seed = 42;
  return result;
}

struct Arrays {
  std::vector<uint64_t> keys;
  std::vector<float> gradients, shows, clicks;
  std::vector<uint16_t> slots;

  explicit Arrays(std::vector<uint64_t> of, uint32_t dim, float gradient = 1, uint16_t slot = 0)
      : keys(std::move(of)), gradients(keys.size() * dim, gradient), shows(keys.size(), 1), clicks(keys.size(), 0),
        slots(keys.size(), slot) {}

  table::Push at(uint32_t tick) const {
    return {keys, gradients.data(), shows.data(), clicks.data(), slots.data(), tick, 1.0};
  }
};

using Row = std::tuple<uint64_t, float, float, uint32_t, uint16_t, std::vector<float>>;

inline std::vector<Row> contents(const table::Table &table) {
  const std::vector<uint64_t> keys = table.keys();
  const size_t width = table.layout().dim + table.layout().state_width;
  std::vector<Row> result;
  table.look_up(
      keys,
      [&](size_t, const table::RowHeader &row) {
        result.push_back({row.key, row.show, row.click, row.last_seen, row.slot,
                          std::vector<float>(row.weights(), row.weights() + width)});
      },
      [](size_t) { CHECK(!"a listed key has its row"); });
  return result;
}

}  // namespace clickline::testing
