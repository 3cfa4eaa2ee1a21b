// A cache of rows: gives back what was put in, never more than its memory, and keeps what is asked for often.
#include <vector>

#include "cube/row_cache.h"
#include "check.h"

using namespace clickline::cube;

namespace {

void rows_come_back_as_they_were() {
  RowCache cache(1 << 16, 3);
  const uint64_t keys[] = {7, 0, UINT64_MAX, 7};
  const float rows[] = {1, 2, 3, 4, 5, 6, 0, 0, 0, 1, 2, 3};
  const uint8_t missing[] = {0, 0, 1, 0};
  float seen[12] = {};
  uint8_t lacking[4] = {9, 9, 9, 9};
  CHECK_EQ(cache.lookup(keys, 4, seen, lacking).size(), size_t{4});
  cache.insert(keys, 4, rows, missing);
  CHECK_EQ(cache.size(), size_t{3});
  CHECK(cache.lookup(keys, 4, seen, lacking).empty());
  for (size_t i = 0; i < 12; ++i) CHECK_EQ(seen[i], rows[i]);
  for (size_t i = 0; i < 4; ++i) CHECK_EQ(lacking[i], missing[i]);
  const uint64_t others[] = {8, 7};
  const auto unknown = cache.lookup(others, 2, seen, lacking);
  CHECK_EQ(unknown.size(), size_t{1});
  CHECK_EQ(unknown[0], int64_t{0});
}

void memory_is_bounded_and_hot_rows_stay() {
  RowCache cache(20'000, 4);
  const size_t capacity = cache.capacity();
  CHECK(capacity * (4 * sizeof(float) + 16) <= 20'000);
  const uint8_t there = 0;
  float row[4], seen[4];
  uint8_t missing;
  size_t hits = 0, asked = 0;
  for (uint64_t key = 1; key < 20 * capacity; ++key) {
    for (const uint64_t one : {key, key % 16 + 1'000'000'000'000}) {   // a new key, and one of 16 that come again
      asked += one > 1'000'000;
      if (cache.lookup(&one, 1, seen, &missing).empty()) {
        hits += one > 1'000'000;
        for (float v : seen) CHECK_EQ(v, static_cast<float>(one % 1000));
        continue;
      }
      for (float &v : row) v = static_cast<float>(one % 1000);
      cache.insert(&one, 1, row, &there);
    }
    CHECK(cache.size() <= capacity);
  }
  CHECK(hits > asked * 9 / 10);
}

void too_little_memory_is_refused() {
  for (const auto &[bytes, dim] : {std::pair<size_t, size_t>{10, 4}, {1 << 20, 0}, {1 << 20, 5000}}) {
    try {
      RowCache cache(bytes, dim);
    } catch (const std::invalid_argument &) {
      continue;
    }
    clickline::test::fail(__FILE__, __LINE__, "not refused");
  }
}

}  // namespace

int main() {
  rows_come_back_as_they_were();
  memory_is_bounded_and_hot_rows_stay();
  too_little_memory_is_refused();
}
