// Plain calls of Python's C API, without objects that clean up: a thread may be ended inside any of them (see gil.h), and
// what it would clean up belongs to an interpreter that is gone.
#include "python_handler.h"

#include <cstring>

namespace clickline::bind {

namespace {

// The current exception as "TYPE: text".
std::string error_text() {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (value && trace) PyException_SetTraceback(value, trace);
  if (value && !PyObject_HasAttrString(value, "exit_code")) PyErr_Display(type, value, trace);  // a bug: show where
  PyErr_Clear();
  std::string text = type ? reinterpret_cast<PyTypeObject *>(type)->tp_name : "an exception";
  if (const size_t dot = text.rfind('.'); dot != std::string::npos) text.erase(0, dot + 1);
  PyObject *message = value ? PyObject_Str(value) : nullptr;
  Py_ssize_t size = 0;
  const char *bytes = message ? PyUnicode_AsUTF8AndSize(message, &size) : nullptr;
  if (bytes && size) text.append(": ").append(bytes, static_cast<size_t>(size));
  PyErr_Clear();
  Py_XDECREF(message);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  return text;
}

// False, with an exception set, if `result` is neither a buffer nor a list of buffers.
bool copy_reply(PyObject *result, Buffer &reply) {
  const bool several = PyList_Check(result) || PyTuple_Check(result);
  const Py_ssize_t count = several ? PySequence_Size(result) : 1;
  std::vector<Py_buffer> views;
  size_t size = 0;
  bool good = true;
  for (Py_ssize_t i = 0; good && i < count; ++i) {
    PyObject *part = several ? PySequence_GetItem(result, i) : Py_NewRef(result);
    Py_buffer view;
    good = part && !PyObject_GetBuffer(part, &view, PyBUF_SIMPLE);
    Py_XDECREF(part);
    if (good) {
      size += static_cast<size_t>(view.len);
      views.push_back(view);
    }
  }
  char *to = good ? reply.resize(size) : nullptr;
  for (Py_buffer &view : views) {
    if (good && view.len) {
      std::memcpy(to, view.buf, static_cast<size_t>(view.len));
      to += view.len;
    }
    PyBuffer_Release(&view);
  }
  return good;
}

}  // namespace

void PythonHandler::operator()(const Peer &peer, std::string_view op, std::string_view body,
                               const std::shared_ptr<Buffer> &memory, Buffer &reply) {
  std::string error;
  {
    Gil gil;
    try {
      error = run(peer, op, body, memory, reply);
    } catch (abi::__forced_unwind &) {
      sleep_until_the_end();
    }
  }
  if (!error.empty()) throw HandlerError(error);
}

std::string PythonHandler::run(const Peer &peer, std::string_view op, std::string_view body,
                               const std::shared_ptr<Buffer> &memory, Buffer &reply) {
  std::string error;
  PyObject *name = PyUnicode_DecodeUTF8(peer.name.data(), static_cast<Py_ssize_t>(peer.name.size()), "replace");
  PyObject *client = PyLong_FromUnsignedLongLong(peer.client);
  PyObject *what = PyUnicode_DecodeUTF8(op.data(), static_cast<Py_ssize_t>(op.size()), "replace");
  PyObject *view =
      PyMemoryView_FromMemory(const_cast<char *>(body.data()), static_cast<Py_ssize_t>(body.size()), PyBUF_READ);
  PyObject *result = nullptr;
  if (name && client && what && view) result = PyObject_CallFunctionObjArgs(function_, name, client, what, view, nullptr);
  if (!result || !copy_reply(result, reply)) error = error_text();
  Py_XDECREF(result);
  Py_XDECREF(what);
  Py_XDECREF(client);
  Py_XDECREF(name);
  if (view) release(view, memory);
  return error;
}

// Nobody can look at the body through the view afterwards; or else its memory is kept for those who still can.
void PythonHandler::release(PyObject *view, const std::shared_ptr<Buffer> &memory) {
  auto released = [](PyObject *candidate) {
    PyObject *done = PyObject_CallMethod(candidate, "release", nullptr);
    if (!done) PyErr_Clear();
    Py_XDECREF(done);
    if (done) Py_DECREF(candidate);
    return done != nullptr;
  };
  if (!kept_.empty()) {
    auto kept = std::move(kept_);  // others may come by while Python runs
    kept_.clear();
    for (auto &item : kept)
      if (!released(item.first)) kept_.push_back(std::move(item));
  }
  if (!released(view)) kept_.emplace_back(view, memory);
}

void PythonHandler::drop() {
  for (auto &item : std::exchange(kept_, {})) {
    PyObject *done = PyObject_CallMethod(item.first, "release", nullptr);
    if (!done) {
      PyErr_Clear();
      new std::shared_ptr<Buffer>(std::move(item.second));  // still looked at: its memory is never given back
    }
    Py_XDECREF(done);
    Py_DECREF(item.first);
  }
  Py_CLEAR(function_);
}

}  // namespace clickline::bind
