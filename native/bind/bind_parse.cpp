// Python bindings of parse/parser.h: buffers in, numpy arrays that own their memory out.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <stdexcept>

#include "bind/python/gil.h"
#include "bind/python/views.h"
#include "parse/parser.h"

namespace nb = nanobind;
using namespace clickline::base;
using namespace clickline::parse;
using clickline::bind::View;
using clickline::bind::numpy_of;

namespace {

nb::object numpy_of_counts(const std::vector<uint64_t> &counts) {
  Array<uint64_t> copy(counts.size());
  std::copy(counts.begin(), counts.end(), copy.data());
  return numpy_of(std::move(copy), {counts.size()});
}

struct PyParsed {
  size_t n, lines, bad;
  nb::object labels, dense, keys, offsets, weights, times, groups, missing_slots, missing_dense;
  nb::list errors;

  PyParsed(ParsedRows &&p, const Layout &layout)
      : n(p.n), lines(p.lines), bad(p.bad), labels(numpy_of(std::move(p.labels), {p.n, layout.labels.size()})),
        dense(numpy_of(std::move(p.dense), {p.n, size_t{layout.dense_width}})),
        keys(numpy_of(std::move(p.keys), {p.keys_count})), offsets(nb::none()), weights(nb::none()), times(nb::none()),
        groups(nb::none()), missing_slots(numpy_of_counts(p.missing_slots)),
        missing_dense(numpy_of_counts(p.missing_dense)) {
    if (p.ragged) offsets = numpy_of(std::move(p.offsets), {p.n * layout.slots.size() + 1});
    if (p.weights.data()) weights = numpy_of(std::move(p.weights), {p.n});
    if (p.times.data()) times = numpy_of(std::move(p.times), {p.n});
    if (p.groups.data()) groups = numpy_of(std::move(p.groups), {p.n});
    for (const auto &[line, reason] : p.errors) {
      // The bad value may be any bytes.
      PyObject *text = PyUnicode_DecodeUTF8(reason.data(), static_cast<Py_ssize_t>(reason.size()), "backslashreplace");
      if (!text) throw nb::python_error();
      errors.append(nb::make_tuple(line, nb::steal(text)));
    }
  }
};

using SlotTuple = std::tuple<std::string, std::string, std::string, std::string, int64_t, bool>;
using DenseTuple = std::tuple<std::string, std::string, int64_t, std::string, double, double, double>;

void construct(Parser *self, std::string format, std::vector<std::string> columns, std::vector<std::string> labels,
               const std::vector<SlotTuple> &slots, const std::vector<DenseTuple> &dense, std::string weight,
               std::string time, std::string group, bool raw_keys, std::string delimiter, bool numeric_labels) {
  ParserSpec spec{.format = std::move(format), .columns = std::move(columns), .labels = std::move(labels), .slots = {},
                  .dense = {}, .weight = std::move(weight), .time = std::move(time), .group = std::move(group),
                  .raw_keys = raw_keys, .numeric_labels = numeric_labels, .delimiter = std::move(delimiter)};
  for (const auto &[name, column, bucket, separator, max_values, keep_last] : slots)
    spec.slots.push_back({name, column, bucket, separator, max_values, keep_last});
  for (const auto &[name, column, size, normalise, center, spread, missing] : dense)
    spec.dense.push_back({name, column, size, normalise, center, spread, missing});
  new (self) Parser(spec);
}

PyParsed parse(const Parser &self, nb::handle data) {
  const View view(data);
  const Bytes bytes = view.lent();
  std::optional<ParsedRows> parsed;
  {
    clickline::bind::NoGil unlocked;
    parsed = self.parse({bytes.data, bytes.size});
  }
  return PyParsed(std::move(*parsed), self.layout());
}

ArrowType kind_of(const std::string &name) {
  static const std::pair<const char *, ArrowType> kinds[] = {
      {"text32", ArrowType::text32}, {"text64", ArrowType::text64}, {"int64", ArrowType::int64},
      {"uint64", ArrowType::uint64}, {"float32", ArrowType::float32}, {"float64", ArrowType::float64},
      {"boolean", ArrowType::boolean}};
  for (const auto &[known, kind] : kinds)
    if (name == known) return kind;
  throw std::invalid_argument("kind must be text32, text64, int64, uint64, float32, float64 or boolean, got " +
                              quoted(name));
}

// name, kind, offset, length, validity, starts, values, list: None or (offset, validity, starts)
using ColumnTuple =
    std::tuple<std::string, std::string, size_t, size_t, nb::object, nb::object, nb::object, nb::object>;
using ListTuple = std::tuple<size_t, nb::object, nb::object>;

PyParsed parse_columns(const Parser &self, size_t rows, const std::vector<ColumnTuple> &given) {
  std::vector<View> views;
  std::vector<ArrowColumn> columns;
  const auto buffer = [&](nb::handle object) { return views.emplace_back(object).lent(); };
  for (const auto &[name, kind, offset, length, validity, starts, values, list] : given) {
    ArrowColumn &c = columns.emplace_back();
    c.name = name, c.kind = kind_of(kind), c.offset = offset, c.length = length;
    c.validity = buffer(validity), c.starts = buffer(starts), c.values = buffer(values);
    if (list.is_none()) continue;
    const auto [list_offset, list_validity, list_starts] = nb::cast<ListTuple>(list);
    c.listed = true, c.list_offset = list_offset;
    c.list_validity = buffer(list_validity), c.list_starts = buffer(list_starts);
  }
  std::optional<ParsedRows> parsed;
  {
    clickline::bind::NoGil unlocked;
    parsed = self.parse_columns(rows, columns);
  }
  return PyParsed(std::move(*parsed), self.layout());
}

}  // namespace

void bind_parse(nb::module_ &m) {
  nb::class_<PyParsed>(m, "Parsed")
      .def_ro("n", &PyParsed::n)
      .def_ro("lines", &PyParsed::lines)
      .def_ro("bad", &PyParsed::bad)
      .def_ro("labels", &PyParsed::labels)
      .def_ro("dense", &PyParsed::dense)
      .def_ro("keys", &PyParsed::keys)
      .def_ro("offsets", &PyParsed::offsets)
      .def_ro("weights", &PyParsed::weights)
      .def_ro("times", &PyParsed::times)
      .def_ro("groups", &PyParsed::groups)
      .def_ro("missing_slots", &PyParsed::missing_slots)
      .def_ro("missing_dense", &PyParsed::missing_dense)
      .def_ro("errors", &PyParsed::errors)
      .def("__len__", [](const PyParsed &self) { return self.n; });
  nb::class_<Parser>(m, "Parser")
      .def("__init__", &construct, nb::kw_only(), nb::arg("format"), nb::arg("columns"), nb::arg("labels"),
           nb::arg("slots"), nb::arg("dense"), nb::arg("weight"), nb::arg("time"), nb::arg("group"),
           nb::arg("raw_keys"), nb::arg("delimiter"), nb::arg("numeric_labels") = false)
      .def_prop_ro("columns", [](const Parser &self) {
        std::vector<std::string> names;
        for (const Column &column : self.layout().columns) names.push_back(column.name);
        return names;
      })
      .def("parse", &parse, nb::arg("data"))
      .def("parse_columns", &parse_columns, nb::arg("rows"), nb::arg("columns"));
}
