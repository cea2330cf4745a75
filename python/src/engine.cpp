#include "engine.h"

#include <fmt/format.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <map>
#include <utility>

#include "callback.h"
#include "chosen.h"
#include "errors.h"
#include "lock.h"
#include "made.h"

namespace kiln::python {
namespace {

constexpr std::pair<const char*, Policy> kPolicies[] = {
    {"use_best_known", Policy::use_best_known},
    {"tune_now", Policy::tune_now},
    {"tune_in_background", Policy::tune_in_background},
    {"error", Policy::error}};
constexpr std::pair<const char*, Determinism> kClasses[] = {
    {"run_to_run", Determinism::run_to_run},
    {"any", Determinism::any},
    {"batch_invariant", Determinism::batch_invariant}};

using Path = std::optional<std::filesystem::path>;

std::unique_ptr<EngineObject> opened(Path database, const std::string& device,
                                     std::vector<std::filesystem::path> shipped,
                                     const std::string& policy, const std::string& determinism,
                                     int threads, bool allow_vendor, const py::object& on_untuned,
                                     Path record) {
  OpenOptions options{.device = device,
                      .database = database.value_or(""),
                      .shipped = std::move(shipped),
                      .policy = chosen(kPolicies, policy, "policy"),
                      .determinism = chosen(kClasses, determinism, "determinism"),
                      .threads = threads,
                      .allow_vendor = allow_vendor,
                      .record = record.value_or("")};
  if (!on_untuned.is_none())
    options.on_untuned = [callback = Callback(on_untuned)](const std::string& line) {
      callback.report(line);
    };
  return std::make_unique<EngineObject>(std::move(options));
}

// Outlives the interpreter where Python ends without closing it.
std::map<std::string, EngineObject>& default_engines() {
  static auto* engines = new std::map<std::string, EngineObject>;
  return *engines;
}

/// Where their calls are recorded; empty: $KILN_RECORD.
std::string& default_record() {
  static auto* file = new std::string;
  return *file;
}

/// Returns what was set before.
std::string record_default_engines(std::string file) {
  close_default_engines();
  return std::exchange(default_record(), std::move(file));
}

std::shared_ptr<Engine> default_engine(const Place& place) {
  // The CPU's is what nearly every call uses.
  static EngineObject* cpu = nullptr;
  if (place == Place{} && cpu != nullptr && !cpu->closed()) [[likely]]
    return cpu->engine();
  const std::string device = place.device();
  auto found = default_engines().find(device);
  if (found == default_engines().end() || found->second.closed()) {
    EngineObject engine({.device = device, .record = default_record()});
    found = default_engines().insert_or_assign(device, std::move(engine)).first;
  }
  if (place == Place{}) cpu = &found->second;
  return found->second.engine();
}

}  // namespace

EngineObject::EngineObject(OpenOptions options) : device_(options.device) {
  auto* engine =
      new Engine(value_or_raise(without_lock([&] { return Engine::open(std::move(options)); })));
  engine_ = {engine, [](Engine* ended) {
               // Its end waits for threads that may be in a callback, which needs the lock. Those
               // that the end of Python met there never come back.
               if (is_ending() && in_callback()) return;
               without_lock([&] { delete ended; });
             }};
}

std::shared_ptr<Engine> EngineObject::engine() const {
  if (!engine_) raise_bad_input("engine is closed");
  return engine_;
}

std::shared_ptr<Engine> engine_of(PyObject* given, const Place& place) {
  if (given == nullptr) return default_engine(place);
  if (!py::isinstance<EngineObject>(given))
    raise_type_error(fmt::format("engine = {}: must be a kiln.Engine", Py_TYPE(given)->tp_name));
  const auto& object = made<EngineObject>(given, "Engine");
  if (object.device() == "cpu" ? place != Place{} : place == Place{})
    raise_bad_input(fmt::format("engine is of {}, a on {}", object.device(), place.device()));
  return object.engine();
}

void close_default_engines() {
  for (auto& [device, engine] : default_engines()) engine.close();
}

void bind_engine(py::module_& module) {
  py::class_<EngineObject>(module, "Engine")
      .def(py::init(&opened), py::arg("database") = py::none(), py::kw_only(),
           py::arg("device") = "cpu", py::arg("shipped") = py::tuple(),
           py::arg("policy") = "use_best_known", py::arg("determinism") = "run_to_run",
           py::arg("threads") = 0, py::arg("allow_vendor") = false,
           py::arg("on_untuned") = py::none(), py::arg("record") = py::none())
      .def("close", [](const py::object& self) { made<EngineObject>(self, "Engine").close(); })
      .def_property_readonly(
          "closed",
          [](const py::object& self) { return made<EngineObject>(self, "Engine").closed(); })
      .def_property_readonly("device", [](const py::object& self) {
        return made<EngineObject>(self, "Engine").device();
      });
  module.def("close_default_engines", &close_default_engines);
  module.def("record_default_engines", &record_default_engines, py::arg("file"));
}

}  // namespace kiln::python
