// Python's lock (the GIL): given up while kiln computes, taken by kiln's threads for callbacks.
//
// When Python ends, it ends every other thread that asks for the lock by pthread_exit(), which
// unwinds the thread's stack: through a noexcept function or a destructor it aborts the process,
// and elsewhere it runs destructors of Python's objects without the lock. So pybind11's
// gil_scoped_release and gil_scoped_acquire are not used here. Whatever takes the lock, or runs
// Python's code below frames of C++, catches the unwinding where it begins and never returns: the
// process ends without the thread.
#pragma once

#include <cxxabi.h>
#include <pybind11/pybind11.h>

#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

namespace kiln::python {

namespace py = pybind11;

#ifdef __GLIBCXX__
using ForcedUnwind = abi::__forced_unwind;
#else
struct ForcedUnwind {};  // other libraries have no name for it
#endif

/// Waits until the process ends.
[[noreturn]] void hang() noexcept;

/// Takes the lock again; never returns where Python has ended meanwhile.
void take_lock(PyThreadState* state) noexcept;

/// What `f` returns or throws, computed without the lock.
template <typename F>
std::invoke_result_t<const F&> without_lock(const F& f) {
  using R = std::invoke_result_t<const F&>;
  std::conditional_t<std::is_void_v<R>, std::optional<bool>, std::optional<R>> result;
  std::exception_ptr thrown;
  PyThreadState* const state = PyEval_SaveThread();
  try {
    if constexpr (std::is_void_v<R>)
      f();
    else
      result.emplace(f());
  } catch (...) {
    thrown = std::current_exception();
  }
  take_lock(state);
  if (thrown) std::rethrow_exception(thrown);
  if constexpr (!std::is_void_v<R>) return std::move(*result);
}

/// False where Python ends or has ended: then nothing of it may be used.
bool enter_python(PyGILState_STATE& state) noexcept;
void leave_python(PyGILState_STATE state) noexcept;

/// Calls `f`, which throws nothing, with the lock, from any thread. False: Python ends, and `f` was
/// not called.
template <typename F>
bool with_lock(const F& f) {
  PyGILState_STATE state;
  if (!enter_python(state)) return false;
  try {
    f();
  } catch (const ForcedUnwind&) {
    hang();
  }
  leave_python(state);
  return true;
}

/// Calls a function of Python with a tuple of arguments, with the lock. Throws what it raises.
py::object call_python(const py::handle& function, const py::tuple& arguments,
                       const py::dict& named = {});

/// Python is about to end: from now on with_lock() calls nothing. Returns when no thread waits for
/// the lock in it. Python calls this by atexit.
void end_callbacks();
/// Whether a thread is inside with_lock(): where Python has ended, it will stay there.
bool in_callback() noexcept;
/// Whether Python ends.
bool is_ending() noexcept;

void bind_lock(py::module_& module);

}  // namespace kiln::python
