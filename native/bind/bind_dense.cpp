// Python bindings of pserver/dense_optimizer.h, and of base/half.h for arrays that travel in two bytes.
#include <nanobind/stl/string_view.h>

#include <string_view>

#include "base/half.h"
#include "bind/python/arrays.h"
#include "bind/python/gil.h"
#include "pserver/dense_optimizer.h"

namespace nb = nanobind;
using namespace clickline::base;
using namespace clickline::bind;
using namespace clickline::pserver;

namespace {

float *numbers(const Output &array, const char *name, const Input &gradient) {
  return checked<float>(array, name, {static_cast<int64_t>(gradient.size())});
}

bool is_fp16(std::string_view wire) {
  if (wire != "fp16" && wire != "bf16")
    throw std::invalid_argument("wire must be fp16 or bf16, got '" + std::string(wire) + "'");
  return wire == "fp16";
}

void narrow(const Input &numbers, const Output &out, std::string_view wire) {
  auto *from = checked<float>(numbers, "numbers", {kAny});
  auto *to = checked<uint16_t>(out, "out", {static_cast<int64_t>(numbers.size())});
  const bool fp16 = is_fp16(wire);
  without_lock(numbers.size(), [&] { fp16 ? to_fp16(from, to, numbers.size()) : to_bf16(from, to, numbers.size()); });
}

void widen(const Input &halves, const Output &out, std::string_view wire) {
  auto *from = checked<uint16_t>(halves, "halves", {kAny});
  auto *to = checked<float>(out, "out", {static_cast<int64_t>(halves.size())});
  const bool fp16 = is_fp16(wire);
  without_lock(halves.size(), [&] { fp16 ? from_fp16(from, to, halves.size()) : from_bf16(from, to, halves.size()); });
}

}  // namespace

void bind_dense(nb::module_ &m) {
  m.def(
      "dense_sgd",
      [](const Output &values, const Input &gradient, double learning_rate, double weight_decay) {
        auto *g = checked<float>(gradient, "gradient", {kAny});
        auto *w = numbers(values, "values", gradient);
        without_lock(gradient.size(), [&] { dense_sgd(w, g, gradient.size(), {learning_rate, weight_decay}); });
      },
      nb::arg("values"), nb::arg("gradient"), nb::kw_only(), nb::arg("learning_rate"), nb::arg("weight_decay"));
  m.def(
      "dense_adagrad",
      [](const Output &values, const Output &sums, const Input &gradient, double learning_rate, double weight_decay) {
        auto *g = checked<float>(gradient, "gradient", {kAny});
        auto *w = numbers(values, "values", gradient), *s = numbers(sums, "sums", gradient);
        without_lock(gradient.size(), [&] { dense_adagrad(w, s, g, gradient.size(), {learning_rate, weight_decay}); });
      },
      nb::arg("values"), nb::arg("sums"), nb::arg("gradient"), nb::kw_only(), nb::arg("learning_rate"),
      nb::arg("weight_decay"));
  m.def(
      "dense_adam",
      [](const Output &values, const Output &means, const Output &squares, const Input &gradient, double step,
         bool decoupled, double learning_rate, double weight_decay) {
        auto *g = checked<float>(gradient, "gradient", {kAny});
        auto *w = numbers(values, "values", gradient), *a = numbers(means, "means", gradient);
        auto *s = numbers(squares, "squares", gradient);
        without_lock(gradient.size(), [&] {
          dense_adam(w, a, s, g, gradient.size(), step, decoupled, {learning_rate, weight_decay});
        });
      },
      nb::arg("values"), nb::arg("means"), nb::arg("squares"), nb::arg("gradient"), nb::kw_only(), nb::arg("step"),
      nb::arg("decoupled"), nb::arg("learning_rate"), nb::arg("weight_decay"));
  m.def(
      "dense_average",
      [](const Output &average, const Input &values, double share) {
        auto *from = checked<float>(values, "values", {kAny});
        auto *to = numbers(average, "average", values);
        without_lock(values.size(), [&] { dense_average(to, from, values.size(), share); });
      },
      nb::arg("average"), nb::arg("values"), nb::kw_only(), nb::arg("share"));
  m.def("narrow", &narrow, nb::arg("numbers"), nb::arg("out"), nb::kw_only(), nb::arg("wire"));
  m.def("widen", &widen, nb::arg("halves"), nb::arg("out"), nb::kw_only(), nb::arg("wire"));
}
