// Python bindings of cube/row_cache.h, and a histogram of predictions. Both are used with Python's lock held:
// releasing it takes longer than their work for a batch.
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <vector>

#include "bind/python/arrays.h"
#include "bind/python/views.h"
#include "cube/row_cache.h"
#include "parse/row_builder.h"

namespace nb = nanobind;
using namespace clickline::parse;
using namespace clickline::cube;
using namespace clickline::bind;

namespace {

// Adds to counters in the caller's array: one for each bucket, one for values above the last, then the sum of all.
class Histogram {
 public:
  Histogram(Output numbers, std::vector<double> bounds) : numbers_(std::move(numbers)), bounds_(std::move(bounds)) {
    counts_ = checked<double>(numbers_, "numbers", {static_cast<int64_t>(bounds_.size()) + 2});
    if (!std::is_sorted(bounds_.begin(), bounds_.end())) throw std::invalid_argument("bounds must grow");
  }

  void add(const Input &values) {
    const float *data = checked<float>(values, "values", {kAny}, true);
    const auto stride = values.stride(0);
    double sum = 0;
    for (size_t i = 0; i < values.shape(0); ++i) {
      const double value = static_cast<double>(data[static_cast<int64_t>(i) * stride]);
      counts_[std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin()] += 1;
      sum += value;
    }
    counts_[bounds_.size() + 1] += sum;
  }

 private:
  Output numbers_;   // keeps the memory alive
  std::vector<double> bounds_;
  double *counts_ = nullptr;
};

nb::object lookup(RowCache &self, const Input &keys, const Output &rows, const Output &missing) {
  const auto count = static_cast<int64_t>(keys.size());
  const std::vector<int64_t> unknown =
      self.lookup(checked<uint64_t>(keys, "keys", {kAny}), keys.size(),
                  checked<float>(rows, "rows", {count, static_cast<int64_t>(self.dim())}),
                  checked<uint8_t>(missing, "missing", {count}));
  Array<int64_t> places(unknown.size());
  std::copy(unknown.begin(), unknown.end(), places.data());
  return numpy_of(std::move(places), {unknown.size()});
}

void insert(RowCache &self, const Input &keys, const Input &rows, const Input &missing) {
  const auto count = static_cast<int64_t>(keys.size());
  self.insert(checked<uint64_t>(keys, "keys", {kAny}), keys.size(),
              checked<float>(rows, "rows", {count, static_cast<int64_t>(self.dim())}),
              checked<uint8_t>(missing, "missing", {count}));
}

}  // namespace

void bind_serving(nb::module_ &m) {
  nb::class_<Histogram>(m, "Histogram")
      .def(nb::init<Output, std::vector<double>>(), nb::arg("numbers"), nb::arg("bounds"))
      .def("add", &Histogram::add, nb::arg("values"));
  nb::class_<RowCache>(m, "RowCache")
      .def(nb::init<size_t, size_t>(), nb::kw_only(), nb::arg("bytes"), nb::arg("dim"))
      .def_prop_ro("capacity", &RowCache::capacity)
      .def("__len__", &RowCache::size)
      .def("lookup", &lookup, nb::arg("keys"), nb::arg("rows"), nb::arg("missing"))
      .def("insert", &insert, nb::arg("keys"), nb::arg("rows"), nb::arg("missing"));
}
