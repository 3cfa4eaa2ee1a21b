// Python bindings of dictionary/dictionary.h, writer.h and row_encoding.h. Lookups are called with small batches, so the
// path from Python to them is kept short.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "bind/python/buffers.h"
#include "bind/python/gil.h"
#include "dictionary/dictionary.h"
#include "dictionary/row_encoding.h"
#include "dictionary/writer.h"

namespace nb = nanobind;
using namespace clickline::base;
using namespace clickline::dictionary;
using clickline::bind::BorrowedArray;
using clickline::bind::without_lock;

namespace {

using Path = std::filesystem::path;
using Dictionaries = std::vector<std::shared_ptr<Dictionary>>;

PyObject *numpy_empty = nullptr, *uint8_type = nullptr, *uint64_type = nullptr, *float32_type = nullptr;  // for good

nb::object empty(PyObject *type, size_t rows, std::optional<size_t> columns = {}) {
  nb::object first = nb::steal(PyLong_FromSize_t(rows)), shape = first;
  if (columns) shape = nb::steal(PyTuple_Pack(2, first.ptr(), nb::steal(PyLong_FromSize_t(*columns)).ptr()));
  PyObject *arguments[] = {shape.ptr(), type};
  PyObject *made = PyObject_Vectorcall(numpy_empty, arguments, 2, nullptr);
  if (!made) throw nb::python_error();
  return nb::steal(made);
}

uint32_t row_bytes(const Dictionary &d) { return d.header().row_bytes; }
uint32_t row_bytes(const Layers &l) { return l.row_bytes(); }

template <class Source>
nb::object lookup(const Source &source, nb::handle keys, nb::object out, int threads) {
  const BorrowedArray wanted(keys, "keys");
  const std::span<const uint64_t> span(wanted.uint64s(), wanted.length());
  const size_t bytes = row_bytes(source);
  if (out.is_none()) out = empty(uint8_type, span.size(), bytes);
  nb::object status = empty(uint8_type, span.size());
  const BorrowedArray rows(out, "out", true), states(status, "status", true);
  char *to = rows.uint8s(2);
  if (rows.length() != span.size() || rows.width() != bytes)
    throw std::invalid_argument("Argument 'out' must be [" + std::to_string(span.size()) + ", " +
                                std::to_string(bytes) + "] but is [" + std::to_string(rows.length()) + ", " +
                                std::to_string(rows.width()) + "]");
  auto *state = reinterpret_cast<uint8_t *>(states.uint8s(1));
  without_lock(span.size(), [&] { source.lookup(span, state, to, bytes, threads); });
  PyObject *result = PyTuple_Pack(2, status.ptr(), out.ptr());
  if (!result) throw nb::python_error();
  return nb::steal(result);
}

template <class Source>
nb::object lookup_values(const Source &source, nb::handle keys) {
  const BorrowedArray wanted(keys, "keys");
  const std::span<const uint64_t> span(wanted.uint64s(), wanted.length());
  std::vector<std::string_view> values(span.size());
  nb::object status = empty(uint8_type, span.size()), offsets = empty(uint64_type, span.size() + 1);
  const BorrowedArray states(status, "status", true), places(offsets, "offsets", true);
  auto *state = reinterpret_cast<uint8_t *>(states.uint8s(1));
  auto *place = const_cast<uint64_t *>(places.uint64s());
  uint64_t total = 0;
  without_lock(span.size(), [&] {
    source.find(span, state, values.data());
    total = place_values(values, place);
  });
  nb::object bytes = empty(uint8_type, total);
  const BorrowedArray out(bytes, "bytes", true);
  char *to = out.uint8s(1);
  without_lock(span.size(), [&] { copy_values(values, to); });
  return nb::make_tuple(status, offsets, bytes);
}

// Not a copy: the array keeps the dictionary.
template <class T>
nb::object view(nb::handle self, const T *data, std::initializer_list<size_t> shape) {
  return nb::cast(nb::ndarray<nb::numpy, const T>(data, shape, self));
}

nb::object values(nb::handle self) {
  const auto &d = nb::cast<const Dictionary &>(self);
  const auto *data = reinterpret_cast<const uint8_t *>(d.values());
  if (!d.header().row_bytes) return view(self, data, {d.header().values_bytes});
  return view(self, data, {d.header().count, d.header().row_bytes});
}

nb::dict facts(const DictionarySummary &facts) {
  nb::dict result;
  result["count"] = facts.count;
  result["deleted"] = facts.deleted;
  result["bytes"] = facts.bytes;
  return result;
}

// Native work that ends in a file, without Python's lock.
template <class Work>
nb::dict written(Work work) {
  DictionarySummary result;
  {
    clickline::bind::NoGil release;
    result = work();
  }
  return facts(result);
}

DictionaryList shared(const Dictionaries &dictionaries) { return {dictionaries.begin(), dictionaries.end()}; }

nb::dict write_from_arrays(const Path &path, nb::handle keys, nb::object values, uint32_t dtype, uint32_t dim,
                           nb::object deleted, uint32_t first_bucket, uint32_t last_bucket, int threads) {
  DictionaryHeader shape;
  shape.dtype = dtype, shape.dim = dim, shape.first_bucket = first_bucket, shape.last_bucket = last_bucket;
  const BorrowedArray written_keys(keys, "keys");
  std::optional<BorrowedArray> gone, offsets, bytes;
  DictionaryArrays arrays;
  arrays.keys = {written_keys.uint64s(), written_keys.length()};
  if (!deleted.is_none()) {
    gone.emplace(deleted, "deleted");
    arrays.deleted = {gone->uint64s(), gone->length()};
  }
  if (nb::isinstance<nb::tuple>(values)) {
    if (nb::len(values) != 2) throw std::invalid_argument("Argument 'values' must be an array or (offsets, bytes)");
    offsets.emplace(values[0], "offsets");
    bytes.emplace(values[1], "bytes");
    arrays.offsets = offsets->uint64s();
    arrays.values = bytes->uint8s(1);
    if (offsets->length() != arrays.keys.size() + 1 || arrays.offsets[arrays.keys.size()] > bytes->length())
      throw std::invalid_argument("Argument 'offsets' must be one more than the " + std::to_string(arrays.keys.size()) +
                                  " keys and within the " + std::to_string(bytes->length()) + " bytes");
  } else {
    bytes.emplace(values, "values");
    arrays.values = bytes->uint8s(2);
    shape.row_bytes = static_cast<uint32_t>(bytes->width());
    if (bytes->length() != arrays.keys.size() || !bytes->width() || bytes->width() > 0xFFFFFFFF)
      throw std::invalid_argument("Argument 'values' must be a row of at least a byte for each of the " +
                                  std::to_string(arrays.keys.size()) + " keys but is [" +
                                  std::to_string(bytes->length()) + ", " + std::to_string(bytes->width()) + "]");
  }
  return written([&] { return write_arrays(path.string(), shape, arrays, threads); });
}

nb::object encoded(nb::handle rows, uint32_t dtype) {
  const BorrowedArray from(rows, "rows");
  const float *numbers = from.floats();
  const uint32_t dim = static_cast<uint32_t>(from.width());
  nb::object result = empty(uint8_type, from.length(), DictionaryHeader::bytes_of_row(dtype, dim));
  encode_rows(numbers, from.length(), dim, dtype, BorrowedArray(result, "result", true).uint8s(2));
  return result;
}

nb::object decoded(nb::handle values, uint32_t dtype, uint32_t dim) {
  const BorrowedArray from(values, "values");
  const char *bytes = from.uint8s(2);
  if (from.width() != DictionaryHeader::bytes_of_row(dtype, dim))
    throw std::invalid_argument("Argument 'values' must have rows of " +
                                std::to_string(DictionaryHeader::bytes_of_row(dtype, dim)) + " bytes but they have " +
                                std::to_string(from.width()));
  nb::object result = empty(float32_type, from.length(), dim);
  decode_rows(bytes, from.length(), dim, dtype, const_cast<float *>(BorrowedArray(result, "result", true).floats()));
  return result;
}

void bind_reading(nb::module_ &m) {
  auto field = [](auto member) { return [member](const Dictionary &d) { return d.header().*member; }; };
  nb::class_<Dictionary>(m, "Dictionary")
      .def(nb::new_([](const Path &path, uint64_t offset, std::optional<uint64_t> length, bool memory) {
             clickline::bind::NoGil release;
             return Dictionary::open({path.string(), offset, length, memory});
           }),
           nb::arg("path"), nb::kw_only(), nb::arg("offset") = 0, nb::arg("length") = nb::none(),
           nb::arg("memory") = false)
      .def_prop_ro("count", field(&DictionaryHeader::count))
      .def_prop_ro("deleted", field(&DictionaryHeader::deleted))
      .def_prop_ro("dtype", field(&DictionaryHeader::dtype))
      .def_prop_ro("dim", field(&DictionaryHeader::dim))
      .def_prop_ro("row_bytes", field(&DictionaryHeader::row_bytes))
      .def_prop_ro("first_bucket", field(&DictionaryHeader::first_bucket))
      .def_prop_ro("last_bucket", field(&DictionaryHeader::last_bucket))
      .def_prop_ro("path", &Dictionary::path)
      .def_prop_ro("file_bytes", &Dictionary::file_bytes)
      .def_prop_ro("resident_bytes", &Dictionary::resident_bytes)
      .def("lookup", &lookup<Dictionary>, nb::arg("keys"), nb::arg("out") = nb::none(), nb::arg("threads") = 1)
      .def("lookup_values", &lookup_values<Dictionary>, nb::arg("keys"))
      .def("keys", [](nb::handle self) {
        const auto keys = nb::cast<const Dictionary &>(self).keys();
        return view(self, keys.data(), {keys.size()});
      })
      .def("deleted_keys", [](nb::handle self) {
        const auto keys = nb::cast<const Dictionary &>(self).deleted_keys();
        return view(self, keys.data(), {keys.size()});
      })
      .def("values", &values)
      .def("verify", &Dictionary::verify, nb::call_guard<clickline::bind::NoGil>());
  nb::class_<Layers>(m, "Layers")
      .def(nb::new_([](const Dictionaries &layers) { return std::make_shared<Layers>(shared(layers)); }),
           nb::arg("layers"))
      .def_prop_ro("dtype", &Layers::dtype)
      .def_prop_ro("dim", &Layers::dim)
      .def_prop_ro("row_bytes", &Layers::row_bytes)
      .def_prop_ro("file_bytes", &Layers::file_bytes)
      .def_prop_ro("resident_bytes", &Layers::resident_bytes)
      .def("lookup", &lookup<Layers>, nb::arg("keys"), nb::arg("out") = nb::none(), nb::arg("threads") = 1)
      .def("lookup_values", &lookup_values<Layers>, nb::arg("keys"));
}

}  // namespace

void bind_dictionary(nb::module_ &m) {
  const nb::module_ numpy = nb::module_::import_("numpy");
  numpy_empty = numpy.attr("empty").inc_ref().ptr();
  const auto type = numpy.attr("dtype");
  uint8_type = type("uint8").release().ptr();
  uint64_type = type("uint64").release().ptr();
  float32_type = type("float32").release().ptr();
  nb::exception<DictionaryError>(m, "DictionaryError", PyExc_RuntimeError);
  bind_reading(m);
  m.def("write_dictionary", &write_from_arrays, nb::arg("path"), nb::arg("keys"), nb::arg("values"), nb::kw_only(),
        nb::arg("dtype"), nb::arg("dim"), nb::arg("deleted") = nb::none(), nb::arg("first_bucket") = 0,
        nb::arg("last_bucket") = kBuckets, nb::arg("threads") = 1);
  m.def("merge_dictionaries",
        [](const Path &path, const Dictionaries &layers, uint32_t first, uint32_t last, bool keep, int threads) {
          return written([&] { return merge_dictionaries(path.string(), shared(layers), first, last, keep, threads); });
        },
        nb::arg("path"), nb::arg("layers"), nb::kw_only(), nb::arg("first_bucket"), nb::arg("last_bucket"),
        nb::arg("keep_deleted"), nb::arg("threads") = 1);
  m.def("difference_dictionary",
        [](const Path &path, const Dictionaries &parent, const Dictionaries &made, int threads) {
          return written([&] { return difference_dictionary(path.string(), shared(parent), shared(made), threads); });
        },
        nb::arg("path"), nb::arg("parent"), nb::arg("new"), nb::kw_only(), nb::arg("threads") = 1);
  m.def("encode_rows", &encoded, nb::arg("rows"), nb::arg("dtype"));
  m.def("decode_rows", &decoded, nb::arg("values"), nb::arg("dtype"), nb::arg("dim"));
}
