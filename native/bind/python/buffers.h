// Arrays of one type, borrowed for the length of a call by Python's buffer protocol: a few dozen nanoseconds each,
// which counts where a whole call takes a few microseconds. Refuses what does not fit, never copies.
#pragma once

#include <nanobind/nanobind.h>

#include <stdexcept>
#include <string>

namespace clickline::bind {

namespace nb = nanobind;

class BorrowedArray {
 public:
  BorrowedArray(nb::handle object, const char *name, bool writable = false) : name_(name) {
    const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(object.ptr(), &view_, flags)) {
      PyErr_Clear();
      throw std::invalid_argument(std::string("Argument '") + name_ + "' must be a C-contiguous " +
                                  (writable ? "writable array" : "array"));
    }
  }
  ~BorrowedArray() { PyBuffer_Release(&view_); }
  BorrowedArray(const BorrowedArray &) = delete;
  BorrowedArray &operator=(const BorrowedArray &) = delete;

  size_t length() const { return static_cast<size_t>(view_.shape[0]); }
  size_t width() const { return static_cast<size_t>(view_.shape[1]); }

  const uint64_t *uint64s() const {
    const char code = kind();
    if (view_.ndim != 1 || view_.itemsize != 8 || (code != 'L' && code != 'Q')) refuse("uint64 of one dimension");
    return static_cast<const uint64_t *>(view_.buf);
  }
  char *uint8s(int dimensions) const {
    if (view_.ndim != dimensions || view_.itemsize != 1 || kind() != 'B')
      refuse("uint8 of " + std::to_string(dimensions) + (dimensions == 1 ? " dimension" : " dimensions"));
    return static_cast<char *>(view_.buf);
  }
  const float *floats() const {
    if (view_.ndim != 2 || view_.itemsize != 4 || kind() != 'f') refuse("float32 of 2 dimensions");
    return static_cast<const float *>(view_.buf);
  }

 private:
  // The format's letter, native order being the only one that does not begin with another sign.
  char kind() const { return view_.format && !view_.format[1] ? view_.format[0] : '\0'; }
  [[noreturn]] void refuse(const std::string &expected) const {
    throw std::invalid_argument(std::string("Argument '") + name_ + "' must be " + expected + " but is of " +
                                std::to_string(view_.ndim) + " and format '" + (view_.format ? view_.format : "") +
                                "'");
  }

  const char *const name_;
  Py_buffer view_;
};

}  // namespace clickline::bind
