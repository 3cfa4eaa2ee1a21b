#include "dictionary/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "dictionary/header.h"

namespace clickline::dictionary {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;

DictionaryError failed(const std::string &what) { return DictionaryError(what + ": " + std::strerror(errno)); }

// The one file that was opened, whatever takes its name meanwhile.
class Descriptor {
 public:
  explicit Descriptor(const std::string &path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) throw failed("cannot be opened");
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;

  int number() const { return fd_; }
  uint64_t size() const {
    struct stat info;
    if (::fstat(fd_, &info)) throw failed("cannot be examined");
    if (!S_ISREG(info.st_mode)) throw DictionaryError("not a regular file");
    return static_cast<uint64_t>(info.st_size);
  }
  void read(char *to, size_t bytes, uint64_t offset) const {
    while (bytes) {
      const ssize_t done = ::pread(fd_, to, bytes, static_cast<off_t>(offset));
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) throw failed("cannot be read");
      if (done == 0) throw DictionaryError("ends at byte " + text(offset));
      to += done, bytes -= static_cast<size_t>(done), offset += static_cast<uint64_t>(done);
    }
  }

 private:
  const int fd_;
};

}  // namespace

MappedFile::MappedFile(const std::string &path, uint64_t offset, std::optional<uint64_t> length,
                       bool read) {
  const Descriptor file(path);
  const uint64_t whole = file.size();
  if (offset > whole || (length && *length > whole - offset))
    throw DictionaryError((length ? text(*length) + " bytes" : "bytes") + " from byte " + text(offset) +
                          " on are wanted of a file that has " + text(whole));
  size_ = length.value_or(whole - offset);
  char header[kDictionaryHeader] = {};
  file.read(header, std::min<uint64_t>(size_, sizeof header), offset);
  DictionaryHeader::decode(header, size_);  // first: a large file that is not a dictionary should cost nothing
  const uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)), before = read ? 0 : offset % page;
  if (before % kDictionaryAlign)
    throw DictionaryError("begins at byte " + text(offset) + ", which must be a multiple of 64 to be mapped");
  // Huge pages begin at multiples of their size, which what the system gives need not.
  mapped_ = read ? size_ + (size_ >= kHugePage ? 2 * kHugePage : 0) : size_ + before;
  mapping_ = read ? ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                  : ::mmap(nullptr, mapped_, PROT_READ, MAP_SHARED, file.number(), static_cast<off_t>(offset - before));
  if (mapping_ == MAP_FAILED) throw failed("no room for " + text(mapped_) + " bytes");
  char *place = static_cast<char *>(mapping_) + before;
  data_ = place;
  if (!read) return;
  if (size_ >= kHugePage) place += (0 - reinterpret_cast<uintptr_t>(place)) % kHugePage;
  data_ = place;
#if defined(__linux__)
  if (size_ >= kHugePage)
    ::madvise(place, (size_ + kHugePage - 1) / kHugePage * kHugePage, MADV_HUGEPAGE);  // only speed depends on it
#endif
  try {
    file.read(place, size_, offset);
  } catch (...) {
    ::munmap(mapping_, mapped_);
    throw;
  }
  ::mprotect(mapping_, mapped_, PROT_READ);
}

MappedFile::~MappedFile() {
  if (mapping_) ::munmap(mapping_, mapped_);
}

uint64_t MappedFile::resident() const {
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  constexpr size_t kStep = size_t{64} << 20;
  std::vector<unsigned char> pages(kStep / page);
  uint64_t total = 0;
  for (size_t at = 0; at < mapped_; at += kStep) {
    const size_t bytes = std::min(kStep, mapped_ - at), count = (bytes + page - 1) / page;
    if (::mincore(static_cast<char *>(mapping_) + at, bytes, pages.data())) return size_;
    total += page * static_cast<uint64_t>(std::count_if(&pages[0], &pages[0] + count, [](auto p) { return p & 1; }));
  }
  return total;
}

}  // namespace clickline::dictionary
