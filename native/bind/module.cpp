// The Python module clickline._native: one bind_*.cpp per area, put together here.
#include <nanobind/nanobind.h>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <string>

namespace nb = nanobind;

void bind_hash(nb::module_ &m);
void bind_table(nb::module_ &m);
void bind_parse(nb::module_ &m);
void bind_requests(nb::module_ &m);
void bind_plan(nb::module_ &m);
void bind_dense(nb::module_ &m);
void bind_wire(nb::module_ &m);
void bind_lane(nb::module_ &m);
void bind_sequence(nb::module_ &m);
void bind_dictionary(nb::module_ &m);
void bind_cube(nb::module_ &m);
void bind_serving(nb::module_ &m);

NB_MODULE(_native, m) {
#if defined(__x86_64__)
  if (std::string(CLICKLINE_ARCH) == "x86-64-v3" && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")))
    throw nb::import_error("clickline was built for x86-64-v3 but this CPU has no AVX2/FMA; "
                           "rebuild with CMAKE_ARGS=-DCLICKLINE_ARCH=x86-64-v2");
#endif
#if defined(__GLIBC__)
  // A step allocates the same arrays of some MB again and again. By default the C library gives such memory back to the
  // kernel at once and gets it anew, page by page: half the cost of parsing. Keep it instead.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
  nb::set_leak_warnings(false);  // daemon threads may hold objects when the interpreter ends
  m.attr("arch") = CLICKLINE_ARCH;
  bind_hash(m);
  bind_table(m);
  bind_parse(m);
  bind_requests(m);
  bind_plan(m);
  bind_dense(m);
  bind_wire(m);
  bind_lane(m);
  bind_sequence(m);
  bind_dictionary(m);
  bind_cube(m);
  bind_serving(m);
}
