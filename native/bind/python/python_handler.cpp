// Plain calls of Python's C API, without objects that clean up: a thread may be ended inside any of them (see gil.h),
// and what it would clean up belongs to an interpreter that is gone.
#include "bind/python/python_handler.h"

#include <cstring>
#include <vector>

namespace clickline::bind {

namespace {

// Owns a share of a request's memory for as long as Python has a view of it.
struct Body {
  PyObject_HEAD
  std::shared_ptr<wire::Buffer> memory;
  std::string_view bytes;
};

int get_buffer(PyObject *self, Py_buffer *view, int flags) {
  const std::string_view bytes = reinterpret_cast<Body *>(self)->bytes;
  return PyBuffer_FillInfo(view, self, const_cast<char *>(bytes.data()), static_cast<Py_ssize_t>(bytes.size()), 1, flags);
}

void deallocate(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  reinterpret_cast<Body *>(self)->memory.~shared_ptr();
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject *view_of(std::string_view bytes, const std::shared_ptr<wire::Buffer> &memory) {
  static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void *>(get_buffer)},
                                {Py_tp_dealloc, reinterpret_cast<void *>(deallocate)},
                                {0, nullptr}};
  static PyType_Spec spec{"clickline._native.Body", sizeof(Body), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  static PyObject *type = nullptr;
  if (!type && !(type = PyType_FromSpec(&spec))) return nullptr;
  PyObject *body = PyType_GenericAlloc(reinterpret_cast<PyTypeObject *>(type), 0);
  if (!body) return nullptr;
  new (&reinterpret_cast<Body *>(body)->memory) std::shared_ptr<wire::Buffer>(memory);
  reinterpret_cast<Body *>(body)->bytes = bytes;
  PyObject *view = PyMemoryView_FromObject(body);
  Py_DECREF(body);
  return view;
}

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
bool copy_reply(PyObject *result, wire::Buffer &reply) {
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

void PythonHandler::operator()(const wire::Peer &peer, std::string_view op, std::string_view body,
                               const std::shared_ptr<wire::Buffer> &memory, wire::Buffer &reply) {
  std::string error;
  {
    Gil gil;
    try {
      error = run(peer, op, body, memory, reply);
    } catch (abi::__forced_unwind &) {
      sleep_until_the_end();
    }
  }
  if (!error.empty()) throw wire::HandlerError(error);
}

std::string PythonHandler::run(const wire::Peer &peer, std::string_view op, std::string_view body,
                               const std::shared_ptr<wire::Buffer> &memory, wire::Buffer &reply) {
  std::string error;
  PyObject *name = PyUnicode_DecodeUTF8(peer.name.data(), static_cast<Py_ssize_t>(peer.name.size()), "replace");
  PyObject *client = PyLong_FromUnsignedLongLong(peer.client);
  PyObject *what = PyUnicode_DecodeUTF8(op.data(), static_cast<Py_ssize_t>(op.size()), "replace");
  PyObject *view = view_of(body, memory);
  PyObject *result = nullptr;
  if (name && client && what && view) result = PyObject_CallFunctionObjArgs(function_, name, client, what, view, nullptr);
  if (!result || !copy_reply(result, reply)) error = error_text();
  Py_XDECREF(result);
  Py_XDECREF(what);
  Py_XDECREF(client);
  Py_XDECREF(name);
  Py_XDECREF(view);
  return error;
}

void PythonHandler::drop() { Py_CLEAR(function_); }

}  // namespace clickline::bind
