// Looking keys up. One key costs three cache misses that depend on each other: directory, keys, value. So keys go in
// groups through stages, each of which asks for what the next one reads, and the misses of a group overlap.
#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/pool.h"
#include "dictionary/dictionary.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace clickline::dictionary {

namespace {

constexpr size_t kGroup = 32;        // measured: 16 to 64 are the same, more are slower
constexpr size_t kPerThread = 2048;  // keys that are worth waking a thread for
constexpr uint64_t kAtOnce = 8;      // keys that are compared without a branch
constexpr uint64_t kNoIndex = ~uint64_t{0}, kGone = kNoIndex - 1;

// Of `count` keys: as few groups as can be, all of about one size, as a small one would wait for each of its misses.
size_t group_size(size_t count) {
  const size_t groups = (count + kGroup - 1) / kGroup;
  return groups > 1 ? (count + groups - 1) / groups : kGroup;
}

struct Sorted {
  DictionaryIndex index;
  const uint64_t *keys;
  uint64_t count, last;  // last: the largest spread, less index.base, of the dictionary's buckets

  // Whatever the directory says, the range is within the keys.
  std::pair<uint64_t, uint64_t> block(uint64_t number) const {
    const uint64_t begin = std::min<uint64_t>(index.directory[number], count);
    return {begin, std::clamp<uint64_t>(index.directory[number + 1], begin, count)};
  }
};

// Bit i: whether keys[i] of the next kAtOnce is the key.
inline uint32_t matches(const uint64_t *keys, uint64_t key) {
#if defined(__AVX2__)
  const __m256i wanted = _mm256_set1_epi64x(static_cast<long long>(key));
  const auto *four = reinterpret_cast<const __m256i *>(keys);
  const __m256i low = _mm256_cmpeq_epi64(_mm256_loadu_si256(four), wanted);
  const __m256i high = _mm256_cmpeq_epi64(_mm256_loadu_si256(four + 1), wanted);
  return static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(low)) |
                               _mm256_movemask_pd(_mm256_castsi256_pd(high)) << 4);
#else
  uint32_t match = 0;
  for (uint32_t i = 0; i < kAtOnce; ++i) match |= uint32_t{keys[i] == key} << i;
  return match;
#endif
}

// Index of the key, or kNoIndex. A key that is met outside its block is the key all the same, so the first keys are
// compared without looking where the block ends.
inline uint64_t search(const Sorted &in, uint64_t key, uint64_t begin, uint64_t end) {
  if (in.count >= kAtOnce) {
    const uint64_t from = std::min(begin, in.count - kAtOnce);
    if (const uint32_t match = matches(in.keys + from, key)) return from + static_cast<uint64_t>(__builtin_ctz(match));
    begin = from + kAtOnce;
  }
  if (end > begin && end - begin > 16) {  // keys that were chosen to meet in one block
    const uint64_t spread = spread_of(key);
    const uint64_t *at = std::lower_bound(in.keys + begin, in.keys + end, spread,
                                          [](uint64_t other, uint64_t wanted) { return spread_of(other) < wanted; });
    return at != in.keys + end && *at == key ? static_cast<uint64_t>(at - in.keys) : kNoIndex;
  }
  for (; begin < end; ++begin)
    if (in.keys[begin] == key) return begin;
  return kNoIndex;
}

// found[i]: index of keys[i] or kNoIndex; count <= kGroup. `next` is told each index, to ask for what comes after.
template <class Next>
inline void find_group(const Sorted &in, const uint64_t *keys, size_t count, uint64_t *found, Next next) {
  uint64_t blocks[kGroup], begins[kGroup], ends[kGroup];
  for (size_t i = 0; i < count; ++i) {
    const uint64_t spread = spread_of(keys[i]);
    blocks[i] = spread - in.index.base <= in.last ? in.index.block(spread) : kNoIndex;
    if (blocks[i] != kNoIndex) __builtin_prefetch(&in.index.directory[blocks[i]]);
  }
  for (size_t i = 0; i < count; ++i) {
    begins[i] = ends[i] = 0;
    if (blocks[i] == kNoIndex) continue;
    std::tie(begins[i], ends[i]) = in.block(blocks[i]);
    __builtin_prefetch(in.keys + begins[i]);
    __builtin_prefetch(reinterpret_cast<const char *>(in.keys + begins[i]) + 8 * kAtOnce - 1);
  }
  for (size_t i = 0; i < count; ++i) {
    found[i] = blocks[i] == kNoIndex ? kNoIndex : search(in, keys[i], begins[i], ends[i]);
    if (found[i] != kNoIndex) next(found[i]);
  }
}

inline void ask_for(const char *bytes, size_t size) {
  for (size_t at = 0; at < std::min<size_t>(size, 512); at += 64) __builtin_prefetch(bytes + at);
  if (size) __builtin_prefetch(bytes + std::min<size_t>(size, 512) - 1);
}

// A row's copy is most of what is left to do per key; of the usual sizes it needs no call.
template <size_t kBytes>
inline void copy_fixed(char *to, const char *from) {
  std::memcpy(to, from, kBytes);
}
inline void copy_row(char *to, const char *from, size_t bytes) {
  switch (bytes) {
    case 16: return copy_fixed<16>(to, from);
    case 24: return copy_fixed<24>(to, from);
    case 32: return copy_fixed<32>(to, from);
    case 64: return copy_fixed<64>(to, from);
    case 128: return copy_fixed<128>(to, from);
    default: std::memcpy(to, from, bytes);
  }
}

// body(begin, end) over [0, count), on several threads if that pays.
template <class Body>
void share(size_t count, int threads, Body body) {
  const size_t pieces = std::min<size_t>(threads > 1 ? static_cast<size_t>(threads) : 1, count / kPerThread);
  if (pieces <= 1) return body(size_t{0}, count);
  base::parallel_for(pieces, threads, [&](size_t i) { body(count * i / pieces, count * (i + 1) / pieces); });
}

void need_rows(uint32_t row_bytes, size_t stride) {
  if (!row_bytes) throw std::invalid_argument("values of any size have no rows; look them up as values");
  if (stride < row_bytes)
    throw std::invalid_argument("rows of " + std::to_string(row_bytes) + " bytes do not fit a stride of " +
                                std::to_string(stride));
}

}  // namespace

// use(i, dictionary, index or kNoIndex or kGone) for each key, the value being asked for already.
template <class Use>
void Dictionary::visit(const uint64_t *keys, size_t count, Use use) const {
  const uint64_t last = (uint64_t{header_.last_bucket - header_.first_bucket} << 52) - 1;  // 4096 << 52 is 0
  const Sorted rows{index_, keys_, header_.count, last};
  const Sorted gone{deleted_index_, deleted_keys_, header_.deleted, last};
  uint64_t found[kGroup];
  const size_t group = group_size(count);
  for (size_t begin = 0; begin < count; begin += group) {
    const size_t size = std::min(group, count - begin);
    find_group(rows, keys + begin, size, found, [&](uint64_t index) {
      if (offsets_)
        __builtin_prefetch(offsets_ + index);
      else
        ask_for(values_ + index * header_.row_bytes, header_.row_bytes);
    });
    if (header_.deleted) {
      uint64_t rest[kGroup], places[kGroup], deleted[kGroup];
      size_t left = 0;
      for (size_t i = 0; i < size; ++i)
        if (found[i] == kNoIndex) rest[left] = keys[begin + i], places[left++] = i;
      find_group(gone, rest, left, deleted, [](uint64_t) {});
      for (size_t i = 0; i < left; ++i)
        if (deleted[i] != kNoIndex) found[places[i]] = kGone;
    }
    for (size_t i = 0; i < size; ++i) use(begin + i, found[i]);
  }
}

void Dictionary::lookup(std::span<const uint64_t> keys, uint8_t *status, char *rows, size_t stride,
                        int threads) const {
  const size_t bytes = header_.row_bytes;
  need_rows(header_.row_bytes, stride);
  share(keys.size(), threads, [&](size_t begin, size_t end) {
    visit(keys.data() + begin, end - begin, [&](size_t i, uint64_t index) {
      char *row = rows + (begin + i) * stride;
      status[begin + i] = index < kGone ? kFound : index == kGone ? kDeleted : kMissing;
      if (index < kGone)
        copy_row(row, values_ + index * bytes, bytes);
      else
        std::memset(row, 0, bytes);
    });
  });
}

void Dictionary::find(std::span<const uint64_t> keys, uint8_t *status, std::string_view *values) const {
  visit(keys.data(), keys.size(), [&](size_t i, uint64_t index) {
    status[i] = index < kGone ? kFound : index == kGone ? kDeleted : kMissing;
    values[i] = index < kGone ? value(index) : std::string_view();
  });
}

// use(i, dictionary or nullptr, index) for each key: the newest layer that knows the key decides.
template <class Use>
void Layers::visit(const uint64_t *keys, size_t count, Use use) const {
  if (layers_.size() == 1) {
    const Dictionary *only = layers_.front().get();
    return only->visit(keys, count, [&](size_t i, uint64_t index) { use(i, index < kGone ? only : nullptr, index); });
  }
  uint64_t rest[kGroup];
  uint32_t places[kGroup];
  const size_t group = group_size(count);
  for (size_t begin = 0; begin < count; begin += group) {
    size_t left = std::min(group, count - begin);
    for (size_t i = 0; i < left; ++i) rest[i] = keys[begin + i], places[i] = static_cast<uint32_t>(i);
    for (size_t layer = layers_.size(); layer-- && left;) {
      const Dictionary *dictionary = layers_[layer].get();
      size_t still = 0;
      dictionary->visit(rest, left, [&](size_t i, uint64_t index) {
        if (index == kNoIndex && layer) {
          rest[still] = rest[i], places[still++] = places[i];  // never ahead of what is read
        } else {
          use(begin + places[i], index < kGone ? dictionary : nullptr, index);
        }
      });
      left = still;
    }
  }
}

void Layers::lookup(std::span<const uint64_t> keys, uint8_t *status, char *rows, size_t stride, int threads) const {
  const size_t bytes = row_bytes();
  need_rows(row_bytes(), stride);
  share(keys.size(), threads, [&](size_t begin, size_t end) {
    visit(keys.data() + begin, end - begin, [&](size_t i, const Dictionary *dictionary, uint64_t index) {
      char *row = rows + (begin + i) * stride;
      status[begin + i] = dictionary ? kFound : kMissing;
      if (dictionary)
        copy_row(row, dictionary->values_ + index * bytes, bytes);
      else
        std::memset(row, 0, bytes);
    });
  });
}

void Layers::find(std::span<const uint64_t> keys, uint8_t *status, std::string_view *values) const {
  visit(keys.data(), keys.size(), [&](size_t i, const Dictionary *dictionary, uint64_t index) {
    status[i] = dictionary ? kFound : kMissing;
    values[i] = dictionary ? dictionary->value(index) : std::string_view();
  });
}

uint64_t place_values(std::span<const std::string_view> values, uint64_t *offsets) {
  uint64_t at = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    offsets[i] = at;
    at += values[i].size();
  }
  return offsets[values.size()] = at;
}

void copy_values(std::span<const std::string_view> values, char *out) {
  constexpr size_t kAhead = 16;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i + kAhead < values.size()) ask_for(values[i + kAhead].data(), values[i + kAhead].size());
    if (!values[i].empty()) std::memcpy(out, values[i].data(), values[i].size());
    out += values[i].size();
  }
}

}  // namespace clickline::dictionary
