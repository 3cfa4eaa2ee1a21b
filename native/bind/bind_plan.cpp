// Python bindings of plan/plan.h. Arrays it returns are views that keep the plan alive.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <vector>

#include "bind/python/arrays.h"
#include "bind/python/gil.h"
#include "plan/plan.h"

namespace nb = nanobind;
using namespace clickline::plan;
using namespace clickline::bind;

namespace {

void make_plan(Plan *self, const Input &keys, const std::optional<Input> &offsets, int64_t columns,
               const std::vector<int64_t> &select, const std::vector<int64_t> &pooling, const Input &labels,
               int64_t sequence_length, int threads) {
  if (columns < 1) throw std::invalid_argument("columns must be 1 to 65536, got " + std::to_string(columns));
  PlanInput input{.keys = {checked<uint64_t>(keys, "keys", {kAny}), keys.size()},
                  .offsets = {},
                  .columns = static_cast<size_t>(columns),
                  .select = select,
                  .pooling = pooling,
                  .labels = checked<float>(labels, "labels", {kAny}, true),
                  .rows = labels.shape(0),
                  .label_stride = labels.stride(0),
                  .sequence_length = sequence_length,
                  .threads = threads};
  if (offsets) {
    input.offsets = {checked<int64_t>(*offsets, "offsets", {kAny}), offsets->size()};
    if (input.offsets.empty()) throw std::invalid_argument("offsets must have rows * columns + 1 entries, got none");
  }
  without_lock(keys.size(), [&] { new (self) Plan(input); });
}

template <class T>
auto view(nb::handle self, std::span<const T> values) {
  return nb::ndarray<nb::numpy, T, nb::ndim<1>>(const_cast<T *>(values.data()), {values.size()}, self);
}

template <class T, std::span<const T> (Plan::*Values)() const>
auto view_of(nb::handle self) {
  return view(self, (nb::cast<const Plan &>(self).*Values)());
}

int64_t width_of(const Plan &plan, const Input &rows) {
  checked<float>(rows, "rows", {static_cast<int64_t>(plan.unique().size()), kAny});
  if (rows.shape(1) == 0) throw std::invalid_argument("rows must be at least 1 wide, got " + describe(rows));
  return static_cast<int64_t>(rows.shape(1));
}

void refuse_overlap(const Output &out, const Input &other, const char *name) {
  auto *a = static_cast<const char *>(out.data()), *b = static_cast<const char *>(other.data());
  if (a < b + other.nbytes() && b < a + out.nbytes())
    throw std::invalid_argument(std::string("out must not share memory with ") + name);
}

void check_threads(int threads) {
  if (threads < 1) throw std::invalid_argument("threads must be at least 1, got " + std::to_string(threads));
}

void gather(const Plan &plan, const Input &rows, const Output &out, int threads) {
  const int64_t dim = width_of(plan, rows), n = static_cast<int64_t>(plan.rows());
  auto *from = checked<float>(rows, "rows", {kAny, dim});
  auto *to = checked<float>(out, "out", {n, static_cast<int64_t>(plan.places()), dim});
  refuse_overlap(out, rows, "rows");
  check_threads(threads);
  without_lock(plan.occurrences(), [&] { plan.gather(from, static_cast<size_t>(dim), to, threads); });
}

void scatter(const Plan &plan, const Input &grad, const Input &rows, const Output &out, int threads) {
  const int64_t dim = width_of(plan, rows), n = static_cast<int64_t>(plan.rows());
  auto *from = checked<float>(grad, "grad", {n, static_cast<int64_t>(plan.places()), dim});
  auto *values = checked<float>(rows, "rows", {kAny, dim});
  auto *to = checked<float>(out, "out", {static_cast<int64_t>(plan.unique().size()), dim});
  refuse_overlap(out, rows, "rows");
  refuse_overlap(out, grad, "grad");
  check_threads(threads);
  NoGil released;
  plan.scatter(from, values, static_cast<size_t>(dim), to, threads);
}

}  // namespace

void bind_plan(nb::module_ &m) {
  nb::class_<Plan>(m, "Plan")
      .def("__init__", &make_plan, nb::arg("keys"), nb::arg("offsets").none(), nb::arg("columns"), nb::arg("select"),
           nb::arg("pooling"), nb::arg("labels"), nb::arg("sequence_length") = 0, nb::arg("threads") = 1)
      .def("__len__", [](const Plan &plan) { return plan.unique().size(); })
      .def_prop_ro("unique", &view_of<uint64_t, &Plan::unique>)
      .def_prop_ro("slots", &view_of<uint16_t, &Plan::slots>)
      .def_prop_ro("shows", &view_of<float, &Plan::shows>)
      .def_prop_ro("clicks", &view_of<float, &Plan::clicks>)
      .def_prop_ro("lengths",
                   [](nb::handle self) {
                     const auto &plan = nb::cast<const Plan &>(self);
                     if (!plan.sequence_length())
                       throw std::invalid_argument("only a plan with sequence_length > 0 has lengths");
                     return view(self, plan.lengths());
                   })
      .def("gather", &gather, nb::arg("rows"), nb::arg("out"), nb::arg("threads") = 1)
      .def("scatter", &scatter, nb::arg("grad"), nb::arg("rows"), nb::arg("out"), nb::arg("threads") = 1);
}
