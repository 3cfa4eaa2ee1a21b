// Python bindings of cube/server.h and cube/client/client.h.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "bind/python/gil.h"
#include "bind/python/python_handler.h"
#include "cube/client/client.h"
#include "cube/server.h"

namespace nb = nanobind;
using namespace clickline::dictionary;
using namespace clickline::wire;
using namespace clickline::cube;
using clickline::bind::Gil;
using clickline::bind::NoGil;
using clickline::bind::PythonHandler;

namespace {

using Keys = nb::ndarray<const uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// The server, and what of Python's it uses. As with WireServer: objects go when nothing native can reach them any more.
struct ServedCube {
  std::unique_ptr<PythonHandler> handler;  // may be none
  std::unique_ptr<CubeServer> server;
  const pid_t process = getpid();

  ServedCube(std::unique_ptr<PythonHandler> function, std::unique_ptr<CubeServer> core)
      : handler(std::move(function)), server(std::move(core)) {}
  ~ServedCube() {
    bool abandoned = this->abandoned();
    if (!abandoned) {
      try {
        close();
      } catch (const std::logic_error &) {  // the last reference went in a handler
        abandoned = true;
      }
    }
    if (abandoned) {
      handler.release();
      server.release();
    }
  }

  // Threads may sleep for ever when the interpreter ends, and a forked child has none of them: nothing to wait for.
  bool abandoned() const { return clickline::bind::interpreter_ending || getpid() != process; }

  void close() {
    if (abandoned()) return;
    {
      NoGil release;
      server->close();
    }
    if (handler) handler->drop();
  }
};

void make_server(ServedCube *place, std::string address, std::string name, std::string job, nb::bytes token,
                 std::optional<nb::callable> handler, uint64_t max_frame, size_t max_connections,
                 size_t max_unauthenticated) {
  if (max_unauthenticated < 1) throw std::invalid_argument("max_unauthenticated must be 1 or more but got 0");
  if (token.size() == 0) throw std::invalid_argument("the token must not be empty");
  PayloadWriter().text(job).text(name);  // at most 255 bytes each
  ServerConfig config{std::move(address), {std::string(token.c_str(), token.size()), std::move(job), std::move(name)},
                      max_frame, max_connections, max_unauthenticated};
  config.spin = true;
  auto function = handler ? std::make_unique<PythonHandler>(handler->ptr()) : nullptr;
  auto server = std::make_unique<CubeServer>(
      std::move(config), [function = function.get()](const Peer &peer, std::string_view op, std::string_view body,
                                                     const std::shared_ptr<Buffer> &memory, Buffer &reply) {
        if (!function) throw HandlerError("ValueError: this server takes no calls");
        (*function)(peer, op, body, memory, reply);
      });
  new (place) ServedCube(std::move(function), std::move(server));
}

// The tables are shared with Python's objects but not the objects themselves: who drops them needs no GIL.
template <void (CubeService::*take)(uint64_t, CubeService::Tables)>
void give(ServedCube &served, uint64_t version, const nb::dict &tables) {
  CubeService::Tables native;
  for (const auto &[name, layers] : tables)
    native[nb::cast<std::string>(name)] = std::make_shared<const Layers>(nb::cast<const Layers &>(layers).layers());
  NoGil release;
  (served.server->service.*take)(version, std::move(native));
}

nb::dict server_counts(const ServedCube &served) {
  nb::dict result;
  const CubeCounts &cube = served.server->service.counts;
  const ServerCounts &wire = served.server->wire.counts;
  result["gets"] = cube.gets.load();
  result["keys"] = cube.keys.load();
  result["missing"] = cube.missing.load();
  result["bytes"] = cube.bytes.load();
  result["errors"] = cube.errors.load();
  result["loads"] = cube.loads.load();
  result["load_microseconds"] = cube.load_microseconds.load();
  result["switches"] = cube.switches.load();
  result["drops"] = cube.drops.load();
  result["requests"] = wire.requests.load();
  result["bytes_in"] = wire.bytes_in.load();
  result["bytes_out"] = wire.bytes_out.load();
  result["refused"] = wire.refused.load();
  result["garbled"] = wire.garbled.load();
  result["connections"] = wire.connections.load();
  return result;
}

struct Interrupted {};  // a signal's handler raised; its exception is set

void check_signals() {
  if (gettid() != getpid()) return;
  Gil gil;
  if (PyErr_CheckSignals()) throw Interrupted();
}

void make_client(CubeClient *place, std::vector<std::vector<std::string>> shards, std::string name, std::string job,
                 nb::bytes token, double timeout, double hedge, int retries, uint64_t max_frame) {
  PayloadWriter().text(job).text(name);
  Identity identity{std::string(token.c_str(), token.size()), std::move(job), std::move(name)};
  new (place) CubeClient({std::move(shards), std::move(identity), timeout, hedge, retries, max_frame});
  place->check_signals = check_signals;
}

GetResult get(CubeClient &client, std::string_view table, Keys keys, std::optional<uint64_t> version) {
  if (version && !*version) throw std::invalid_argument("versions are numbered from 1");
  GetResult got;
  bool interrupted = false;
  {
    NoGil release;
    try {
      got = client.get(table, {keys.data(), keys.shape(0)}, version.value_or(0));
    } catch (const Interrupted &) {
      interrupted = true;
    }
  }
  if (interrupted) throw nb::python_error();
  return got;
}

nb::dict client_counts(const CubeClient &client) {
  nb::dict result;
  const CubeClientCounts &counts = client.counts;
  result["gets"] = counts.gets.load();
  result["keys"] = counts.keys.load();
  result["unique_keys"] = counts.unique_keys.load();
  result["missing"] = counts.missing.load();
  result["retries"] = counts.retries.load();
  result["hedges"] = counts.hedges.load();
  result["hedges_won"] = counts.hedges_won.load();
  result["failures"] = counts.failures.load();
  result["shards_failed"] = counts.shards_failed.load();
  result["version_moves"] = counts.version_moves.load();
  result["restarts"] = counts.restarts.load();
  result["mismatches"] = counts.mismatches.load();
  result["requests"] = client.requests();
  return result;
}

nb::object values_of(nb::handle self) {
  GetResult &got = nb::cast<GetResult &>(self);
  auto *bytes = reinterpret_cast<uint8_t *>(got.values.data());
  if (!got.row_bytes && got.offsets.size())
    return nb::cast(nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>(bytes, {got.values_bytes}, self));
  return nb::cast(nb::ndarray<nb::numpy, uint8_t, nb::ndim<2>>(bytes, {got.count, size_t{got.row_bytes}}, self));
}

nb::object offsets_of(nb::handle self) {
  GetResult &got = nb::cast<GetResult &>(self);
  if (!got.offsets.size()) return nb::none();
  return nb::cast(nb::ndarray<nb::numpy, uint64_t, nb::ndim<1>>(got.offsets.data(), {got.offsets.size()}, self));
}

}  // namespace

void bind_cube(nb::module_ &m) {
  nb::class_<ServedCube>(m, "CubeServer")
      .def("__init__", &make_server, nb::arg("address"), nb::kw_only(), nb::arg("name"), nb::arg("job"),
           nb::arg("token"), nb::arg("handler") = nb::none(), nb::arg("max_frame") = uint64_t{1} << 30,
           nb::arg("max_connections") = 4096, nb::arg("max_unauthenticated") = 64)
      .def_prop_ro("address", [](const ServedCube &s) { return s.server->wire.address(); })
      .def("load", &give<&CubeService::load>, nb::arg("version"), nb::arg("tables"))
      .def("replace", &give<&CubeService::replace>, nb::arg("version"), nb::arg("tables"))
      .def("switch",
           [](ServedCube &s, uint64_t version, uint64_t number) { s.server->service.switch_to(version, number); },
           nb::arg("version"), nb::arg("number"), nb::call_guard<NoGil>())
      .def("drop", [](ServedCube &s, uint64_t version) { s.server->service.drop(version); }, nb::arg("version"),
           nb::call_guard<NoGil>())
      .def("versions", [](const ServedCube &s) { return s.server->service.versions(); })
      .def("current", [](const ServedCube &s) { return s.server->service.current(); })
      .def("counts", &server_counts)
      .def("close", &ServedCube::close);
  nb::class_<GetResult>(m, "Got")
      .def_ro("version", &GetResult::version)
      .def_prop_ro("code", [](const GetResult &got) { return static_cast<int>(got.code); })
      .def_ro("dtype", &GetResult::dtype)
      .def_ro("dim", &GetResult::dim)
      .def_ro("row_bytes", &GetResult::row_bytes)
      .def_prop_ro("status", [](nb::handle self) {
        GetResult &got = nb::cast<GetResult &>(self);
        return nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>(got.status.data(), {got.count}, self);
      })
      .def_prop_ro("values", &values_of)
      .def_prop_ro("offsets", &offsets_of)
      .def_prop_ro("errors", [](const GetResult &got) { return got.errors; });
  nb::class_<CubeClient>(m, "CubeClient")
      .def("__init__", &make_client, nb::arg("shards"), nb::kw_only(), nb::arg("name"), nb::arg("job"),
           nb::arg("token"), nb::arg("timeout") = 1.0, nb::arg("hedge") = 0.0, nb::arg("retries") = 2,
           nb::arg("max_frame") = uint64_t{1} << 30)
      .def("get", &get, nb::arg("table"), nb::arg("keys").noconvert(), nb::arg("version") = nb::none())
      .def("set_addresses", &CubeClient::set_addresses, nb::arg("shard"), nb::arg("replicas"))
      .def_prop_ro("version", &CubeClient::version)
      .def("counts", &client_counts)
      .def("close", &CubeClient::close);
}
