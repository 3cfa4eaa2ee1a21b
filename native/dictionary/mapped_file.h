// The bytes of a dictionary file, or of a part of a file: mapped, or read into memory of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace clickline::dictionary {

class MappedFile {
 public:
  // Throws DictionaryError.
  MappedFile(const std::string &path, uint64_t offset, std::optional<uint64_t> length, bool read);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  const char *data() const { return data_; }
  uint64_t size() const { return size_; }
  uint64_t resident() const;

 private:
  void *mapping_ = nullptr;  // begins at a page, so maybe before `data_`
  size_t mapped_ = 0;
  const char *data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace clickline::dictionary
