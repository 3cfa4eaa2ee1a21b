// A push that runs out of memory, at each of its allocations in turn, changes nothing.
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

#include "table/draws.h"
#include "table/table_testing.h"

using namespace clickline::base;
using namespace clickline::table;
using namespace clickline::testing;

namespace {

thread_local long allocations_left = -1;  // -1: as many as wanted

void *allocate(size_t size, size_t alignment) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  void *memory = nullptr;
  if (::posix_memalign(&memory, alignment, size ? size : 1)) throw std::bad_alloc();
  return memory;
}

}  // namespace

void *operator new(size_t size) { return allocate(size, alignof(std::max_align_t)); }
void *operator new[](size_t size) { return allocate(size, alignof(std::max_align_t)); }
void *operator new(size_t size, std::align_val_t alignment) { return allocate(size, static_cast<size_t>(alignment)); }
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete[](void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }
void operator delete[](void *memory, size_t) noexcept { std::free(memory); }
void operator delete(void *memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void *memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace {

// How often it failed before it succeeded.
template <class Work>
int tried_with_too_little_memory(const Table &table, Work work) {
  const auto before = contents(table);
  const auto step = table.step();
  const auto waiting = table.memory().waiting;
  for (int failures = 0;; ++failures) {
    bool failed = false;
    allocations_left = failures;
    try {
      work();
    } catch (const std::bad_alloc &) {
      failed = true;
    }
    allocations_left = -1;
    if (!failed) return failures;
    CHECK(contents(table) == before);
    CHECK(table.step() == step);
    CHECK(table.memory().waiting == waiting);
  }
}

std::vector<uint64_t> some_keys(uint64_t from, uint64_t to) {
  std::vector<uint64_t> keys;
  for (uint64_t i = from; i < to; ++i) keys.push_back(mix64(i));
  return keys;
}

void a_push_is_whole(const std::string &optimizer, bool waits) {
  TableConfig settings = config(optimizer, 5);
  settings.optimizer.clip = 1.0;  // needs a buffer
  if (waits) settings.policies = {Policy{.count = 3}, Policy{}};
  Table table(settings), same(settings);
  int failures = 0;
  for (uint64_t round = 0; round < 4; ++round) {  // rows that are there and rows that are not, more of them each time
    const Arrays push(some_keys(round * 40, 60 + round * 400), 5, 0.5f, 0);
    const Arrays other(some_keys(round * 1000, 60 + round * 1100), 5, 0.25f, waits ? 1 : 0);
    for (const Arrays *each : {&push, &other}) {
      const uint32_t tick = static_cast<uint32_t>(round + 1);
      failures += tried_with_too_little_memory(table, [&] { table.push(each->at(tick), 1); });
      same.push(each->at(tick), 1);
    }
    CHECK(contents(table) == contents(same));
    CHECK(table.memory().waiting == same.memory().waiting);
  }
  CHECK(failures > 100);
}

void differences_are_whole() {
  TableConfig settings = config("adagrad", 4);
  Table table(settings);
  table.push(Arrays(some_keys(0, 50), 4).at(1), 1);
  const Arrays difference(some_keys(20, 300), 8, 0.5f);
  CHECK(tried_with_too_little_memory(table, [&] { table.add_whole(difference.at(2)); }) > 10);
  CHECK(table.size() == 300);
}

// Room that one push has reserved is not used up by another, nor given away by an eviction.
void others_leave_the_room_alone() {
  TableConfig settings = config("sgd", 4);
  settings.policies = {Policy{.count = 2, .unseen_for = 2}};
  Table table(settings);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (uint64_t round = 0; round < 30; ++round) {
        const Arrays push(some_keys(t * 100 + round * 37, t * 100 + round * 37 + 300), 4);
        table.push(push.at(static_cast<uint32_t>(round)), 1);
        if (round % 5 == t) table.evict(static_cast<uint32_t>(round), 0.9, 1);
      }
    });
  for (std::thread &thread : threads) thread.join();
  CHECK(table.step() == 120);
  tried_with_too_little_memory(table, [&] { table.push(Arrays(some_keys(0, 3000), 4).at(40), 1); });
}

}  // namespace

int main() {
  a_push_is_whole("sgd", false);
  a_push_is_whole("adam", true);
  differences_are_whole();
  others_leave_the_room_alone();
}
