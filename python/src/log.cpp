#include "log.h"

#include <pybind11/stl.h>

#include <array>
#include <string>

#include "callback.h"
#include "errors.h"
#include "kiln/log.hpp"
#include "lock.h"

namespace kiln::python {
namespace {

constexpr std::array<const char*, 5> kNames{"off", "error", "warn", "info", "debug"};

void set_log_level(const std::string& name) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (name == kNames[i]) return kiln::set_log_level(static_cast<LogLevel>(i));
  raise_bad_input("level = " + name + ": must be one of off, error, warn, info, debug");
}

void set_log(const py::object& callback) {
  LogCallback heard;
  if (!callback.is_none())
    heard = [callback = Callback(callback)](LogLevel level, std::string_view message) {
      callback.report(kNames.at(static_cast<std::size_t>(level)), std::string(message));
    };
  // It waits for callbacks that run, which need Python's lock.
  without_lock([&] { kiln::set_log(std::move(heard)); });
}

}  // namespace

void bind_log(py::module_& module) {
  module.def("set_log", &set_log, py::arg("callback"));
  module.def("set_log_level", &set_log_level, py::arg("level"));
}

}  // namespace kiln::python
