// Python bindings of table/table.h. Arrays are taken as they are or refused, never converted: a silent copy of `out`
// would be lost, and one of the inputs would cost more than the call.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <tuple>

#include "bind/python/gil.h"
#include "dictionary/writer.h"
#include "table/file/header.h"
#include "table/table.h"

namespace nb = nanobind;
using namespace clickline::base;
using namespace clickline::table;
using namespace clickline::dictionary;

namespace {

template <class T>
using Vector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ConstMatrix = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Keys = Vector<const uint64_t>;
using PolicyTuple = std::tuple<uint32_t, double, uint64_t, double, double, double>;

std::span<const uint64_t> span_of(const Keys &keys) { return {keys.data(), keys.shape(0)}; }

void check_length(const char *name, size_t got, const Keys &keys) {
  if (got != keys.shape(0))
    throw std::invalid_argument(std::string("Argument '") + name + "' must have one entry for each of the " +
                                std::to_string(keys.shape(0)) + " keys but has " + std::to_string(got));
}

template <class M>
void check_rows(const char *name, const M &rows, const Keys &keys, const Table &table) {
  check_length(name, rows.shape(0), keys);
  if (rows.shape(1) != table.layout().dim)
    throw std::invalid_argument(std::string("Argument '") + name + "' must have " +
                                std::to_string(table.layout().dim) + " columns but has " +
                                std::to_string(rows.shape(1)));
}

uint32_t tick_of(const char *name, int64_t value) {
  if (value < 0 || value > int64_t{0xFFFFFFFF})
    throw std::invalid_argument(std::string("Argument '") + name + "' must be 0 to 4294967295 but got " +
                                std::to_string(value));
  return static_cast<uint32_t>(value);
}

// A new numpy array that owns its memory; `fill` runs without the GIL.
template <class T, class Fill>
nb::object array(std::initializer_list<size_t> shape, Fill fill) {
  size_t size = 1;
  for (size_t n : shape) size *= n;
  auto values = std::make_unique<T[]>(size);
  {
    clickline::bind::NoGil release;
    fill(values.get());
  }
  T *data = values.release();
  nb::capsule owner(data, [](void *p) noexcept { delete[] static_cast<T *>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T>(data, shape, owner));
}

void make(Table *place, uint32_t dim, std::string optimizer, double learning_rate, double l1, double l2,
          double weight_decay, double beta1, double beta2, double epsilon, double initial, double clip,
          double init_scale, uint64_t seed, const std::vector<PolicyTuple> &policies) {
  TableConfig config{dim, {optimizer, learning_rate, l1, l2, weight_decay, beta1, beta2, epsilon, initial, clip},
                     init_scale, seed, {}};
  for (const auto &[count, probability, unseen_for, min_score, show_weight, click_weight] : policies)
    config.policies.push_back({count, probability, unseen_for, min_score, show_weight, click_weight});
  new (place) Table(std::move(config));
}

void pull(const Table &table, Keys keys, Matrix out, bool training, std::optional<Vector<const uint16_t>> slots,
          int threads) {
  check_rows("out", out, keys, table);
  if (slots) check_length("slots", slots->shape(0), keys);
  const uint16_t *columns = slots ? slots->data() : nullptr;
  clickline::bind::NoGil release;
  table.pull(span_of(keys), out.data(), training, columns, threads);
}

void push(Table &table, Keys keys, ConstMatrix grads, Vector<const float> shows, Vector<const float> clicks,
          Vector<const uint16_t> slots, int64_t tick, double scale, int threads) {
  check_rows("grads", grads, keys, table);
  check_length("shows", shows.shape(0), keys);
  check_length("clicks", clicks.shape(0), keys);
  check_length("slots", slots.shape(0), keys);
  const Push step{span_of(keys), grads.data(), shows.data(), clicks.data(), slots.data(), tick_of("tick", tick), scale};
  clickline::bind::NoGil release;
  table.push(step, threads);
}

// `width` floats of each row, from its weights on by `from`; zeros where there is no row.
nb::object floats(const Table &table, const Keys &keys, size_t from, size_t width) {
  return array<float>({keys.shape(0), width}, [&](float *out) {
    table.look_up(span_of(keys), [&](size_t i, const RowHeader &row) {
      std::copy_n(row.weights() + from, width, out + i * width);
    }, [](size_t) {});
  });
}

template <class M>
void check_whole(const char *name, const M &rows, const Keys &keys, const Table &table) {
  check_length(name, rows.shape(0), keys);
  const size_t width = table.layout().dim + table.layout().state_width;
  if (rows.shape(1) != width)
    throw std::invalid_argument(std::string("Argument '") + name + "' must have " + std::to_string(width) +
                                " columns, weights and state, but has " + std::to_string(rows.shape(1)));
}

nb::object read_whole(const Table &table, Keys keys) {
  return array<float>({keys.shape(0), table.layout().dim + table.layout().state_width},
                      [&](float *out) { table.read_whole(span_of(keys), out); });
}

void assign_whole(Table &table, Keys keys, ConstMatrix rows, Vector<const uint16_t> slots, int64_t tick) {
  check_whole("rows", rows, keys, table);
  check_length("slots", slots.shape(0), keys);
  const uint32_t when = tick_of("tick", tick);
  clickline::bind::NoGil release;
  table.assign_whole(span_of(keys), rows.data(), slots.data(), when);
}

void add_whole(Table &table, Keys keys, ConstMatrix rows, Vector<const float> shows, Vector<const float> clicks,
               Vector<const uint16_t> slots, int64_t tick) {
  check_whole("rows", rows, keys, table);
  check_length("shows", shows.shape(0), keys);
  check_length("clicks", clicks.shape(0), keys);
  check_length("slots", slots.shape(0), keys);
  const Push step{span_of(keys), rows.data(), shows.data(), clicks.data(), slots.data(), tick_of("tick", tick), 1.0};
  clickline::bind::NoGil release;
  table.add_whole(step);
}

nb::object counts(const Table &table, Keys keys) {
  return array<float>({keys.shape(0), 2}, [&](float *out) {
    table.look_up(span_of(keys), [&](size_t i, const RowHeader &row) {
      out[2 * i] = row.show;
      out[2 * i + 1] = row.click;
    }, [](size_t) {});
  });
}

nb::object last_seen(const Table &table, Keys keys) {
  return array<int64_t>({keys.shape(0)}, [&](int64_t *out) {
    table.look_up(span_of(keys), [&](size_t i, const RowHeader &row) { out[i] = row.last_seen; },
                  [&](size_t i) { out[i] = -1; });
  });
}

nb::object all_keys(const Table &table) {
  std::vector<uint64_t> keys;
  {
    clickline::bind::NoGil release;
    keys = table.keys();
  }
  return array<uint64_t>({keys.size()}, [&](uint64_t *out) { std::copy(keys.begin(), keys.end(), out); });
}

nb::dict memory(const Table &table) {
  const TableMemory memory = [&] {
    clickline::bind::NoGil release;
    return table.memory();
  }();
  nb::dict result;
  result["rows"] = memory.rows;
  result["waiting"] = memory.waiting;
  result["payload_bytes_per_row"] = memory.payload_bytes_per_row;
  result["bytes_per_row"] =
      memory.rows ? static_cast<double>(memory.total_bytes) / static_cast<double>(memory.rows) : 0.0;
  result["total_bytes"] = memory.total_bytes;
  result["index_bytes"] = memory.index_bytes;
  result["waiting_bytes"] = memory.waiting_bytes;
  return result;
}

// What a user can act on is one of clickline.errors; the rest stays what nanobind makes of it.
void translate(const std::exception_ptr &error, void *) {
  auto raise = [](const char *name, const char *what) {
    nb::object type = nb::module_::import_("clickline.errors").attr(name);
    PyErr_SetString(type.ptr(), what);
  };
  try {
    std::rethrow_exception(error);
  } catch (const TableFileError &e) {
    raise("CheckpointError", e.what());
  } catch (const NotFinite &e) {
    raise("ModelError", e.what());
  }
}

}  // namespace

void bind_table(nb::module_ &m) {
  nb::register_exception_translator(translate);
  nb::class_<Table>(m, "Table")
      .def("__init__", &make, nb::kw_only(), nb::arg("dim"), nb::arg("optimizer") = "adagrad",
           nb::arg("learning_rate") = 0.05, nb::arg("l1") = 0.0, nb::arg("l2") = 0.0, nb::arg("weight_decay") = 0.0,
           nb::arg("beta1") = 0.9, nb::arg("beta2") = 0.999, nb::arg("epsilon") = 1e-8, nb::arg("initial") = 0.1,
           nb::arg("clip") = 0.0, nb::arg("init_scale") = 0.01, nb::arg("seed") = 0,
           nb::arg("policies") = std::vector<PolicyTuple>{})
      .def("pull", &pull, nb::arg("keys").noconvert(), nb::arg("out").noconvert(), nb::kw_only(), nb::arg("training"),
           nb::arg("slots").noconvert() = nb::none(), nb::arg("threads") = 1)
      .def("push", &push, nb::arg("keys").noconvert(), nb::arg("grads").noconvert(), nb::arg("shows").noconvert(),
           nb::arg("clicks").noconvert(), nb::arg("slots").noconvert(), nb::kw_only(), nb::arg("tick"),
           nb::arg("scale") = 1.0, nb::arg("threads") = 1)
      .def("read_whole", &read_whole, nb::arg("keys").noconvert())
      .def("assign_whole", &assign_whole, nb::arg("keys").noconvert(), nb::arg("rows").noconvert(),
           nb::arg("slots").noconvert(), nb::kw_only(), nb::arg("tick"))
      .def("add_whole", &add_whole, nb::arg("keys").noconvert(), nb::arg("rows").noconvert(),
           nb::arg("shows").noconvert(), nb::arg("clicks").noconvert(), nb::arg("slots").noconvert(), nb::kw_only(),
           nb::arg("tick"))
      .def("reset", &Table::reset, nb::kw_only(), nb::arg("threads") = 1, nb::call_guard<clickline::bind::NoGil>(),
           "Every row learns anew from its initial value; keys, counts and waiting keys stay.")
      .def("evict", [](Table &t, int64_t now, double decay, int threads) {
            const uint32_t tick = tick_of("now", now);
            clickline::bind::NoGil release;
            return t.evict(tick, decay, threads);
          }, nb::arg("now"), nb::arg("decay") = 1.0, nb::kw_only(), nb::arg("threads") = 1)
      .def("counts", &counts, nb::arg("keys").noconvert())
      .def("last_seen", &last_seen, nb::arg("keys").noconvert())
      .def("rows", [](const Table &t, Keys keys) { return floats(t, keys, 0, t.layout().dim); },
           nb::arg("keys").noconvert())
      .def("states", [](const Table &t, Keys keys) { return floats(t, keys, t.layout().dim, t.layout().state_width); },
           nb::arg("keys").noconvert())
      .def("keys", &all_keys)
      .def("memory", &memory)
      .def("save", [](const Table &t, const std::filesystem::path &path) { t.save(path.string()); }, nb::arg("path"),
           nb::call_guard<clickline::bind::NoGil>())
      .def("load", [](Table &t, const std::filesystem::path &path, uint32_t first, uint32_t last) {
            t.load(path.string(), first, last);
          }, nb::arg("path"), nb::arg("first_bucket") = 0, nb::arg("last_bucket") = kBuckets,
          nb::call_guard<clickline::bind::NoGil>())
      .def("restore", [](Table &t, const std::filesystem::path &path, uint32_t first, uint32_t last) {
            t.restore(path.string(), first, last);
          }, nb::arg("path"), nb::arg("first_bucket") = 0, nb::arg("last_bucket") = kBuckets,
          nb::call_guard<clickline::bind::NoGil>(),
          "Rows that the table has get the weights and state that they have in the file; keys and counts stay.")
      .def("write_dictionary", [](const Table &t, const std::filesystem::path &path, uint32_t dtype, uint32_t first,
                                  uint32_t last, int threads) {
            DictionarySummary facts;
            {
              clickline::bind::NoGil release;
              facts = t.write_dictionary(path.string(), dtype, first, last, threads);
            }
            nb::dict result;
            result["count"] = facts.count;
            result["deleted"] = facts.deleted;
            result["bytes"] = facts.bytes;
            return result;
          }, nb::arg("path"), nb::kw_only(), nb::arg("dtype"), nb::arg("first_bucket") = 0,
          nb::arg("last_bucket") = kBuckets, nb::arg("threads") = 1)
      .def("__len__", &Table::size, nb::call_guard<clickline::bind::NoGil>())
      .def_prop_ro("step", &Table::step)
      .def_prop_ro("dim", [](const Table &t) { return t.layout().dim; })
      .def_prop_ro("optimizer", [](const Table &t) { return t.config().optimizer.name; })
      .def_prop_ro("seed", [](const Table &t) { return t.config().seed; });
}
