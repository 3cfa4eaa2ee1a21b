// Making a plan: occurrences are spread, in batch order, over 256 partitions (the high bits of the bucket), each
// small enough for the L1 cache; a partition is then deduplicated with a small hash table and sorted by bucket.
// Rows are cut into chunks that work side by side; a chunk's share of each partition is counted beforehand, so
// that the result does not depend on the order in which threads ran.
#include "plan/plan.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/hash.h"
#include "base/pool.h"
#include "plan/check.h"
#include "plan/index.h"

namespace clickline::plan {
namespace {

constexpr size_t kPartitions = 256, kBucketsEach = base::kBuckets / kPartitions;
constexpr size_t kPartitionsPerTask = 8;
constexpr size_t kKeysWorthSharing = 4096;  // fewer occurrences are done before a helper is awake

struct Occurrence {
  uint64_t key;        // later: its number within the partition
  uint32_t position;   // in batch order, times two, plus one if clicked
  uint32_t target;
};

// Asks for the cache lines of a range that will be written in no particular order.
template <class T>
void claim(base::Recycled<T> &array, size_t first, size_t count) {
  for (size_t i = 0; i < count; i += 64 / sizeof(T)) __builtin_prefetch(&array[first + i], 1);
}

}  // namespace

class PlanBuilder {
 public:
  PlanBuilder(const PlanInput &in, Plan &plan) : in_(in), plan_(plan) {
    threads_ = std::max(in.keys.size(), in.offsets.size()) < kKeysWorthSharing ? 1 : in.threads;
    chunks_ = threads_ == 1 ? 1 : std::min<size_t>(in.rows, static_cast<size_t>(threads_) * 4);
    first_.assign(chunks_ + 1, 0);
  }

  void build() {
    if (plan_.ragged_) {
      count_kept();
      plan_.starts_ = base::Recycled<uint32_t>(in_.rows * plan_.width_ + 1);
      plan_.starts_[in_.rows * plan_.width_] = static_cast<uint32_t>(first_[chunks_]);
    } else {
      for (size_t c = 0; c <= chunks_; ++c) first_[c] = row(c) * plan_.width_;
    }
    plan_.occurrences_ = first_[chunks_];
    if (plan_.sequence_) plan_.lengths_ = base::Recycled<int32_t>(in_.rows);
    plan_.ragged_ ? partition<true>() : partition<false>();
    deduplicate_and_finish();
  }

 private:
  size_t row(size_t chunk) const { return in_.rows * chunk / chunks_; }

  // Ragged only: checks the offsets, and finds how many values each chunk of rows keeps.
  void count_kept() {
    std::vector<size_t> kept(chunks_, 0);
    base::parallel_for(chunks_, threads_, [&](size_t c) {
      check_offsets(in_.offsets, row(c) * in_.columns, row(c + 1) * in_.columns);
      for (size_t r = row(c); r < row(c + 1); ++r)
        for (int64_t column : in_.select) {
          const int64_t *cell = in_.offsets.data() + r * in_.columns + column, count = cell[1] - cell[0];
          kept[c] += static_cast<size_t>(in_.sequence_length ? std::min(count, in_.sequence_length) : count);
        }
    });
    for (size_t c = 0; c < chunks_; ++c) first_[c + 1] = first_[c] + kept[c];
  }

  // Calls visit(key, position, target, row) for every kept value of a chunk's rows, in batch order, after
  // cell(number, position) of its (row, slot) where ragged.
  template <bool Ragged, class Cell, class Visit>
  void each(size_t chunk, const Cell &cell, const Visit &visit) const {
    const uint64_t *keys = in_.keys.data();
    const int64_t *offsets = in_.offsets.data(), *select = in_.select.data();
    const size_t width = plan_.width_, sequence = plan_.sequence_;
    size_t position = first_[chunk];
    for (size_t r = row(chunk), end = row(chunk + 1); r < end; ++r)
      for (size_t s = 0; s < width; ++s) {
        const size_t source = r * in_.columns + select[s], number = r * width + s;
        if constexpr (Ragged) {
          const int64_t stop = offsets[source + 1];
          int64_t i = offsets[source];
          cell(number, position);
          if (sequence) {
            i = std::max(i, stop - static_cast<int64_t>(sequence));
            for (size_t target = r * sequence; i < stop; ++i) visit(keys[i], position++, target++, r);
          } else {
            for (; i < stop; ++i) visit(keys[i], position++, number, r);
          }
        } else {
          visit(keys[source], number, sequence ? r * sequence : number, r);
        }
      }
  }

  template <bool Ragged>
  void partition() {
    auto partition_of = [](uint64_t key) { return base::bucket_of(key) / kBucketsEach; };
    std::vector<uint32_t> next(chunks_ * kPartitions, 0);  // first counts, then places
    base::parallel_for(chunks_, threads_, [&](size_t c) {
      uint32_t *count = next.data() + c * kPartitions;
      auto start = [&](size_t number, size_t position) { plan_.starts_[number] = static_cast<uint32_t>(position); };
      each<Ragged>(c, start, [&](uint64_t key, size_t, size_t, size_t) { ++count[partition_of(key)]; });
    });
    uint32_t place = 0;
    for (size_t p = 0; p < kPartitions; ++p) {
      bounds_[p] = place;
      for (size_t c = 0; c < chunks_; ++c) place += std::exchange(next[c * kPartitions + p], place);
    }
    bounds_[kPartitions] = place;
    spread_ = base::Recycled<Occurrence>(place);
    base::parallel_for(chunks_, threads_, [&](size_t c) {
      uint32_t *at = next.data() + c * kPartitions;
      Occurrence *out = spread_.data();
      auto ignore = [](size_t, size_t) {};
      each<Ragged>(c, ignore, [&](uint64_t key, size_t position, size_t target, size_t r) {
        const bool clicked = in_.labels[static_cast<ptrdiff_t>(r) * in_.label_stride] > 0.5f;
        Occurrence *to = out + at[partition_of(key)]++;
        __builtin_prefetch(to + 4, 1);  // the partition's next cache line
        *to = {key, static_cast<uint32_t>(position * 2 + clicked), static_cast<uint32_t>(target)};
      });
      if (plan_.sequence_)
        for (size_t r = row(c); r < row(c + 1); ++r)
          plan_.lengths_[r] = Ragged ? static_cast<int32_t>(plan_.starts_[r + 1] - plan_.starts_[r]) : 1;
    });
  }

  // A task is a few partitions. Where its distinct keys go is known once all tasks before it are deduplicated;
  // the thread that completes such a row of tasks finishes them, while they are still in the cache. No thread waits.
  void deduplicate_and_finish() {
    constexpr size_t each = kPartitionsPerTask, tasks = kPartitions / each;
    const size_t most = plan_.occurrences_;
    candidates_ = base::Recycled<Candidate>(most + kPartitions);
    plan_.unique_ = base::Recycled<uint64_t>(most);
    plan_.slots_ = base::Recycled<uint16_t>(most);
    plan_.shows_ = base::Recycled<float>(most);
    plan_.clicks_ = base::Recycled<float>(most);
    plan_.runs_ = base::Recycled<uint32_t>(most + 1);
    plan_.targets_ = base::Recycled<uint32_t>(most);
    plan_.which_ = base::Recycled<uint32_t>(most);
    std::mutex mutex;
    bool done[tasks] = {};
    size_t next = 0;
    uint32_t base = 0;
    base::parallel_for(tasks, threads_, [&](size_t task) {
      for (size_t p = task * each; p < (task + 1) * each; ++p) deduplicate(p);
      size_t first, last;
      {
        std::lock_guard lock(mutex);
        done[task] = true;
        for (first = next; next < tasks && done[next]; ++next)
          for (size_t p = next * each; p < (next + 1) * each; ++p) {
            base_[p] = base;
            base += distinct_[p];
          }
        last = next;
      }
      for (size_t p = first * each; p < last * each; ++p) finish(p);
    });
    plan_.distinct_ = base;
    plan_.runs_[base] = static_cast<uint32_t>(most);
  }

  Candidate *candidates(size_t p) { return candidates_.data() + bounds_[p] + p; }  // one more each: the dummy

  void deduplicate(size_t p) {
    Occurrence *o = spread_.data() + bounds_[p], *end = spread_.data() + bounds_[p + 1];
    Candidate *found = candidates(p);
    CandidateIndex index(static_cast<size_t>(end - o));
    uint32_t *table = index.table(), n = 0;
    size_t size = index.size();
    found[0] = {};
    for (; o != end; ++o) {
      size_t at = CandidateIndex::home(o->key, size);
      uint32_t id = table[at];
      while ((found[id].key ^ o->key) & taken(id)) id = table[at = (at + 1) & (size - 1)];
      // Whether a key is new is a toss-up that no branch predictor wins. So both cases take the same path, and
      // the candidate that a new key would become is written in any case.
      found[n + 1] = {o->key, 0, 0, o->target, 0};
      n += id == 0;
      id |= n & ~static_cast<uint32_t>(taken(id));
      table[at] = id;
      ++found[id].count;
      found[id].clicks += o->position & 1;
      o->key = id;
      if (n * size_t{2} > size) {
        index.grow(found, n);
        table = index.table();
        size = index.size();
      }
    }
    distinct_[p] = n;
  }

  void finish(size_t p) {
    Candidate *found = candidates(p), *begin = found + 1, *end = begin + distinct_[p];
    claim(plan_.unique_, base_[p], distinct_[p]);
    claim(plan_.shows_, base_[p], distinct_[p]);
    claim(plan_.clicks_, base_[p], distinct_[p]);
    claim(plan_.slots_, base_[p], distinct_[p]);
    claim(plan_.runs_, base_[p], distinct_[p]);
    claim(plan_.targets_, bounds_[p], bounds_[p + 1] - bounds_[p]);
    // Two counters per bucket: distinct keys, for places in unique, and occurrences, for places in targets.
    uint32_t rank[kBucketsEach + 1] = {base_[p]}, place[kBucketsEach + 1] = {bounds_[p]};
    for (Candidate *k = begin; k != end; ++k) {
      const size_t bucket = base::bucket_of(k->key) % kBucketsEach;
      ++rank[bucket + 1];
      place[bucket + 1] += k->count;
    }
    for (size_t b = 0; b < kBucketsEach; ++b) rank[b + 1] += rank[b], place[b + 1] += place[b];
    for (Candidate *k = begin; k != end; ++k) {
      const size_t bucket = base::bucket_of(k->key) % kBucketsEach, u = rank[bucket]++;
      plan_.unique_[u] = k->key;
      plan_.shows_[u] = static_cast<float>(k->count);
      plan_.clicks_[u] = static_cast<float>(k->clicks);
      plan_.slots_[u] = static_cast<uint16_t>(in_.select[plan_.slot_of_.remainder(k->first)]);
      plan_.runs_[u] = place[bucket];
      k->rank = static_cast<uint32_t>(u);
      k->first = std::exchange(place[bucket], place[bucket] + k->count);  // from now on: next place in targets
    }
    uint32_t *which = plan_.which_.data(), *targets = plan_.targets_.data();
    const Occurrence *o = spread_.data() + bounds_[p], *last = spread_.data() + bounds_[p + 1];
    for (; o != last; ++o) {
      Candidate &k = found[o->key];
      which[o->position >> 1] = k.rank;
      targets[k.first++] = o->target;
    }
  }

  const PlanInput &in_;
  Plan &plan_;
  int threads_;
  size_t chunks_;
  std::vector<size_t> first_;  // position of each chunk's first kept value
  uint32_t bounds_[kPartitions + 1];
  uint32_t distinct_[kPartitions], base_[kPartitions];  // per partition: distinct keys; where they start in unique
  base::Recycled<Occurrence> spread_;
  base::Recycled<Candidate> candidates_;
};

Plan::Plan(const PlanInput &input)
    : rows_(input.rows), width_(input.select.size()), ragged_(!input.offsets.empty()) {
  check_input(input);
  sequence_ = static_cast<size_t>(input.sequence_length);
  slot_of_ = Divider(static_cast<uint32_t>(width_));
  for (int64_t kind : input.pooling) {
    pooling_.push_back(static_cast<Pooling>(kind));
    max_index_.push_back(max_slots_);
    max_slots_ += pooling_.back() == Pooling::max;
  }
  if (sequence_) max_slots_ = 0;  // nothing is pooled
  PlanBuilder(input, *this).build();
}

}  // namespace clickline::plan
