// The columns of a table file: where each begins, and buffered reading and writing of them side by side.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "table/file/header.h"

namespace clickline {

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

class File {
 public:
  File(const std::string &path, int flags) : path_(path), fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
    if (fd_ < 0) fail("cannot be opened");
  }
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File &) = delete;
  File &operator=(const File &) = delete;

  uint64_t size() const {
    struct stat info;
    if (::fstat(fd_, &info)) fail("cannot be examined");
    if (!S_ISREG(info.st_mode)) throw TableFileError("not a regular file");
    return static_cast<uint64_t>(info.st_size);
  }
  void read(void *place, size_t bytes, uint64_t offset) const {
    for (char *to = static_cast<char *>(place); bytes;) {
      const ssize_t done = ::pread(fd_, to, bytes, static_cast<off_t>(offset));
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) fail("cannot be read");
      if (done == 0) throw TableFileError("ends at byte " + std::to_string(offset));
      to += done, bytes -= static_cast<size_t>(done), offset += static_cast<uint64_t>(done);
    }
  }
  void write(const void *place, size_t bytes, uint64_t offset) const {
    for (const char *from = static_cast<const char *>(place); bytes;) {
      const ssize_t done = ::pwrite(fd_, from, bytes, static_cast<off_t>(offset));
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) fail("cannot be written");
      from += done, bytes -= static_cast<size_t>(done), offset += static_cast<uint64_t>(done);
    }
  }
  // On the disk, or an error: a checkpoint must not be declared good before.
  void finish() {
    if (::fsync(fd_)) fail("cannot be written to disk");
    if (::close(std::exchange(fd_, -1))) fail("cannot be closed");
  }

 private:
  [[noreturn]] void fail(const std::string &what) const { throw TableFileError(what + ": " + std::strerror(errno)); }

  const std::string path_;
  int fd_;
};

class SectionWriter {
 public:
  SectionWriter(const File &file, uint64_t offset) : file_(file), offset_(offset) {}

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
  const File &file_;
  uint64_t offset_;
  std::string buffer_;
};

// Reads one section from front to back; never beyond its end.
class SectionReader {
 public:
  SectionReader(const File &file, uint64_t begin, uint64_t end) : file_(file), offset_(begin), end_(end) {}

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
  const File &file_;
  uint64_t offset_, end_;
  std::string buffer_;
  size_t at_ = 0;
};

}  // namespace clickline
