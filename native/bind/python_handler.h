// A Python function that answers CALL requests, called from the server's own threads.
// Promises: the body is not copied, and stays valid if the function keeps a view of it; an exception becomes an error
// reply, and its traceback is printed unless it is one of clickline's own; the reply is copied once, so that what the
// function does later with its arrays does not change it; a thread that is in here when the interpreter ends sleeps.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "gil.h"
#include "wire_server.h"

namespace clickline::bind {

class PythonHandler {
 public:
  explicit PythonHandler(PyObject *function) : function_(Py_NewRef(function)) {}
  PythonHandler(const PythonHandler &) = delete;
  ~PythonHandler() { drop(); }
  void drop();  // with the GIL, when no call can come any more; again does nothing

  void operator()(const Peer &peer, std::string_view op, std::string_view body, const std::shared_ptr<Buffer> &memory,
                  Buffer &reply);

 private:
  std::string run(const Peer &peer, std::string_view op, std::string_view body, const std::shared_ptr<Buffer> &memory,
                  Buffer &reply);
  void release(PyObject *view, const std::shared_ptr<Buffer> &memory);

  PyObject *function_;
  std::vector<std::pair<PyObject *, std::shared_ptr<Buffer>>> kept_;  // views that somebody still used; under the GIL
};

}  // namespace clickline::bind
