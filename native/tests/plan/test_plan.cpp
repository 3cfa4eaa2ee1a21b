// Random batches against a plain reference with std::map; the same bytes for any number of threads.
#include "plan/plan.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "check.h"

using namespace clickline::base;
using namespace clickline::plan;

namespace {

std::mt19937_64 randomness(20);
size_t below(size_t n) { return n ? randomness() % n : 0; }

struct Batch {
  size_t rows, columns;
  bool ragged;
  std::vector<uint64_t> keys;
  std::vector<int64_t> offsets, select, pooling;
  std::vector<float> labels;
  int64_t sequence_length = 0;

  PlanInput input(int threads) const {
    return {.keys = keys, .offsets = ragged ? std::span(offsets) : std::span<const int64_t>(), .columns = columns,
            .select = select, .pooling = pooling, .labels = labels.data(), .rows = rows,
            .sequence_length = sequence_length, .threads = threads};
  }
};

Batch make_batch(size_t rows, size_t columns, bool ragged, size_t max_values, uint64_t distinct) {
  Batch b{rows, columns, ragged, {}, {0}, {}, {}, {}};
  for (size_t i = 0; i < rows * columns; ++i) {
    const size_t values = ragged ? below(max_values + 1) : 1;
    for (size_t k = 0; k < values; ++k) {
      const uint64_t value = below(8) ? below(distinct) : below(3);  // a few keys are very frequent
      b.keys.push_back(below(2) ? value : value * 0x9E3779B185EBCA87ull);
    }
    b.offsets.push_back(static_cast<int64_t>(b.keys.size()));
  }
  for (size_t r = 0; r < rows; ++r) b.labels.push_back(static_cast<float>(below(2)));
  for (size_t c = 0; c < columns; ++c)
    if (below(4)) b.select.push_back(static_cast<int64_t>(c));
  if (b.select.empty()) b.select.push_back(static_cast<int64_t>(below(columns)));
  if (below(2)) std::shuffle(b.select.begin(), b.select.end(), randomness);
  for (size_t s = 0; s < b.select.size(); ++s) b.pooling.push_back(static_cast<int64_t>(below(3)));
  if (below(3) == 0) {
    b.select.resize(1);
    b.pooling.resize(1);
    b.sequence_length = static_cast<int64_t>(1 + below(max_values + 1));
  }
  return b;
}

std::vector<uint64_t> values_of(const Batch &b, size_t row, size_t place) {
  const size_t cell = row * b.columns + static_cast<size_t>(b.select[place]);
  auto begin = b.keys.begin() + b.offsets[cell], end = b.keys.begin() + b.offsets[cell + 1];
  if (b.sequence_length && end - begin > b.sequence_length) begin = end - b.sequence_length;
  return {begin, end};
}

struct Expected {
  float shows = 0, clicks = 0;
  int64_t slot = -1;
  size_t first = 0;
};

void check_keys(const Batch &b, const Plan &plan, std::map<uint64_t, size_t> &index) {
  std::map<uint64_t, Expected> expected;
  size_t position = 0;
  for (size_t r = 0; r < b.rows; ++r)
    for (size_t s = 0; s < b.select.size(); ++s) {
      const auto values = values_of(b, r, s);
      if (b.sequence_length) CHECK_EQ(plan.lengths()[r], static_cast<int32_t>(values.size()));
      for (uint64_t key : values) {
        Expected &e = expected[key];
        if (e.slot < 0) e.slot = b.select[s], e.first = position;
        e.shows += 1;
        e.clicks += b.labels[r] > 0.5f;
        ++position;
      }
    }
  CHECK_EQ(plan.occurrences(), position);
  CHECK_EQ(plan.unique().size(), expected.size());
  for (size_t u = 0; u < plan.unique().size(); ++u) {
    const uint64_t key = plan.unique()[u];
    CHECK(expected.contains(key));
    const Expected &e = expected[key];
    CHECK_EQ(plan.shows()[u], e.shows);
    CHECK_EQ(plan.clicks()[u], e.clicks);
    CHECK_EQ(int64_t{plan.slots()[u]}, e.slot);
    if (u) {
      const uint64_t before = plan.unique()[u - 1];
      CHECK(bucket_of(before) < bucket_of(key) ||
            (bucket_of(before) == bucket_of(key) && expected[before].first < e.first));
    }
    CHECK(index.emplace(key, u).second);
  }
}

bool close(float a, double b) { return std::abs(a - b) <= 1e-4 * (1 + std::abs(b)); }

void check_values(const Batch &b, const Plan &plan, const std::map<uint64_t, size_t> &index, size_t dim) {
  const size_t places = plan.places(), keys = index.size();
  std::vector<float> rows(keys * dim), out(b.rows * places * dim, NAN), grad(out.size()), back(rows.size(), NAN);
  for (float &x : rows) x = static_cast<float>(below(9)) - 4;  // few values: ties
  for (float &x : grad) x = static_cast<float>(below(2001)) / 1000 - 1;
  std::vector<double> want(out.size(), 0), want_back(rows.size(), 0);
  for (size_t r = 0; r < b.rows; ++r)
    for (size_t s = 0; s < b.select.size(); ++s) {
      const auto values = values_of(b, r, s);
      for (size_t d = 0; d < dim; ++d) {
        if (b.sequence_length) {
          for (size_t k = 0; k < values.size(); ++k) {
            const size_t to = (r * places + k) * dim + d, from = index.at(values[k]) * dim + d;
            want[to] = rows[from];
            want_back[from] += grad[to];
          }
          continue;
        }
        const size_t to = (r * places + s) * dim + d;
        size_t best = SIZE_MAX;
        for (uint64_t key : values) {
          const size_t from = index.at(key) * dim + d;
          if (best == SIZE_MAX || rows[from] > rows[best]) best = from;
          const double scale = b.pooling[s] == 1 ? 1.0 / static_cast<double>(values.size()) : 1.0;
          if (b.pooling[s] != 2) want[to] += scale * rows[from], want_back[from] += scale * grad[to];
        }
        if (b.pooling[s] == 2 && best != SIZE_MAX) want[to] = rows[best], want_back[best] += grad[to];
      }
    }
  plan.gather(rows.data(), dim, out.data(), 1);
  plan.scatter(grad.data(), rows.data(), dim, back.data(), 1);
  for (size_t i = 0; i < out.size(); ++i) CHECK(close(out[i], want[i]));
  for (size_t i = 0; i < back.size(); ++i) CHECK(close(back[i], want_back[i]));
  for (int threads : {2, 3}) {
    std::vector<float> out2(out.size(), NAN), back2(back.size(), NAN);
    plan.gather(rows.data(), dim, out2.data(), threads);
    plan.scatter(grad.data(), rows.data(), dim, back2.data(), threads);
    CHECK(out.empty() || !std::memcmp(out.data(), out2.data(), out.size() * sizeof(float)));
    CHECK(back.empty() || !std::memcmp(back.data(), back2.data(), back.size() * sizeof(float)));
  }
}

template <class T>
bool same(std::span<const T> a, std::span<const T> b) {
  return a.size() == b.size() && (a.empty() || !std::memcmp(a.data(), b.data(), a.size_bytes()));
}

void check_all(const Batch &b, size_t dim) {
  const Plan plan(b.input(1));
  std::map<uint64_t, size_t> index;
  check_keys(b, plan, index);
  check_values(b, plan, index, dim);
  for (int threads : {2, 5}) {
    const Plan other(b.input(threads));
    CHECK(same(plan.unique(), other.unique()) && same(plan.slots(), other.slots()));
    CHECK(same(plan.shows(), other.shows()) && same(plan.clicks(), other.clicks()));
    CHECK(same(plan.lengths(), other.lengths()));
    check_values(b, other, index, 2);
  }
}

void refuses_contradictions() {
  Batch good = make_batch(3, 4, true, 3, 50);
  good.sequence_length = 0;
  good.select = {1, 3};
  good.pooling = {0, 2};
  (void)Plan(good.input(1));
  auto refuses = [&](const char *part, auto spoil) {
    Batch bad = good;
    PlanInput input = bad.input(1);
    spoil(bad, input);
    CHECK_THROWS(Plan{input}, part);
  };
  refuses("must not decrease, but offsets[6]", [](Batch &b, PlanInput &) { b.offsets[6] = -1; });
  refuses("must not decrease", [](Batch &b, PlanInput &) { b.offsets[2] = INT64_MAX; });
  refuses("offsets must start with 0", [](Batch &b, PlanInput &) { b.offsets[0] = 1; });
  refuses("offsets must end with", [](Batch &b, PlanInput &) { b.offsets.back() += 1; });
  refuses("= 13 entries", [](Batch &, PlanInput &in) { in.offsets = in.offsets.first(12); });
  refuses("one key per row and column", [](Batch &, PlanInput &in) { in.offsets = {}, in.keys = in.keys.first(1); });
  refuses("select holds column 4", [](Batch &b, PlanInput &) { b.select[1] = 4; });
  refuses("select holds column -1", [](Batch &b, PlanInput &) { b.select[1] = -1; });
  refuses("column 1 twice", [](Batch &b, PlanInput &) { b.select[1] = 1; });
  refuses("names no column", [](Batch &, PlanInput &in) { in.select = {}, in.pooling = {}; });
  refuses("one entry per selected column", [](Batch &, PlanInput &in) { in.pooling = in.pooling.first(1); });
  refuses("0 (sum), 1 (mean) or 2 (max), got 3", [](Batch &b, PlanInput &) { b.pooling[0] = 3; });
  refuses("threads must be", [](Batch &, PlanInput &in) { in.threads = 0; });
  refuses("columns must be", [](Batch &, PlanInput &in) { in.columns = 0; });
  refuses("smaller batches", [](Batch &, PlanInput &in) { in.rows = SIZE_MAX / 2; });
  refuses("exactly one selected", [](Batch &, PlanInput &in) { in.sequence_length = 2; });
  refuses("not be negative", [](Batch &, PlanInput &in) { in.sequence_length = -2; });
  refuses("is more than", [](Batch &, PlanInput &in) {
    in.select = in.select.first(1), in.pooling = in.pooling.first(1), in.sequence_length = INT64_MAX;
  });
}

void one_plan_serves_several_threads() {
  Batch b = make_batch(500, 8, true, 4, 300);
  const Plan plan(b.input(2));
  std::vector<float> rows(plan.unique().size() * 4, 1.0f);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      std::vector<float> out(b.rows * plan.places() * 4), back(rows.size());
      plan.gather(rows.data(), 4, out.data(), 2);
      plan.scatter(out.data(), rows.data(), 4, back.data(), 2);
    });
  for (auto &thread : threads) thread.join();
}

}  // namespace

int main() {
  const size_t dims[] = {1, 2, 3, 4, 8, 10, 11, 16, 17, 32};
  for (int round = 0; round < 150; ++round)
    check_all(make_batch(below(12), 1 + below(5), below(2), below(6), 1 + below(60)), dims[round % 10]);
  for (bool ragged : {false, true}) {
    check_all(make_batch(0, 3, ragged, 2, 5), 4);
    check_all(make_batch(1, 1, ragged, 2, 5), 10);
    check_all(make_batch(700, 13, ragged, 3, 4000), 10);   // shared by threads
    check_all(make_batch(3000, 4, ragged, 2, 1), 1);       // three keys: one partition holds nearly all
    check_all(make_batch(2500, 6, ragged, 2, SIZE_MAX), 2);
  }
  Batch crowded = make_batch(4000, 2, false, 1, 1);  // thousands of distinct keys in one bucket: the index grows
  for (uint64_t key = 1, i = 0; i < crowded.keys.size(); ++key)
    if (bucket_of(key) == 77) crowded.keys[i++] = key;
  check_all(crowded, 1);
  refuses_contradictions();
  one_plan_serves_several_threads();
}
