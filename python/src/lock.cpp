#include "lock.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

namespace kiln::python {
namespace {

/// Threads in with_lock(): those that wait for the lock, and those that have it or gave it up
/// inside of Python's code.
std::atomic<int> g_waiting{0}, g_inside{0};
std::atomic<bool> g_ended{false};
thread_local int g_own_inside = 0;

/// The only thread of the child is the one that called fork().
void begin_in_child() {
  g_waiting = 0;
  g_inside = g_own_inside;
}

void stop_waiting() {
  --g_waiting;
  g_waiting.notify_all();
}

}  // namespace

void hang() noexcept {
  for (;;) ::pause();
}

void take_lock(PyThreadState* state) noexcept {
  try {
    PyEval_RestoreThread(state);
  } catch (...) {  // a function of C: this is the unwinding of pthread_exit() and nothing else
    hang();
  }
}

bool is_ending() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

bool enter_python(PyGILState_STATE& state) noexcept {
  // end_callbacks() sets the flag before it reads the count: one of the two sees the other.
  ++g_waiting;
  if (g_ended || !Py_IsInitialized() || is_ending()) {
    stop_waiting();
    return false;
  }
  try {
    state = PyGILState_Ensure();
  } catch (...) {  // as in take_lock()
    hang();
  }
  ++g_inside;
  ++g_own_inside;
  stop_waiting();
  return true;
}

void leave_python(PyGILState_STATE state) noexcept {
  --g_own_inside;
  --g_inside;
  PyGILState_Release(state);
}

py::object call_python(const py::handle& function, const py::tuple& arguments,
                       const py::dict& named) {
  PyObject* result = nullptr;
  try {
    result = PyObject_Call(function.ptr(), arguments.ptr(), named.ptr());
  } catch (...) {  // as in take_lock(): functions of Python's interface throw nothing
    hang();
  }
  if (result == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(result);
}

void end_callbacks() {
  g_ended = true;
  without_lock([] {
    for (int waiting = g_waiting; waiting != 0; waiting = g_waiting) g_waiting.wait(waiting);
  });
}

bool in_callback() noexcept { return g_inside != 0; }

void bind_lock(py::module_& module) {
  pthread_atfork(nullptr, nullptr, &begin_in_child);
  module.def("end_callbacks", &end_callbacks);
}

}  // namespace kiln::python
