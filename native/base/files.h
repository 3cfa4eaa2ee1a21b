// A regular file that is read and written at given offsets; every failure is a FileError.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace clickline::base {

struct FileError : std::runtime_error {
  using std::runtime_error::runtime_error;
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
    if (!S_ISREG(info.st_mode)) throw FileError("not a regular file");
    return static_cast<uint64_t>(info.st_size);
  }
  void read(void *place, size_t bytes, uint64_t offset) const {
    for (char *to = static_cast<char *>(place); bytes;) {
      const ssize_t done = ::pread(fd_, to, bytes, static_cast<off_t>(offset));
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) fail("cannot be read");
      if (done == 0) throw FileError("ends at byte " + std::to_string(offset));
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
  [[noreturn]] void fail(const std::string &what) const { throw FileError(what + ": " + std::strerror(errno)); }

  const std::string path_;
  int fd_;
};

}  // namespace clickline::base
