// SequenceFiles as ElasticCTR's cube reads and writes them: Hadoop's version 6 without compression, 8-byte little-endian
// keys, values as they are. Unlike Hadoop's own BytesWritable, keys and values carry no inner length.
// docs/compatibility.md is the specification. Nothing is allocated before a length was checked against the file's size.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace clickline::compat {

// A file that cannot be written, read, or trusted.
struct SequenceFileError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline constexpr uint64_t kSyncInterval = 2000;         // bytes of keys and values between two marks
inline constexpr uint64_t kMaxSequenceValue = 67108860;  // the limit of ElasticCTR's builder
using SyncMark = std::array<char, 16>;

struct SequenceChunk {
  std::vector<uint64_t> keys;
  std::vector<uint64_t> offsets{0};  // of each value in `bytes`, and the end of the last
  std::string bytes;
};

// Reads from front to back; memory is bounded by what read() is asked for and one value.
class SequenceReader {
 public:
  explicit SequenceReader(const std::string &path);
  ~SequenceReader();
  SequenceReader(const SequenceReader &) = delete;
  SequenceReader &operator=(const SequenceReader &) = delete;

  // Up to `records`, fewer when their values reach `bytes`; none at the end of the file. After an error, all further
  // calls fail in the same way: what follows the damage cannot be trusted.
  SequenceChunk read(uint64_t records, uint64_t bytes);
  uint64_t position() const { return start_ + at_; }
  uint64_t size() const { return size_; }
  const SyncMark &sync() const { return sync_; }

 private:
  [[noreturn]] void fail(uint64_t offset, const std::string &what);
  uint64_t left() const { return size_ - position(); }
  std::string_view take(uint64_t bytes, const char *what);  // valid until the next call
  uint32_t number(const char *what);
  void read_header();
  void read_mark();

  const std::string path_;
  int fd_ = -1;
  uint64_t size_ = 0, start_ = 0;  // of the file; where buffer_ begins in it
  size_t at_ = 0;
  std::string buffer_, failure_;
  SyncMark sync_{};
};

// Writes front to back; finish() puts everything on the disk. The caller writes to a temporary path and renames.
class SequenceWriter {
 public:
  SequenceWriter(const std::string &path, const SyncMark &sync);
  ~SequenceWriter();
  SequenceWriter(const SequenceWriter &) = delete;
  SequenceWriter &operator=(const SequenceWriter &) = delete;

  void append(uint64_t key, std::string_view value);
  void finish();
  uint64_t records() const { return records_; }

 private:
  void flush();
  [[noreturn]] void fail(const std::string &what) const;

  const std::string path_;
  int fd_ = -1;
  std::string buffer_;
  SyncMark sync_;
  uint64_t since_mark_ = 0, records_ = 0;
};

}  // namespace clickline::compat
