// A Python function that answers CALL requests, called from the server's own threads.
// Promises: the body is not copied, and its memory is not used again while the function keeps a view of it; an exception
// becomes an error reply, and its traceback is printed unless it is one of clickline's own; the reply is copied once, so
// that what the function does later with its arrays does not change it; a thread that is in here when the interpreter
// ends sleeps.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "bind/python/gil.h"
#include "wire/server.h"

namespace clickline::bind {

class PythonHandler {
 public:
  explicit PythonHandler(PyObject *function) : function_(Py_NewRef(function)) {}
  PythonHandler(const PythonHandler &) = delete;
  ~PythonHandler() { drop(); }
  void drop();  // with the GIL, when no call can come any more; again does nothing

  void operator()(const wire::Peer &peer, std::string_view op, std::string_view body,
                  const std::shared_ptr<wire::Buffer> &memory, wire::Buffer &reply);

 private:
  std::string run(const wire::Peer &peer, std::string_view op, std::string_view body,
                  const std::shared_ptr<wire::Buffer> &memory, wire::Buffer &reply);

  PyObject *function_;
};

}  // namespace clickline::bind
