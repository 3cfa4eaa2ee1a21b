// Python bindings of base/hash.h.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string_view.h>

#include "base/hash.h"

namespace nb = nanobind;
using namespace clickline::base;

void bind_hash(nb::module_ &m) {
  m.def(
      "xxh64", [](nb::bytes data, uint64_t seed) { return xxh64({data.c_str(), data.size()}, seed); },
      nb::arg("data"), nb::arg("seed") = 0);
  m.def(
      "feature_key", [](std::string_view slot, nb::bytes value) {
        return feature_key(slot_seed(slot), {value.c_str(), value.size()});
      },
      nb::arg("slot"), nb::arg("value"));
  m.def("bucket_of", &bucket_of, nb::arg("key"));
}
