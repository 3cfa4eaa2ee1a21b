// Python bindings of request/parse_request.h and json.h: the bytes of a request in, the arrays of its rows out.
//
// Small requests are read with Python's lock held: to let go of it and get it back takes longer than reading them as
// soon as another thread waits for it.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "bind/python/buffers.h"
#include "bind/python/gil.h"
#include "bind/python/views.h"
#include "request/parse_request.h"
#include "request/request_rows.h"

namespace nb = nanobind;
using namespace clickline::parse;
using namespace clickline::request;
using clickline::bind::numpy_of;
using clickline::bind::View;

namespace {

constexpr size_t kSmall = 64 * 1024;   // bytes

PyObject *refused_type;   // lives as long as the module

nb::object text_of(std::string_view bytes) {   // may be any bytes where a message quotes them
  PyObject *text = PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "backslashreplace");
  if (!text) throw nb::python_error();
  return nb::steal(text);
}

nb::object bytes_or_none(std::string_view bytes) {
  return bytes.empty() ? nb::none() : nb::object(nb::bytes(bytes.data(), bytes.size()));
}

void translate(const std::exception_ptr &error, void *) {
  try {
    std::rethrow_exception(error);
  } catch (const Refused &refused) {
    nb::list further;
    for (const Mistake &one : refused.further)
      further.append(nb::make_tuple(one.reason, text_of(one.message), text_of(one.name)));
    const nb::tuple args = nb::make_tuple(refused.reason, text_of(refused.what()), text_of(refused.name),
                                          nb::tuple(further), refused.stopped);
    PyErr_SetObject(refused_type, args.ptr());
  }
}

// Values that the rows lack, counted by column: one that is read as a slot and as a dense feature is one for a client.
uint64_t missing_values(const ParsedRows &parsed, const Layout &layout) {
  uint64_t missing = 0;
  for (const Column &column : layout.columns) {
    uint64_t most = 0;
    for (const Use use : column.uses) {
      if (use.purpose == Purpose::slot) most = std::max(most, parsed.missing_slots[use.index]);
      if (use.purpose == Purpose::dense) most = std::max(most, parsed.missing_dense[use.index]);
    }
    missing += most;
  }
  return missing;
}

// rows, dense, keys, offsets or None, how many values were missing
template <class Read>
nb::tuple rows_of(const Parser &parser, size_t size, Read read) {
  std::optional<ParsedRows> parsed;
  if (size < kSmall) {
    parsed = read();
  } else {
    clickline::bind::NoGil unlocked;
    parsed = read();
  }
  ParsedRows &p = *parsed;
  const Layout &layout = parser.layout();
  nb::object offsets = nb::none();
  if (p.ragged) offsets = numpy_of(std::move(p.offsets), {p.n * layout.slots.size() + 1});
  const uint64_t missing = missing_values(p, layout);
  return nb::make_tuple(p.n, numpy_of(std::move(p.dense), {p.n, size_t{layout.dense_width}}),
                        numpy_of(std::move(p.keys), {p.keys_count}), offsets, missing);
}

nb::tuple rows_of_json(const Parser &self, nb::handle body, size_t most_rows) {
  const View view(body);
  return rows_of(self, view.bytes().size(), [&] { return parse_json(self, view.bytes(), most_rows); });
}

nb::tuple rows_of_feasigns(const Parser &self, nb::handle body, size_t most_rows) {
  const View view(body);
  return rows_of(self, view.bytes().size(), [&] { return parse_feasigns(self, view.bytes(), most_rows); });
}

// Tensors and what their views look into.
struct PyTensors {
  PyTensors() = default;
  PyTensors(const PyTensors &) = delete;
  PyTensors(PyTensors &&) = default;

  Tensors tensors;
  std::vector<View> views;
  std::vector<nb::object> held;
  size_t size = 0;   // about so many bytes
};

nb::tuple rows_of_tensors(const Parser &self, const PyTensors &inputs, size_t most_rows) {
  return rows_of(self, inputs.size, [&] { return parse_tensors(self, inputs.tensors, most_rows); });
}

nb::tuple infer_request(nb::handle body, std::optional<size_t> header_length) {
  PyTensors inputs;
  const std::string_view bytes = inputs.views.emplace_back(body).bytes();
  if (header_length && *header_length > bytes.size())
    throw Refused("malformed", "The header Inference-Header-Content-Length is " + std::to_string(*header_length) +
                                   ", but the body has only " + std::to_string(bytes.size()) + " bytes");
  std::optional<std::string_view> binary;
  if (header_length) binary = bytes.substr(*header_length);
  InferRequest request = read_infer_request(bytes.substr(0, header_length.value_or(bytes.size())), binary);
  inputs.tensors = std::move(request.tensors);
  inputs.size = bytes.size();
  return nb::make_tuple(nb::cast(std::move(inputs)), bytes_or_none(request.id), bytes_or_none(request.outputs),
                        bytes_or_none(request.parameters));
}

std::string_view utf8_of(nb::handle text) {
  Py_ssize_t size;
  const char *data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (!data) throw nb::python_error();
  return {data, static_cast<size_t>(size)};
}

JsonValue integer_of(PyObject *object) {
  JsonValue value{.kind = JsonValue::Kind::whole, .whole = 0, .text = "an integer"};
  int overflow;
  value.whole = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow > 0) {
    value.kind = JsonValue::Kind::natural;
    value.natural = PyLong_AsUnsignedLongLong(object);
  }
  if (overflow < 0 || PyErr_Occurred()) {
    PyErr_Clear();
    throw Refused("wrong_type", "An input holds a number of more than 64 bits");
  }
  return value;
}

JsonValue number_of(double number) {
  const bool finite = std::isfinite(number);
  return {.kind = finite ? JsonValue::Kind::number : JsonValue::Kind::not_finite,
          .number = number,
          .text = finite ? "a fraction" : std::isnan(number) ? "nan" : number < 0 ? "-inf" : "inf"};
}

// Values of a list, nested as deeply as its shape may be; each text is held, since the list may change.
void add_values(PyTensors &inputs, Tensor &tensor, nb::handle list, int depth) {
  const nb::object fast = nb::steal(PySequence_Fast(list.ptr(), "the data of an input must be bytes or a list"));
  if (!fast.is_valid()) throw nb::python_error();
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.ptr()); ++i) {
    PyObject *item = PySequence_Fast_GET_ITEM(fast.ptr(), i);
    if (tensor.values.size() == Tensors::kMostValues)
      throw Refused("too_large", "More than " + std::to_string(Tensors::kMostValues) + " values in a list; pack them");
    if (item == Py_None) {
      tensor.values.push_back({.kind = JsonValue::Kind::null, .whole = 0, .text = "null"});
    } else if (PyBool_Check(item)) {
      const bool so = item == Py_True;
      tensor.values.push_back({.kind = JsonValue::Kind::boolean, .boolean = so, .text = so ? "true" : "false"});
    } else if (PyLong_Check(item)) {
      tensor.values.push_back(integer_of(item));
    } else if (PyFloat_Check(item)) {
      tensor.values.push_back(number_of(PyFloat_AS_DOUBLE(item)));
    } else if (PyUnicode_Check(item) || PyBytes_Check(item)) {
      inputs.held.push_back(nb::borrow(item));
      const std::string_view text = PyUnicode_Check(item)
          ? utf8_of(item)
          : std::string_view(PyBytes_AS_STRING(item), static_cast<size_t>(PyBytes_GET_SIZE(item)));
      tensor.values.push_back({.kind = JsonValue::Kind::text, .whole = 0, .text = text});
    } else if ((PyList_Check(item) || PyTuple_Check(item)) && depth < 8) {
      add_values(inputs, tensor, item, depth + 1);
    } else {
      throw Refused("wrong_type", "Input " + quoted(tensor.name) + " holds a " + Py_TYPE(item)->tp_name);
    }
  }
}

// Each: name, datatype, shape, data (bytes or a list), and None or where each row's values start.
void construct(PyTensors *self, nb::iterable given) {
  new (self) PyTensors();
  for (nb::handle item : given) {
    const auto tuple = nb::cast<nb::tuple>(item);
    if (tuple.size() != 5) throw std::invalid_argument("an input is (name, datatype, shape, data, starts)");
    self->held.push_back(tuple[0]);
    Tensor tensor;
    tensor.name = utf8_of(tuple[0]);
    tensor.kind = tensor_kind(utf8_of(tuple[1]), tensor.name);
    for (nb::handle size : tuple[2]) {
      const JsonValue value = integer_of(size.ptr());
      if (value.kind != JsonValue::Kind::whole || value.whole < 0)
        throw Refused("wrong_shape", "Input " + quoted(tensor.name) + " has a size below 0 in its shape");
      tensor.add_dimension(static_cast<uint64_t>(value.whole));
    }
    const nb::object data = tuple[3], starts = tuple[4];
    if (PyObject_CheckBuffer(data.ptr())) {
      tensor.packed = true, tensor.data = self->views.emplace_back(data).lent();
      self->size += tensor.data.size;
    } else {
      add_values(*self, tensor, data, 1);
      self->size += tensor.values.size() * sizeof(JsonValue);
    }
    if (!starts.is_none())
      for (nb::handle start : starts) tensor.starts.push_back(integer_of(start.ptr()).whole);
    self->tensors.inputs.push_back(std::move(tensor));
  }
}

nb::list names(const PyTensors &self) {
  nb::list out;
  for (const Tensor &tensor : self.tensors.inputs) out.append(text_of(tensor.name));
  return out;
}

std::optional<std::string> member(nb::handle body, const std::string &name) {
  const View view(body);
  return json_member(view.bytes(), name);
}

nb::bytes json_floats(nb::handle array) {
  const clickline::bind::BorrowedArray buffer(array, "array");
  const float *numbers = buffer.floats();
  std::string out = "[";
  for (size_t i = 0; i < buffer.length() * buffer.width(); ++i) {
    if (i) out += ',';
    append_json(out, numbers[i]);
  }
  out += ']';
  return nb::bytes(out.data(), out.size());
}

}  // namespace

void bind_requests(nb::module_ &m) {
  nb::object type = nb::steal(PyErr_NewExceptionWithDoc(
      "clickline._native.Refused", "A request that cannot be read. Arguments: reason, message, the unknown "
      "feature, the same of further mistakes, whether there may be more.",
      PyExc_ValueError, nullptr));
  refused_type = type.ptr();
  m.attr("Refused") = type;
  type.release();
  nb::register_exception_translator(translate);

  nb::class_<PyTensors>(m, "Tensors")
      .def("__init__", &construct, nb::arg("inputs"))
      .def("__len__", [](const PyTensors &self) { return self.tensors.inputs.size(); })
      .def_prop_ro("names", &names);
  m.def("read_infer_request", &infer_request, nb::arg("body"), nb::arg("header_length").none());
  m.def("json_member", &member, nb::arg("body"), nb::arg("name"));
  m.def("json_floats", &json_floats, nb::arg("array"));

  const nb::object parser = m.attr("Parser");
  const auto method = [&](const char *name, auto function, const char *first) {
    nb::cpp_function_def(function, nb::scope(parser), nb::name(name), nb::is_method(), nb::arg(first),
                         nb::arg("most_rows"));
  };
  method("parse_json", &rows_of_json, "body");
  method("parse_feasigns", &rows_of_feasigns, "body");
  method("parse_tensors", &rows_of_tensors, "tensors");
}
