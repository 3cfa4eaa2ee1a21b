// The table against a plain model of it, and under many threads at once. Built with sanitizers as well, where
// the second half is what the thread sanitizer is for.
#include <atomic>
#include <random>
#include <thread>
#include <unordered_map>

#include "table/draws.h"
#include "table/table_testing.h"

using namespace clickline::base;
using namespace clickline::table;
using namespace clickline::testing;

namespace {

struct ModelRow {
  float weight, show;
  uint32_t last_seen;
};

// Whole numbers and a rate of 1, so that sums are exact and the model needs no tolerance.
void behaves_like_a_map(uint64_t seed) {
  TableConfig settings = config("sgd", 3, 0.0);
  settings.optimizer.learning_rate = 1;
  settings.policies = {Policy{}, Policy{.count = 3, .unseen_for = 20}, Policy{.unseen_for = 5}};
  Table table(settings);
  std::unordered_map<uint64_t, ModelRow> rows;
  std::unordered_map<uint64_t, std::pair<int, uint32_t>> waiting;
  std::mt19937_64 random(seed);
  auto some_key = [&] { return random() % 2 ? random() % 400 : ~(random() % 50); };
  for (uint32_t tick = 1; tick < 400; ++tick) {
    std::vector<uint64_t> keys(random() % 60);
    for (uint64_t &key : keys) key = some_key();  // repeats are part of the test
    Arrays push(keys, 3);
    for (size_t i = 0; i < keys.size(); ++i) {
      push.slots[i] = static_cast<uint16_t>(keys[i] % 3);
      const float gradient = static_cast<float>(random() % 8);
      for (size_t d = 0; d < 3; ++d) push.gradients[3 * i + d] = gradient;
      auto row = rows.find(keys[i]);
      if (row == rows.end()) {
        float before = 0;
        if (push.slots[i] == 1) {
          auto &[sightings, last] = waiting[keys[i]];
          last = tick;
          if (++sightings < 3) continue;
          before = static_cast<float>(sightings - 1);
          waiting.erase(keys[i]);
        }
        row = rows.emplace(keys[i], ModelRow{0, before, tick}).first;
      }
      row->second.weight -= gradient;
      row->second.show += 1;
      row->second.last_seen = tick;
    }
    table.push(push.at(tick), static_cast<int>(1 + random() % 2));
    if (random() % 10 == 0) {
      const size_t before = rows.size();
      const uint32_t spared[3] = {1u << 30, 20, 5};
      std::erase_if(rows, [&](auto &item) { return tick - item.second.last_seen > spared[item.first % 3]; });
      std::erase_if(waiting, [&](auto &item) { return tick - item.second.second > 20; });
      CHECK(table.evict(tick, 1.0, 1) == before - rows.size());
    }
    CHECK(table.size() == rows.size());
    CHECK(table.memory().waiting == waiting.size());
    std::vector<uint64_t> asked(40);
    for (uint64_t &key : asked) key = some_key();
    std::vector<float> pulled(asked.size() * 3, -1);
    table.pull(asked, pulled.data(), true, nullptr, 1);
    for (size_t i = 0; i < asked.size(); ++i) {
      const auto row = rows.find(asked[i]);
      for (size_t d = 0; d < 3; ++d) CHECK(pulled[3 * i + d] == (row == rows.end() ? 0 : row->second.weight));
    }
  }
  for (const auto &[key, show, click, last_seen, slot, floats] : contents(table)) {
    CHECK(rows.contains(key));
    CHECK(rows[key].show == show && rows[key].last_seen == last_seen && slot == key % 3 && click == 0);
    rows.erase(key);
  }
  CHECK(rows.empty());
}

void waiting_keys_behave_like_a_map() {
  PendingKeys waiting;
  std::unordered_map<uint64_t, uint32_t> model;
  std::mt19937_64 random(3);
  for (int i = 0; i < 50000; ++i) {
    const uint64_t key = random() % 700;
    if (random() % 3) {
      model[key] = std::min(65535u, model[key] + 1 + static_cast<uint32_t>(key) * 40);
      CHECK(waiting.see(key, 1 + static_cast<uint32_t>(key) * 40, 1, 0) == model[key]);
    } else {
      waiting.erase(key);
      model.erase(key);
    }
    CHECK(waiting.size() == model.size());
    const uint64_t other = random() % 700;
    CHECK(waiting.contains(other) == model.contains(other));
  }
}

void threads_change_nothing(const char *optimizer, uint32_t dim) {
  Table alone(config(optimizer, dim)), together(config(optimizer, dim));
  for (uint32_t tick = 0; tick < 6; ++tick) {
    std::vector<uint64_t> keys;
    for (uint64_t i = 0; i < 5000; ++i) keys.push_back(mix64(i + tick * 1700));
    const Arrays push(keys, dim, 0.25f);
    alone.push(push.at(tick), 1);
    together.push(push.at(tick), 4);
    std::vector<float> a(keys.size() * dim), b(a.size());
    alone.pull(keys, a.data(), true, nullptr, 1);
    together.pull(keys, b.data(), true, nullptr, 3);
    CHECK(a == b);
  }
  CHECK(contents(alone) == contents(together));
}

// Every push adds one show per key, so that the sum tells whether any was lost.
void many_threads_lose_nothing() {
  Table table(config("adam", 5));
  constexpr uint32_t kThreads = 4, kRounds = 40, kKeys = 300;
  std::atomic<bool> done{false};
  std::vector<std::jthread> pool;
  for (uint32_t t = 0; t < kThreads; ++t)
    pool.emplace_back([&, t] {
      std::mt19937_64 random(t);
      std::vector<float> pulled(kKeys * 5);
      for (uint32_t round = 0; round < kRounds; ++round) {
        std::vector<uint64_t> keys(kKeys);
        for (uint64_t &key : keys) key = random() % 2000;
        table.pull(keys, pulled.data(), true, nullptr, 1);
        for (float value : pulled) CHECK(std::isfinite(value));
        table.push(Arrays(keys, 5, 0.1f).at(round), 1 + static_cast<int>(t % 2));
      }
    });
  std::jthread sweeper([&] {
    for (int i = 0; i < 40 && !done; ++i) {
      table.evict(1, 1.0, 2);
      CHECK(table.keys().size() <= table.size());
      table.memory();
    }
  });
  for (std::jthread &thread : pool) thread.join();
  done = true;
  sweeper.join();
  double shows = 0;
  for (const Row &row : contents(table)) shows += std::get<1>(row);
  CHECK(shows == kThreads * kRounds * kKeys);
  CHECK(table.step() == kThreads * kRounds);
}

void many_threads_evict_and_save() {
  TableConfig settings = config("adagrad", 4);
  settings.policies = {Policy{.count = 2, .unseen_for = 3}};
  Table table(settings);
  const std::string path = "test_table_stress.tmp";
  std::vector<std::jthread> pool;
  for (uint32_t t = 0; t < 3; ++t)
    pool.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (uint32_t tick = 0; tick < 60; ++tick) {
        std::vector<uint64_t> keys(200);
        for (uint64_t &key : keys) key = random() % 1000;
        table.push(Arrays(keys, 4, 0.1f).at(tick), 1);
        if (tick % 7 == t) table.evict(tick, 0.9, 1);
        if (tick % 20 == t) {
          static std::mutex one_file;
          std::lock_guard lock(one_file);
          table.save(path);
          Table copy(settings);
          copy.load(path, 0, kBuckets);
        }
      }
    });
  pool.clear();
  std::remove(path.c_str());
}

void refuses_what_is_not_finite() {
  for (float bad : {HUGE_VALF, -HUGE_VALF, std::nanf("")}) {
    Table table(config("adam", 4));
    table.push(Arrays({1, 2, 3}, 4).at(1), 1);
    const auto before = contents(table);
    Arrays push({7, 8, 1, 2}, 4);
    push.gradients[2 * 4 + 3] = bad;
    bool threw = false;
    try {
      table.push(push.at(2), 2);
    } catch (const NotFinite &error) {
      threw = std::string(error.what()).find("key 1 ") != std::string::npos;
    }
    CHECK(threw);
    CHECK(contents(table) == before && table.step() == 1);
  }
}

void grows_and_stays_small() {
  Table table(config("adagrad", 16));
  for (uint64_t i = 0; i < 300000; i += 3000) {
    std::vector<uint64_t> keys(3000);
    for (uint64_t k = 0; k < keys.size(); ++k) keys[k] = i % 2 ? mix64(i + k) : ~(i + k);  // raw ids and hashes
    table.push(Arrays(keys, 16).at(1), 1);
  }
  const TableMemory memory = table.memory();
  CHECK(memory.rows == 300000);
  CHECK(memory.total_bytes < memory.rows * memory.payload_bytes_per_row * 5 / 4);
}

}  // namespace

int main() {
  for (uint64_t seed = 0; seed < 4; ++seed) behaves_like_a_map(seed);
  waiting_keys_behave_like_a_map();
  for (const char *optimizer : {"sgd", "adagrad", "adam", "adamw", "ftrl"})
    for (uint32_t dim : {1u, 10u, 16u, 33u}) threads_change_nothing(optimizer, dim);
  many_threads_lose_nothing();
  many_threads_evict_and_save();
  refuses_what_is_not_finite();
  grows_and_stays_small();
  std::puts("table: map model, waiting keys, thread counts, stress, non-finite gradients, growth: good");
}
