#include "dictionary/writer.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/files.h"
#include "base/hash_stream.h"
#include "base/pool.h"

namespace clickline::dictionary {

namespace {

struct Counts {
  uint64_t rows = 0, deleted = 0, bytes = 0;
  bool operator==(const Counts &) const = default;
};

Counts count(const DictionarySlice &slice) {
  Counts result{slice.rows.size(), slice.deleted.size(), 0};
  for (const auto &row : slice.rows) result.bytes += row.value.size();
  return result;
}

// One section: buffered, hashed, at its place in the file.
class SectionStream {
 public:
  SectionStream(const base::File &file, uint64_t begin) : file_(file), at_(begin) {}

  void append(const void *bytes, size_t size) {
    buffer_.append(static_cast<const char *>(bytes), size);
    if (buffer_.size() >= kBuffer) flush();
  }
  // A large piece goes as it is.
  void append_piece(const char *bytes, size_t size) {
    flush();
    put(bytes, size);
  }
  // The zeros up to the next section, and nothing more to come.
  uint64_t finish(bool padded) {
    static constexpr char kZeros[kDictionaryAlign] = {};
    flush();
    if (padded) file_.write(kZeros, (0 - at_) % kDictionaryAlign, at_);
    return hash_.result();
  }

 private:
  static constexpr size_t kBuffer = size_t{1} << 18;

  void flush() {
    put(buffer_.data(), buffer_.size());
    buffer_.clear();
  }
  void put(const char *bytes, size_t size) {
    hash_.update(bytes, size);
    file_.write(bytes, size, at_);
    at_ += size;
  }

  const base::File &file_;
  uint64_t at_;
  base::HashStream hash_;
  std::string buffer_;
};

// Keys in order of spread, and the directory that follows from them.
class KeyStream {
 public:
  KeyStream(const DictionaryHeader &h, uint64_t blocks, SectionStream &directory, SectionStream &keys)
      : first_(h.first_bucket), last_(h.last_bucket), blocks_(blocks), index_(first_, last_, blocks),
        directory_(directory), keys_(keys) {}

  void append(uint64_t spread) {
    const uint64_t key = key_of(spread), bucket = spread >> 52;
    if (bucket < first_ || bucket >= last_ || (count_ && spread <= before_))
      throw DictionaryError("key " + text(key) + " comes twice, is out of order or of other buckets than " +
                            text(first_) + " to below " + text(last_) + "; verify what it is made from");
    before_ = spread;
    fill(index_.block(spread) + 1);
    keys_.append(&key, sizeof key);
    ++count_;
  }
  void finish() { fill(blocks_ + 1); }

 private:
  // Entries of the blocks below `end` that have none yet: they begin with the key to come.
  void fill(uint64_t end) {
    for (const uint32_t entry = static_cast<uint32_t>(count_); filled_ < end; ++filled_)
      directory_.append(&entry, sizeof entry);
  }

  const uint32_t first_, last_;
  const uint64_t blocks_;
  const DictionaryIndex index_;
  SectionStream &directory_, &keys_;
  uint64_t count_ = 0, filled_ = 0, before_ = 0;
};

class DictionaryWriter {
 public:
  DictionaryWriter(const base::File &file, const DictionaryHeader &shape, const DictionarySource &source, int threads)
      : file_(file), header_(shape), source_(source), threads_(std::max(threads, 1)) {
    for (uint32_t b = shape.first_bucket / kSliceBuckets * kSliceBuckets; b < shape.last_bucket; b += kSliceBuckets)
      slices_.push_back({std::max(b, shape.first_bucket), std::min(b + kSliceBuckets, shape.last_bucket)});
  }

  DictionarySummary write() {
    count_all();
    std::vector<SectionStream> sections;
    for (int s = 0; s < kDictSections; ++s) sections.emplace_back(file_, header_.begin(s));
    write_sections(sections);
    for (int s = 0; s < kDictSections; ++s) header_.hashes[s] = sections[s].finish(s + 1 < kDictSections);
    const auto bytes = header_.encode();  // last, so that a file cut short is not taken for a dictionary
    file_.write(bytes.data(), bytes.size(), 0);
    return {header_.count, header_.deleted, header_.end()};
  }

 private:
  void count_all() {
    counts_.resize(slices_.size());
    base::parallel_for(slices_.size(), threads_, [&](size_t i) {
      DictionarySlice slice;
      source_(slices_[i].first, slices_[i].second, false, slice);
      counts_[i] = count(slice);
    });
    header_.count = header_.deleted = header_.values_bytes = 0;
    for (const Counts &c : counts_)
      header_.count += c.rows, header_.deleted += c.deleted, header_.values_bytes += c.bytes;
    if (std::max(header_.count, header_.deleted) > kMaxDictionaryKeys)
      throw DictionaryError(text(std::max(header_.count, header_.deleted)) + " keys are more than a dictionary holds, "
                            "4294967295; write one for each part of the buckets");
    header_.blocks = DictionaryHeader::blocks_for(header_.count);
    header_.deleted_blocks = DictionaryHeader::blocks_for(header_.deleted);
  }

  // Some slices at a time: made and gathered in parallel, appended in order.
  void write_sections(std::vector<SectionStream> &sections) {
    KeyStream rows(header_, header_.blocks, sections[kDirectory], sections[kDictKeys]);
    KeyStream deleted(header_, header_.deleted_blocks, sections[kDeletedDirectory], sections[kDeletedKeys]);
    uint64_t offset = 0;
    auto append_offset = [&] {
      if (!header_.row_bytes) sections[kOffsets].append(&offset, sizeof offset);
    };
    append_offset();
    const size_t wave = static_cast<size_t>(threads_) * 2;
    for (size_t begin = 0; begin < slices_.size(); begin += wave) {
      const size_t size = std::min(wave, slices_.size() - begin);
      std::vector<DictionarySlice> made(size);
      std::vector<std::unique_ptr<char[]>> values(size);
      base::parallel_for(size, threads_, [&](size_t i) {
        values[i] = std::make_unique_for_overwrite<char[]>(counts_[begin + i].bytes);
        source_(slices_[begin + i].first, slices_[begin + i].second, true, made[i]);
        if (count(made[i]) != counts_[begin + i]) throw DictionaryError("what it is made from changed meanwhile");
        gather(made[i], values[i].get());
      });
      for (size_t i = 0; i < size; ++i) {
        for (const auto &row : made[i].rows) {
          rows.append(row.spread);
          offset += row.value.size();
          append_offset();
        }
        for (const uint64_t spread : made[i].deleted) deleted.append(spread);
        sections[kValues].append_piece(values[i].get(), counts_[begin + i].bytes);
      }
    }
    rows.finish();
    deleted.finish();
  }

  void gather(const DictionarySlice &slice, char *to) const {
    constexpr size_t kAhead = 16;
    for (size_t i = 0; i < slice.rows.size(); ++i) {
      const std::string_view value = slice.rows[i].value;
      if (i + kAhead < slice.rows.size()) __builtin_prefetch(slice.rows[i + kAhead].value.data());
      if (header_.row_bytes && value.size() != header_.row_bytes)
        throw DictionaryError("a row of " + text(value.size()) + " bytes, expected " + text(header_.row_bytes));
      if (!value.empty()) std::memcpy(to, value.data(), value.size());
      to += value.size();
    }
  }

  const base::File &file_;
  DictionaryHeader header_;
  const DictionarySource &source_;
  const int threads_;
  std::vector<std::pair<uint32_t, uint32_t>> slices_;
  std::vector<Counts> counts_;
};

}  // namespace

DictionarySummary write_dictionary(const std::string &path, const DictionaryHeader &shape,
                                   const DictionarySource &source, int threads) {
  shape.check_shape();
  try {
    base::File file(path, O_RDWR | O_CREAT | O_TRUNC);
    file.size();  // throws unless it is a regular file: what stands there otherwise is not ours to remove
    try {
      DictionarySummary facts = DictionaryWriter(file, shape, source, threads).write();
      file.finish();
      return facts;
    } catch (...) {
      ::unlink(path.c_str());  // a full disk gets its room back
      throw;
    }
  } catch (const base::FileError &error) {
    throw DictionaryError("dictionary " + path + ": " + error.what());
  } catch (const DictionaryError &error) {
    throw DictionaryError("dictionary " + path + ": " + error.what());
  }
}

}  // namespace clickline::dictionary
