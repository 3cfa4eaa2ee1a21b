// Arrays that come from Python, checked by hand: nanobind would silently copy one of another type or layout, and
// what is written into a copy is lost.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <initializer_list>
#include <stdexcept>
#include <string>

namespace clickline::bind {

namespace nb = nanobind;

using Input = nb::ndarray<nb::ro, nb::device::cpu>;
using Output = nb::ndarray<nb::device::cpu>;

inline constexpr int64_t kAny = -1;

inline std::string type_name(nb::dlpack::dtype type) {
  const char *kind = "?";
  switch (static_cast<nb::dlpack::dtype_code>(type.code)) {
    case nb::dlpack::dtype_code::Int: kind = "int"; break;
    case nb::dlpack::dtype_code::UInt: kind = "uint"; break;
    case nb::dlpack::dtype_code::Float: kind = "float"; break;
    case nb::dlpack::dtype_code::Bfloat: kind = "bfloat"; break;
    case nb::dlpack::dtype_code::Complex: kind = "complex"; break;
    case nb::dlpack::dtype_code::Bool: kind = "bool"; break;
    default: break;
  }
  return kind + std::to_string(type.bits);
}

template <class Array>
std::string describe(const Array &array) {
  std::string text = type_name(array.dtype()) + " [";
  for (size_t i = 0; i < array.ndim(); ++i) text += (i ? ", " : "") + std::to_string(array.shape(i));
  return text + "]";
}

// The array's data, if it has this element type and shape (kAny = any size); C-contiguous, unless any stride will do.
template <class T, class Array>
auto *checked(const Array &array, const char *name, std::initializer_list<int64_t> shape, bool strided = false) {
  bool fits = array.dtype() == nb::dtype<T>() && array.ndim() == shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i)
    fits = shape.begin()[i] == kAny || static_cast<int64_t>(array.shape(i)) == shape.begin()[i];
  bool contiguous = true;
  int64_t expected = 1;
  for (size_t i = fits ? shape.size() : 0; i-- > 0;) {
    if (array.shape(i) > 1 && array.stride(i) != expected) contiguous = false;
    expected *= static_cast<int64_t>(array.shape(i));
  }
  if (expected == 0) contiguous = true;
  if (!fits || !(contiguous || strided)) {
    std::string want;
    for (int64_t size : shape) want += (want.empty() ? "" : ", ") + (size == kAny ? "any" : std::to_string(size));
    throw std::invalid_argument(std::string(name) + " must be " + (strided ? "" : "C-contiguous ") +
                                type_name(nb::dtype<T>()) + " [" + want + "], got " + describe(array) +
                                (contiguous ? "" : ", not contiguous"));
  }
  using Pointer = std::conditional_t<std::is_same_v<Array, Input>, const T *, T *>;
  return static_cast<Pointer>(array.data());
}

}  // namespace clickline::bind
