// Python bindings of compat/sequence_file.h: chunks as numpy arrays.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>

#include <cstring>
#include <mutex>
#include <optional>

#include "bind/python/arrays.h"
#include "bind/python/gil.h"
#include "compat/sequence_file.h"

namespace nb = nanobind;
using namespace clickline::compat;
using clickline::bind::checked;
using clickline::bind::Input;
using clickline::bind::kAny;

namespace {

// One thread at a time: both reader and writer stand somewhere in their file.
struct PyReader {
  SequenceReader file;
  std::mutex turn;
  explicit PyReader(const std::string &path) : file(path) {}
};

struct PyWriter {
  SequenceWriter file;
  std::mutex turn;
  PyWriter(const std::string &path, const SyncMark &sync) : file(path, sync) {}
};

template <class T, class Container>
nb::object numpy_of(Container &&items) {
  auto *kept = new Container(std::move(items));
  nb::capsule owner(kept, [](void *p) noexcept { delete static_cast<Container *>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T>(kept->data(), {kept->size()}, owner));
}

nb::object next_chunk(PyReader &self, uint64_t records, uint64_t max_bytes) {
  if (!records) throw std::invalid_argument("records must be at least 1, got 0");
  SequenceChunk chunk;
  {
    clickline::bind::NoGil unlocked;
    std::lock_guard lock(self.turn);
    chunk = self.file.read(records, max_bytes);
  }
  if (chunk.keys.empty()) return nb::none();
  return nb::make_tuple(numpy_of<uint64_t>(std::move(chunk.keys)), numpy_of<uint64_t>(std::move(chunk.offsets)),
                        numpy_of<uint8_t>(std::move(chunk.bytes)));
}

void construct(PyWriter *self, const std::filesystem::path &path, nb::bytes sync) {
  if (sync.size() != 16)
    throw std::invalid_argument("sync must have 16 bytes, got " + std::to_string(sync.size()));
  SyncMark mark;
  std::memcpy(mark.data(), sync.c_str(), 16);
  new (self) PyWriter(path.string(), mark);
}

void append_chunk(PyWriter &self, Input keys, Input values, std::optional<Input> offsets) {
  const uint64_t *key = checked<uint64_t>(keys, "keys", {kAny});
  const size_t count = keys.shape(0);
  const auto n = static_cast<int64_t>(count);
  const auto *bytes = reinterpret_cast<const char *>(offsets ? checked<uint8_t>(values, "values", {kAny})
                                                             : checked<uint8_t>(values, "values", {n, kAny}));
  const uint64_t *start = offsets ? checked<uint64_t>(*offsets, "offsets", {n + 1}) : nullptr;
  const uint64_t width = offsets ? 0 : values.shape(1);
  clickline::bind::NoGil unlocked;
  if (start)  // all of them first, so that a wrong one leaves no half of a chunk behind
    for (size_t i = 0; i <= count; ++i)
      if (start[i] > values.shape(0) || (i && start[i] < start[i - 1]))
        throw std::invalid_argument("offsets must ascend within " + std::to_string(values.shape(0)) +
                                    " bytes of values, got " + std::to_string(start[i]) + " at " + std::to_string(i));
  std::lock_guard lock(self.turn);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t begin = start ? start[i] : i * width, end = start ? start[i + 1] : begin + width;
    self.file.append(key[i], {bytes + begin, end - begin});
  }
}

void translate(const std::exception_ptr &error, void *) {
  try {
    std::rethrow_exception(error);
  } catch (const SequenceFileError &e) {
    // A path may be any bytes.
    PyObject *text = PyUnicode_DecodeUTF8(e.what(), static_cast<Py_ssize_t>(std::strlen(e.what())), "backslashreplace");
    PyErr_SetObject(nb::module_::import_("clickline.errors").attr("DataError").ptr(), text);
    Py_XDECREF(text);
  }
}

}  // namespace

void bind_sequence(nb::module_ &m) {
  nb::register_exception_translator(translate);
  nb::class_<PyReader>(m, "SequenceReader")
      .def("__init__", [](PyReader *self, const std::filesystem::path &path) { new (self) PyReader(path.string()); },
           nb::arg("path"))
      .def("read", &next_chunk, nb::arg("records") = 65536, nb::arg("max_bytes") = 16 << 20)
      .def_prop_ro("position", [](const PyReader &self) { return self.file.position(); })
      .def_prop_ro("size", [](const PyReader &self) { return self.file.size(); })
      .def_prop_ro("sync", [](const PyReader &self) { return nb::bytes(self.file.sync().data(), 16); });
  nb::class_<PyWriter>(m, "SequenceWriter")
      .def("__init__", &construct, nb::arg("path"), nb::kw_only(), nb::arg("sync"))
      .def("append", &append_chunk, nb::arg("keys").noconvert(), nb::arg("values").noconvert(),
           nb::arg("offsets").noconvert() = nb::none())
      .def("finish", [](PyWriter &self) {
        std::lock_guard lock(self.turn);
        self.file.finish();
      }, nb::call_guard<clickline::bind::NoGil>())
      .def_prop_ro("records", [](const PyWriter &self) { return self.file.records(); });
}
