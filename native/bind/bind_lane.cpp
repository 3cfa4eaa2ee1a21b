// Python bindings of wire/lane.h. Arrays are taken as they are or refused, never converted.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <numeric>
#include <optional>

#include "bind/python/gil.h"
#include "wire/lane.h"

namespace nb = nanobind;
using namespace clickline::base;
using namespace clickline::wire;
using clickline::bind::Gil;
using clickline::bind::NoGil;

namespace {

template <class T>
using Vector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ConstMatrix = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Keys = Vector<const uint64_t>;

struct Interrupted {};  // a signal's handler raised; its exception is set

// Signals of Python run on its main thread, which may be the one that waits.
void check_signals() {
  if (gettid() != getpid()) return;
  Gil gil;
  if (PyErr_CheckSignals()) throw Interrupted();
}

template <class Work>
void without_gil(Work work) {
  bool interrupted = false;
  {
    NoGil release;
    try {
      work();
    } catch (const Interrupted &) {
      interrupted = true;
    }
  }
  if (interrupted) throw nb::python_error();
}

void check_length(const char *name, size_t got, const Keys &keys) {
  if (got != keys.shape(0))
    throw std::invalid_argument(std::string("Argument '") + name + "' must have one entry for each of the " +
                                std::to_string(keys.shape(0)) + " keys but has " + std::to_string(got));
}

Width width_of(const std::string &wire) {
  if (wire == "fp32") return Width::Fp32;
  if (wire == "fp16") return Width::Fp16;
  if (wire == "bf16") return Width::Bf16;
  throw std::invalid_argument("Argument 'wire' must be fp32, fp16 or bf16 but got '" + wire + "'");
}

// The memory of Python objects, for as long as it lives.
class Views {
 public:
  Views() = default;
  Views(const Views &) = delete;
  ~Views() {
    for (Py_buffer &view : views_) PyBuffer_Release(&view);
  }
  iovec add(nb::handle object) {
    Py_buffer view;
    if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_SIMPLE)) throw nb::python_error();
    views_.push_back(view);
    return {view.buf, static_cast<size_t>(view.len)};
  }

 private:
  std::vector<Py_buffer> views_;
};

void make(Lane *place, std::vector<std::string> addresses, nb::bytes token, std::string job, std::string name,
          uint64_t client, uint32_t lane, double deadline, double retry_for, uint64_t max_frame) {
  PayloadWriter().text(job).text(name);  // at most 255 bytes each
  new (place) Lane({std::move(addresses), {std::string(token.c_str(), token.size()), std::move(job), std::move(name)},
                    client, lane, deadline, retry_for, max_frame});
  place->check_signals = check_signals;
}

nb::list call(Lane &lane, const std::string &op, nb::list bodies, bool once, std::optional<double> deadline,
              std::optional<size_t> only) {
  std::vector<size_t> to(only ? 1 : lane.servers());
  std::iota(to.begin(), to.end(), only.value_or(0));
  if (only && *only >= lane.servers())
    throw std::invalid_argument("Argument 'only' must be 0 to " + std::to_string(lane.servers() - 1) + " but got " +
                                std::to_string(*only));
  if (bodies.size() != to.size())
    throw std::invalid_argument("Argument 'bodies' must have " + std::to_string(to.size()) + " entries, one for each " +
                                "server that is called, but has " + std::to_string(bodies.size()));
  Views views;
  std::vector<std::vector<iovec>> pieces(to.size());
  for (size_t i = 0; i < to.size(); ++i)
    for (nb::handle part : nb::cast<nb::list>(bodies[i])) pieces[i].push_back(views.add(part));
  std::vector<Buffer> replies;
  without_gil([&] { replies = lane.call(op, to, pieces, once, deadline); });
  nb::list result;
  for (const Buffer &reply : replies) result.append(nb::bytes(reply.view().data(), reply.size()));
  return result;
}

std::vector<uint64_t> pull(Lane &lane, uint32_t table, Keys keys, Matrix out, bool training,
                           std::optional<Vector<const uint16_t>> slots, const std::string &wire) {
  check_length("out", out.shape(0), keys);
  if (slots) check_length("slots", slots->shape(0), keys);
  const uint16_t *columns = slots ? slots->data() : nullptr;
  const Width width = width_of(wire);
  std::vector<uint64_t> versions;
  without_gil([&] {
    versions = lane.pull(table, {keys.data(), keys.shape(0)}, out.data(), static_cast<uint32_t>(out.shape(1)), training,
                         columns, width);
  });
  return versions;
}

void push(Lane &lane, uint32_t table, Keys keys, ConstMatrix grads, Vector<const float> shows, Vector<const float> clicks,
          Vector<const uint16_t> slots, int64_t tick, double scale, const std::vector<uint64_t> &based_on,
          uint64_t max_staleness, uint64_t lease, uint64_t rows_done, const std::string &wire) {
  check_length("grads", grads.shape(0), keys);
  check_length("shows", shows.shape(0), keys);
  check_length("clicks", clicks.shape(0), keys);
  check_length("slots", slots.shape(0), keys);
  if (tick < 0 || tick > int64_t{0xFFFFFFFF})
    throw std::invalid_argument("Argument 'tick' must be 0 to 4294967295 but got " + std::to_string(tick));
  PushHead head{};
  head.table = table;
  head.width = width_of(wire);
  head.dim = static_cast<uint32_t>(grads.shape(1));
  head.tick = static_cast<uint32_t>(tick);
  head.scale = scale;
  head.max_staleness = max_staleness;
  head.lease = lease;
  head.rows_done = rows_done;
  const PushArrays arrays{{keys.data(), keys.shape(0)}, grads.data(), shows.data(), clicks.data(), slots.data()};
  without_gil([&] { lane.push(head, arrays, based_on); });
}

nb::dict counters(const Lane &lane) {
  nb::dict result;
  result["requests"] = lane.counts.requests.load();
  result["retries"] = lane.counts.retries.load();
  result["reconnects"] = lane.counts.reconnects.load();
  result["bytes_sent"] = lane.counts.bytes_sent.load();
  result["bytes_received"] = lane.counts.bytes_received.load();
  return result;
}

}  // namespace

void bind_lane(nb::module_ &m) {
  m.def("owner_ranges", &owner_ranges, nb::arg("servers"));
  nb::class_<Lane>(m, "Lane")
      .def("__init__", &make, nb::arg("addresses"), nb::kw_only(), nb::arg("token"), nb::arg("job"), nb::arg("name"),
           nb::arg("client"), nb::arg("lane"), nb::arg("deadline") = 30.0, nb::arg("retry_for") = 120.0,
           nb::arg("max_frame") = uint64_t{1} << 30)
      .def("call", &call, nb::arg("op"), nb::arg("bodies"), nb::kw_only(), nb::arg("once") = false,
           nb::arg("deadline") = nb::none(), nb::arg("only") = nb::none())
      .def("pull", &pull, nb::arg("table"), nb::arg("keys").noconvert(), nb::arg("out").noconvert(), nb::kw_only(),
           nb::arg("training"), nb::arg("slots").noconvert() = nb::none(), nb::arg("wire") = "fp32")
      .def("push", &push, nb::arg("table"), nb::arg("keys").noconvert(), nb::arg("grads").noconvert(),
           nb::arg("shows").noconvert(), nb::arg("clicks").noconvert(), nb::arg("slots").noconvert(), nb::kw_only(),
           nb::arg("tick"), nb::arg("scale") = 1.0, nb::arg("based_on") = std::vector<uint64_t>{},
           nb::arg("max_staleness") = 0, nb::arg("lease") = 0, nb::arg("rows_done") = 0, nb::arg("wire") = "fp32")
      .def("set_address", &Lane::set_address, nb::arg("server"), nb::arg("address"), nb::kw_only(),
           nb::arg("reconnect") = false)
      .def("cancel", &Lane::cancel)
      .def("counters", &counters)
      .def("close", &Lane::close, nb::call_guard<NoGil>());
}
