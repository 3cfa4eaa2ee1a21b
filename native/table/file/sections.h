// The columns of a table file: where each begins, and buffered reading and writing of them side by side.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <string_view>

#include "base/files.h"
#include "table/file/header.h"

namespace clickline::table {

enum Section {
  kKeys, kWaitingKeys, kCounts, kLastSeen, kWeights, kState, kWaitingSeen, kSlots, kWaitingSlots, kSightings, kSections
};

struct SectionPlan {
  std::array<uint64_t, kSections> width, begin;  // bytes per item; offset in the file
  uint64_t end;                                  // of the last one: the size of the file

  static bool waits(int section) {
    return section == kWaitingKeys || section == kWaitingSeen || section == kWaitingSlots || section == kSightings;
  }
  // Throws for sizes that no file can have: what a header says may be anything.
  SectionPlan(const TableHeader &h, uint64_t data) {
    uint64_t state = 0;
    bool fits = !__builtin_mul_overflow(uint64_t{4} * h.dim, uint64_t{h.states}, &state);
    width = {8, 8, 8, 4, uint64_t{4} * h.dim, state, 4, 2, 2, 2};
    for (int s = 0; s < kSections; ++s) {
      begin[s] = data;
      uint64_t bytes = 0;
      fits &= !__builtin_mul_overflow(width[s], waits(s) ? h.waiting : h.rows, &bytes);
      fits &= !__builtin_add_overflow(data, bytes, &data);
    }
    if (!fits || data > uint64_t{std::numeric_limits<int64_t>::max()})
      throw TableFileError("the header promises more bytes than a file can have");
    end = data;
  }
};

class SectionWriter {
 public:
  SectionWriter(const base::File &file, uint64_t offset) : file_(file), offset_(offset) {}

  void append(std::string_view bytes) {
    buffer_.append(bytes);
    if (buffer_.size() >= kBuffer) flush();
  }
  void flush() {
    file_.write(buffer_.data(), buffer_.size(), offset_);
    offset_ += buffer_.size();
    buffer_.clear();
  }

 private:
  static constexpr size_t kBuffer = size_t{1} << 20;
  const base::File &file_;
  uint64_t offset_;
  std::string buffer_;
};

// Reads one section from front to back; never beyond its end.
class SectionReader {
 public:
  SectionReader(const base::File &file, uint64_t begin, uint64_t end) : file_(file), offset_(begin), end_(end) {}

  void skip(uint64_t bytes) {
    const uint64_t buffered = std::min<uint64_t>(bytes, buffer_.size() - at_);
    at_ += buffered;
    offset_ += bytes - buffered;
  }
  // Valid until the next call; the size was checked against the file's before anything was read.
  std::string_view next(uint64_t bytes) {
    if (buffer_.size() - at_ < bytes) {
      buffer_.erase(0, at_);
      at_ = 0;
      const uint64_t wanted = std::max(bytes, std::min<uint64_t>(kBuffer, end_ - offset_ + buffer_.size()));
      const size_t have = buffer_.size();
      buffer_.resize(wanted);
      file_.read(buffer_.data() + have, wanted - have, offset_);
      offset_ += wanted - have;
    }
    at_ += bytes;
    return std::string_view(buffer_).substr(at_ - bytes, bytes);
  }

 private:
  static constexpr size_t kBuffer = size_t{1} << 18;
  const base::File &file_;
  uint64_t offset_, end_;
  std::string buffer_;
  size_t at_ = 0;
};

}  // namespace clickline::table
