// Bytes that Python lends to native code, and arrays that native code gives to Python.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdlib>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "parse/row_builder.h"
#include "request/tensors.h"

namespace clickline::bind {

namespace nb = nanobind;

// Holds on to a bytes-like object while native code reads it.
class View {
 public:
  explicit View(nb::handle object) {
    if (object.is_none()) return;
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE)) throw nb::python_error();
    held_ = true;
  }
  View(View &&other) noexcept : view_(other.view_), held_(std::exchange(other.held_, false)) {}
  View &operator=(View &&) = delete;
  ~View() { if (held_) PyBuffer_Release(&view_); }
  base::Bytes lent() const {
    // An empty buffer may have no address; native code takes that for no buffer at all.
    if (!held_) return {};
    return {view_.buf ? static_cast<const char *>(view_.buf) : "", static_cast<size_t>(view_.len)};
  }
  std::string_view bytes() const { return {lent().data, lent().size}; }

 private:
  Py_buffer view_{};
  bool held_ = false;
};

// An array that owns its memory from here on.
template <class T>
nb::object numpy_of(parse::Array<T> &&array, std::initializer_list<size_t> shape) {
  T *data = array.release();
  nb::capsule owner(data, [](void *p) noexcept { std::free(p); });
  return nb::cast(nb::ndarray<nb::numpy, T>(data, shape, owner));
}

}  // namespace clickline::bind
