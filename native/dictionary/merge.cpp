// Dictionaries from dictionaries. All are in the same order, so that everything is one walk side by side.
#include <algorithm>

#include "dictionary/writer.h"

namespace clickline::dictionary {

namespace {

// Keys of some buckets of some layers, each once, in order; what the newest layer says of it.
class Walk {
 public:
  Walk(const DictionaryList &layers, uint32_t first, uint32_t last) {
    for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer)
      for (const bool deletes : {false, true}) {
        const auto keys = deletes ? (*layer)->deleted_keys() : (*layer)->keys();
        const auto [begin, end] = Dictionary::range(keys, first, last);
        if (begin < end) streams_.push_back({layer->get(), keys.data(), begin, end, spread_of(keys[begin]), deletes});
      }
    settle();
  }

  bool done() const { return !current_; }
  uint64_t spread() const { return current_->spread; }
  bool deleted() const { return current_->deletes; }
  std::string_view value() const { return current_->dictionary->value(current_->at); }

  void next() {
    const uint64_t passed = current_->spread;
    for (Stream &stream : streams_)
      if (stream.spread == passed && stream.at < stream.end && ++stream.at < stream.end)
        stream.spread = spread_of(stream.keys[stream.at]);
    settle();
  }

 private:
  struct Stream {
    const Dictionary *dictionary;
    const uint64_t *keys;
    uint64_t at, end, spread;
    bool deletes;
  };

  // The smallest spread, of the newest layer that has it: the first, as they are in that order.
  void settle() {
    current_ = nullptr;
    for (const Stream &stream : streams_)
      if (stream.at < stream.end && (!current_ || stream.spread < current_->spread)) current_ = &stream;
  }

  std::vector<Stream> streams_;
  const Stream *current_ = nullptr;
};

// Their common shape; every bucket of the range must be of one of them at least, or rows would go without notice.
DictionaryHeader shape_of(const DictionaryList &layers, uint32_t first, uint32_t last) {
  const Layers checked{layers};
  DictionaryHeader shape = layers.front()->header();
  shape.first_bucket = first, shape.last_bucket = last;
  shape.check_shape();
  std::vector<bool> covered(base::kBuckets);
  for (const auto &layer : layers) {
    layer->verify_offsets();
    std::fill(covered.begin() + layer->header().first_bucket, covered.begin() + layer->header().last_bucket, true);
  }
  const auto gap = std::find(covered.begin() + first, covered.begin() + last, false);
  if (gap != covered.begin() + last)
    throw DictionaryError("bucket " + std::to_string(gap - covered.begin()) + " is in none of the dictionaries, " +
                          layers.front()->path() + " and after; expected all of " + std::to_string(first) +
                          " to below " + std::to_string(last));
  return shape;
}

std::pair<uint32_t, uint32_t> buckets_of(const DictionaryList &layers) {
  uint32_t first = base::kBuckets, last = 0;
  for (const auto &layer : layers) {
    first = std::min(first, layer->header().first_bucket);
    last = std::max(last, layer->header().last_bucket);
  }
  return {first, last};
}

}  // namespace

DictionarySummary merge_dictionaries(const std::string &path, const DictionaryList &layers, uint32_t first,
                                     uint32_t last, bool keep_deleted, int threads) {
  const DictionaryHeader shape = shape_of(layers, first, last);
  auto source = [&](uint32_t from, uint32_t to, bool, DictionarySlice &slice) {
    for (Walk walk(layers, from, to); !walk.done(); walk.next()) {
      if (!walk.deleted())
        slice.rows.push_back({walk.spread(), walk.value()});
      else if (keep_deleted)
        slice.deleted.push_back(walk.spread());
    }
  };
  return write_dictionary(path, shape, source, threads);
}

DictionarySummary difference_dictionary(const std::string &path, const DictionaryList &parent,
                                        const DictionaryList &made, int threads) {
  const auto [first, last] = buckets_of(made);
  const DictionaryHeader shape = shape_of(made, first, last);
  shape_of(parent, first, last);
  if (buckets_of(parent) != std::pair(first, last))
    throw DictionaryError("the parent, " + parent.front()->path() + ", is of other buckets than " +
                          made.front()->path());
  const Layers same_shape({parent.front(), made.front()});
  auto source = [&](uint32_t from, uint32_t to, bool, DictionarySlice &slice) {
    Walk before(parent, from, to), after(made, from, to);
    while (!before.done() || !after.done()) {
      const bool has_before = !before.done() && (after.done() || before.spread() <= after.spread());
      const bool has_after = !after.done() && (before.done() || after.spread() <= before.spread());
      const bool was = has_before && !before.deleted(), is = has_after && !after.deleted();
      if (is && !(was && before.value() == after.value()))
        slice.rows.push_back({after.spread(), after.value()});
      else if (was && !is)
        slice.deleted.push_back(before.spread());
      if (has_before) before.next();
      if (has_after) after.next();
    }
  };
  return write_dictionary(path, shape, source, threads);
}

}  // namespace clickline::dictionary
