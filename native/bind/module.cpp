// The Python module clickline._native: one bind_*.cpp per area, put together here.
#include <nanobind/nanobind.h>

#include <string>

namespace nb = nanobind;

void bind_hash(nb::module_ &m);
void bind_table(nb::module_ &m);
void bind_parse(nb::module_ &m);
void bind_plan(nb::module_ &m);

NB_MODULE(_native, m) {
#if defined(__x86_64__)
  if (std::string(CLICKLINE_ARCH) == "x86-64-v3" && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")))
    throw nb::import_error("clickline was built for x86-64-v3 but this CPU has no AVX2/FMA; "
                           "rebuild with CMAKE_ARGS=-DCLICKLINE_ARCH=x86-64-v2");
#endif
  nb::set_leak_warnings(false);  // daemon threads may hold objects when the interpreter ends
  m.attr("arch") = CLICKLINE_ARCH;
  bind_hash(m);
  bind_table(m);
  bind_parse(m);
  bind_plan(m);
}
