#include "compat/sequence_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

namespace clickline::compat {

static_assert(std::endian::native == std::endian::little);

namespace {

constexpr size_t kBuffer = size_t{1} << 20;
constexpr uint32_t kEscape = 0xFFFFFFFF;  // in place of a record's length: a mark follows
constexpr uint64_t kKey = 8;
constexpr std::string_view kClass = "org.apache.hadoop.io.BytesWritable";

std::string header() {
  const std::string name = static_cast<char>(kClass.size()) + std::string(kClass);
  return "SEQ\x06" + name + name + std::string(6, '\0');
}

void put(std::string &to, uint32_t value) {
  value = __builtin_bswap32(value);
  to.append(reinterpret_cast<const char *>(&value), 4);
}

std::string shown(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += byte >= ' ' && byte <= '~' ? byte : '?';
  return "'" + text + "'";
}

}  // namespace

SequenceReader::SequenceReader(const std::string &path) : path_(path) {
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a named pipe would else wait for a writer
  if (fd_ < 0) throw SequenceFileError("'" + path + "' cannot be opened: " + std::strerror(errno));
  try {
    struct stat info;
    if (::fstat(fd_, &info)) throw SequenceFileError("'" + path + "' cannot be examined: " + std::strerror(errno));
    if (!S_ISREG(info.st_mode)) throw SequenceFileError("'" + path + "' is not a regular file");
    size_ = static_cast<uint64_t>(info.st_size);
    read_header();
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

SequenceReader::~SequenceReader() { ::close(fd_); }

void SequenceReader::fail(uint64_t offset, const std::string &what) {
  failure_ = "'" + path_ + "' is not a SequenceFile of 8-byte keys: at byte " + std::to_string(offset) + ", " + what;
  throw SequenceFileError(failure_);
}

std::string_view SequenceReader::take(uint64_t bytes, const char *what) {
  if (bytes > left())
    fail(position(), std::string(what) + " of " + std::to_string(bytes) + " bytes is expected, but only " +
                         std::to_string(left()) + " are left");
  if (buffer_.size() - at_ < bytes) {
    buffer_.erase(0, at_);
    start_ += at_;
    at_ = 0;
    size_t have = buffer_.size();
    buffer_.resize(std::max<uint64_t>(bytes, std::min<uint64_t>(kBuffer, size_ - start_)));
    while (have < buffer_.size()) {
      const ssize_t done = ::pread(fd_, buffer_.data() + have, buffer_.size() - have, static_cast<off_t>(start_ + have));
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) fail(start_ + have, std::string("reading fails: ") + std::strerror(errno));
      if (done == 0) fail(start_ + have, "the file ends: it was cut while it was read");
      have += static_cast<size_t>(done);
    }
  }
  at_ += bytes;
  return std::string_view(buffer_).substr(at_ - bytes, bytes);
}

uint32_t SequenceReader::number(const char *what) {
  uint32_t value;
  std::memcpy(&value, take(4, what).data(), 4);
  return __builtin_bswap32(value);
}

void SequenceReader::read_header() {
  if (const auto magic = take(3, "'SEQ'"); magic != "SEQ") fail(0, "'SEQ' is expected, got " + shown(magic));
  const auto version = static_cast<unsigned char>(take(1, "the version")[0]);
  if (version != 6) fail(3, "version 6 is expected, got " + std::to_string(version));
  for (const char *what : {"the key's class", "the value's class"}) {
    const uint64_t here = position();
    const auto length = static_cast<signed char>(take(1, what)[0]);
    if (length < 0) fail(here, std::string(what) + " has a name that is too long");
    if (const auto name = take(static_cast<uint64_t>(length), what); name != kClass)
      fail(here, std::string(what) + " must be " + std::string(kClass) + ", got " + shown(name));
  }
  const uint64_t here = position();
  if (take(2, "the compression") != std::string_view("\0\0", 2)) fail(here, "the file is compressed, which is not read");
  if (const uint32_t count = number("the metadata's count"))
    fail(here + 2, "no metadata is expected, got " + std::to_string(count) + " entries");
  std::memcpy(sync_.data(), take(16, "the sync mark").data(), 16);
}

void SequenceReader::read_mark() {
  const uint64_t here = position();
  if (take(16, "a sync mark") != std::string_view(sync_.data(), 16))
    fail(here, "a sync mark is not the one of the file's header");
}

SequenceChunk SequenceReader::read(uint64_t records, uint64_t bytes) {
  if (!failure_.empty()) throw SequenceFileError(failure_);
  SequenceChunk chunk;
  while (left() && chunk.keys.size() < records && (chunk.keys.empty() || chunk.bytes.size() < bytes)) {
    const uint64_t here = position();
    const uint32_t length = number("a record's length");
    if (length == kEscape) {
      read_mark();
      continue;
    }
    if (length < kKey || length - kKey > kMaxSequenceValue)
      fail(here, "a record's length must be " + std::to_string(kKey) + " to " +
                     std::to_string(kKey + kMaxSequenceValue) + ", got " + std::to_string(length));
    if (const uint32_t key = number("a key's length"); key != kKey)
      fail(here + 4, "a key must have 8 bytes, got " + std::to_string(key) +
                         (key == 12 ? ": Hadoop's own writer puts a length before each key, which is another format"
                                    : ""));
    const std::string_view record = take(length, "a record");
    uint64_t key;
    std::memcpy(&key, record.data(), kKey);
    chunk.keys.push_back(key);
    chunk.bytes.append(record.substr(kKey));
    chunk.offsets.push_back(chunk.bytes.size());
  }
  return chunk;
}

SequenceWriter::SequenceWriter(const std::string &path, const SyncMark &sync) : path_(path), sync_(sync) {
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) fail("cannot be opened");
  buffer_ = header();
  buffer_.append(sync_.data(), sync_.size());
}

SequenceWriter::~SequenceWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void SequenceWriter::append(uint64_t key, std::string_view value) {
  if (fd_ < 0) throw SequenceFileError("'" + path_ + "' is finished: nothing can be added");
  if (value.size() > kMaxSequenceValue)
    throw SequenceFileError("the value of key " + std::to_string(key) + " has " + std::to_string(value.size()) +
                            " bytes; at most " + std::to_string(kMaxSequenceValue) + " are possible");
  const uint64_t length = kKey + value.size();
  put(buffer_, static_cast<uint32_t>(length));
  put(buffer_, kKey);
  buffer_.append(reinterpret_cast<const char *>(&key), kKey);
  buffer_.append(value);
  since_mark_ += length;
  if (since_mark_ >= kSyncInterval) {
    put(buffer_, kEscape);
    buffer_.append(sync_.data(), sync_.size());
    since_mark_ = 0;
  }
  ++records_;
  if (buffer_.size() >= kBuffer) flush();
}

void SequenceWriter::flush() {
  for (std::string_view rest = buffer_; !rest.empty();) {
    const ssize_t done = ::write(fd_, rest.data(), rest.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("cannot be written");
    rest.remove_prefix(static_cast<size_t>(done));
  }
  buffer_.clear();
}

void SequenceWriter::finish() {
  if (fd_ < 0) return;
  flush();
  if (::fsync(fd_)) fail("cannot be written to disk");
  if (::close(std::exchange(fd_, -1))) fail("cannot be closed");
}

void SequenceWriter::fail(const std::string &what) const {
  throw SequenceFileError("'" + path_ + "' " + what + ": " + std::strerror(errno));
}

}  // namespace clickline::compat
