// Python bindings of wire/server.h.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <map>

#include "bind/python/gil.h"
#include "bind/python/python_handler.h"
#include "table/table.h"
#include "wire/server.h"

namespace nb = nanobind;
using namespace clickline::table;
using namespace clickline::wire;
using namespace clickline::pserver;
using clickline::bind::NoGil;
using clickline::bind::PythonHandler;

namespace {

// The server, and what of Python's it uses. Objects go when nothing native can reach them any more.
struct Served {
  std::unique_ptr<PythonHandler> handler;
  std::map<uint32_t, nb::object> tables;
  std::unique_ptr<WireServer> server;
  const pid_t process = getpid();

  Served(std::unique_ptr<PythonHandler> function, std::unique_ptr<WireServer> core)
      : handler(std::move(function)), server(std::move(core)) {}
  ~Served() {
    // Threads may sleep for ever when the interpreter ends, and a forked child has none of them: nothing to wait for.
    bool abandoned = clickline::bind::interpreter_ending || getpid() != process;
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
      for (auto &item : tables) item.second.release();
    }
  }

  void close() {
    if (clickline::bind::interpreter_ending || getpid() != process) return;
    {
      NoGil release;
      server->close();
    }
    handler->drop();  // it may hold a reference to this server, a cycle that Python's collector cannot see
    tables.clear();
  }
};

void make(Served *place, std::string address, nb::bytes token, std::string job, std::string name, nb::callable handler,
          uint64_t max_frame, size_t max_connections, size_t max_unauthenticated, bool once, bool answers_again) {
  if (max_unauthenticated < 1) throw std::invalid_argument("max_unauthenticated must be 1 or more but got 0");
  if (token.size() == 0) throw std::invalid_argument("the token must not be empty");
  PayloadWriter().text(job).text(name);  // at most 255 bytes each
  ServerConfig config{std::move(address), {std::string(token.c_str(), token.size()), std::move(job), std::move(name)},
                      max_frame, max_connections, max_unauthenticated, once, answers_again};
  auto function = std::make_unique<PythonHandler>(handler.ptr());
  auto server = std::make_unique<WireServer>(
      std::move(config), [function = function.get()](const Peer &peer, std::string_view op, std::string_view body,
                                                     const std::shared_ptr<Buffer> &memory, Buffer &reply) {
        (*function)(peer, op, body, memory, reply);
      });
  new (place) Served(std::move(function), std::move(server));
}

void add_table(Served &served, uint32_t number, nb::object table, double damping) {
  Table *native = nb::cast<Table *>(table);
  {
    NoGil release;
    served.server->tables.add(number, native, damping);
  }
  served.tables[number] = std::move(table);
}

nb::dict counters(const Served &served) {
  nb::dict result;
  const WireServer &server = *served.server;
  const TableCounts &tables = server.tables.counts;
  const ExactlyOnce::Counts once = server.once.counts();
  result["requests"] = server.counts.requests.load();
  result["pulls"] = tables.pulls.load();
  result["pushes"] = tables.pushes.load();
  result["rows_pulled"] = tables.rows_pulled.load();
  result["rows_pushed"] = tables.rows_pushed.load();
  result["bytes_in"] = server.counts.bytes_in.load();
  result["bytes_out"] = server.counts.bytes_out.load();
  result["refused"] = server.counts.refused.load();
  result["garbled"] = server.counts.garbled.load();
  result["repeated"] = once.repeated;
  result["lost"] = once.lost;
  result["under_way"] = server.once.under_way();
  result["discarded"] = tables.discarded.load();
  result["staleness_sum"] = tables.staleness_sum.load();
  result["staleness_max"] = tables.staleness_max.load();
  result["connections"] = server.counts.connections.load();
  result["crowded_out"] = server.counts.crowded_out.load();
  return result;
}

void translate(const std::exception_ptr &error, void *) {
  auto raise = [](const char *what, const char *kind = "PeerError") {
    PyObject *text = PyUnicode_DecodeUTF8(what, static_cast<Py_ssize_t>(std::strlen(what)), "replace");
    PyErr_SetObject(nb::module_::import_("clickline.errors").attr(kind).ptr(), text);
    Py_XDECREF(text);
  };
  try {
    std::rethrow_exception(error);
  } catch (const PeerReplaced &e) {
    raise(e.what(), "ReplacedError");
  } catch (const PeerFailure &e) {
    raise(e.what());
  } catch (const ConnectionLost &e) {
    raise(e.what());
  } catch (const Cancelled &e) {
    raise(e.what());
  } catch (const AlreadyDone &e) {
    raise(e.what());
  }
}

}  // namespace

void bind_wire(nb::module_ &m) {
  nb::register_exception_translator(translate);
  nb::module_::import_("atexit").attr("register")(
      nb::cpp_function([] { clickline::bind::interpreter_ending = true; }));
  nb::class_<Served>(m, "WireServer")
      .def("__init__", &make, nb::arg("address"), nb::kw_only(), nb::arg("token"), nb::arg("job"), nb::arg("name"),
           nb::arg("handler"), nb::arg("max_frame") = uint64_t{1} << 30, nb::arg("max_connections") = 4096,
           nb::arg("max_unauthenticated") = 64, nb::arg("once") = true, nb::arg("answers_again") = false)
      .def("already_done", [](const Served &s) { return s.server->already_done(); })
      .def_prop_ro("address", [](const Served &s) { return s.server->address(); })
      .def("add_table", &add_table, nb::arg("number"), nb::arg("table"), nb::kw_only(),
           nb::arg("damping") = 0.0)
      .def("open", [](Served &s) { s.server->tables.open(); }, nb::call_guard<NoGil>())
      .def("shut", [](Served &s) { s.server->tables.shut(); }, nb::call_guard<NoGil>())
      .def("sequences", [](const Served &s) { return s.server->once.sequences(); })
      .def("restore_sequences",
           [](Served &s, const std::vector<std::tuple<uint64_t, uint32_t, uint64_t>> &entries) {
             s.server->once.restore(entries);
           }, nb::arg("entries"))
      .def("forget", [](Served &s, uint64_t client) { s.server->once.forget(client); }, nb::arg("client"))
      .def("fence", [](Served &s, uint64_t client) { s.server->once.fence(client); }, nb::arg("client"),
           nb::call_guard<NoGil>())
      .def("progress", [](const Served &s) { return s.server->tables.progress(); })
      .def("forget_progress",
           [](Served &s, const std::vector<uint64_t> &leases) { s.server->tables.forget_progress(leases); },
           nb::arg("leases"))
      .def("counters", &counters)
      .def("close", &Served::close);
}
