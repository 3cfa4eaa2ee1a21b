// Opening dictionaries and checking every byte of them. Lookups are in dictionary/lookup.cpp.
#include "dictionary/dictionary.h"

#include <algorithm>

#include "base/hash_stream.h"

namespace clickline::dictionary {

namespace {

DictionaryError wrong(DictionarySection section, const std::string &what) {
  return DictionaryError(std::string(kSectionNames[section]) + ": " + what);
}

// Ascending by spread, of the buckets, and the directory is the one that belongs to them.
void check_keys(std::span<const uint64_t> keys, const DictionaryHeader &h, const DictionaryIndex &index,
                uint64_t blocks, DictionarySection directory_section) {
  const auto section = directory_section == kDirectory ? kDictKeys : kDeletedKeys;
  auto check_entry = [&](uint64_t block, uint64_t expected) {
    if (index.directory[block] != expected)
      throw wrong(directory_section, "block " + text(block) + " begins at " + text(index.directory[block]) +
                                         ", expected " + text(expected));
  };
  uint64_t next = 0, before = 0;
  for (uint64_t i = 0; i < keys.size(); ++i) {
    const uint64_t spread = spread_of(keys[i]), bucket = spread >> 52;
    if (bucket < h.first_bucket || bucket >= h.last_bucket)
      throw wrong(section, "key " + text(keys[i]) + " is of bucket " + text(bucket) + ", expected " +
                               text(h.first_bucket) + " to below " + text(h.last_bucket));
    if (i && spread <= before) throw wrong(section, "key " + text(keys[i]) + " is out of order");
    before = spread;
    for (const uint64_t block = index.block(spread); next <= block; ++next) check_entry(next, i);
  }
  for (; next <= blocks; ++next) check_entry(next, keys.size());
}

}  // namespace

Dictionary::Dictionary(const DictionaryLocation &place)
    : path_(place.path),
      memory_(place.path, place.offset, place.length, place.memory),
      header_(DictionaryHeader::decode(memory_.data(), memory_.size())),
      index_(header_.first_bucket, header_.last_bucket, header_.blocks),
      deleted_index_(header_.first_bucket, header_.last_bucket, header_.deleted_blocks) {
  auto section = [&](DictionarySection which) { return memory_.data() + header_.begin(which); };
  index_.directory = reinterpret_cast<const uint32_t *>(section(kDirectory));
  keys_ = reinterpret_cast<const uint64_t *>(section(kDictKeys));
  deleted_index_.directory = reinterpret_cast<const uint32_t *>(section(kDeletedDirectory));
  deleted_keys_ = reinterpret_cast<const uint64_t *>(section(kDeletedKeys));
  if (!header_.row_bytes) offsets_ = reinterpret_cast<const uint64_t *>(section(kOffsets));
  values_ = section(kValues);
}

std::shared_ptr<Dictionary> Dictionary::open(const DictionaryLocation &place) {
  try {
    return std::shared_ptr<Dictionary>(new Dictionary(place));
  } catch (const DictionaryError &error) {
    throw DictionaryError("dictionary " + place.path + ": " + error.what());
  }
}

std::string_view Dictionary::value(uint64_t index) const {
  if (!offsets_) return {values_ + index * header_.row_bytes, header_.row_bytes};
  const uint64_t begin = std::min(offsets_[index], header_.values_bytes);
  return {values_ + begin, std::clamp(offsets_[index + 1], begin, header_.values_bytes) - begin};
}

std::pair<uint64_t, uint64_t> Dictionary::range(std::span<const uint64_t> keys, uint32_t first, uint32_t last) {
  auto place = [&](uint32_t bucket) {
    return static_cast<uint64_t>(
        std::partition_point(keys.begin(), keys.end(), [&](uint64_t key) { return base::bucket_of(key) < bucket; }) -
        keys.begin());
  };
  const uint64_t begin = place(first);
  return {begin, std::max(begin, place(last))};
}

void Dictionary::check_section(DictionarySection section) const {
  const uint64_t begin = header_.begin(section), bytes = header_.section_bytes(section);
  if (base::xxh64({memory_.data() + begin, bytes}, 0) != header_.hashes[section])
    throw wrong(section, "its hash does not match, the file is damaged");
  const uint64_t next = section + 1 < kDictSections ? header_.begin(section + 1) : header_.end();
  for (uint64_t at = begin + bytes; at < next; ++at)
    if (memory_.data()[at]) throw wrong(section, "byte " + text(at) + " behind it must be 0");
}

void Dictionary::verify() const {
  try {
    DictionaryHeader::decode(memory_.data(), memory_.size());
    for (int s = 0; s < kDictSections; ++s) check_section(static_cast<DictionarySection>(s));
    check_keys(keys(), header_, index_, header_.blocks, kDirectory);
    check_keys(deleted_keys(), header_, deleted_index_, header_.deleted_blocks, kDeletedDirectory);
    for (uint64_t i = 0, j = 0; i < header_.count && j < header_.deleted;) {
      if (keys_[i] == deleted_keys_[j]) throw wrong(kDeletedKeys, "key " + text(keys_[i]) + " has a row too");
      spread_of(keys_[i]) < spread_of(deleted_keys_[j]) ? ++i : ++j;
    }
  } catch (const DictionaryError &error) {
    throw DictionaryError("dictionary " + path_ + ": " + error.what());
  }
  verify_offsets();
}

void Dictionary::verify_offsets() const {
  if (!offsets_) return;
  auto fail = [&](const std::string &what) {
    throw DictionaryError("dictionary " + path_ + ": " + wrong(kOffsets, what).what());
  };
  if (offsets_[0]) fail("the first value begins at " + text(offsets_[0]) + ", expected 0");
  for (uint64_t i = 0; i < header_.count; ++i)
    if (offsets_[i + 1] < offsets_[i]) fail("value " + text(i) + " ends before it begins, at " + text(offsets_[i]));
  if (offsets_[header_.count] != header_.values_bytes)
    fail("end at " + text(offsets_[header_.count]) + ", expected " + text(header_.values_bytes));
}

Layers::Layers(std::vector<std::shared_ptr<const Dictionary>> layers) : layers_(std::move(layers)) {
  if (layers_.empty()) throw std::invalid_argument("layers must be at least one dictionary but are none");
  for (const auto &layer : layers_) {
    const DictionaryHeader &a = layers_.front()->header(), &b = layer->header();
    if (a.dtype != b.dtype || a.dim != b.dim || a.row_bytes != b.row_bytes)
      throw std::invalid_argument("dictionary " + layer->path() + " has dtype " + text(b.dtype) + ", dim " +
                                  text(b.dim) + " and rows of " + text(b.row_bytes) + " bytes, but " +
                                  layers_.front()->path() + " has " + text(a.dtype) + ", " + text(a.dim) + " and " +
                                  text(a.row_bytes));
  }
}

uint64_t Layers::file_bytes() const {
  uint64_t total = 0;
  for (const auto &layer : layers_) total += layer->file_bytes();
  return total;
}

uint64_t Layers::resident_bytes() const {
  uint64_t total = 0;
  for (const auto &layer : layers_) total += layer->resident_bytes();
  return total;
}

}  // namespace clickline::dictionary
