#include "tune.h"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <exception>

#include "chosen.h"
#include "engine.h"
#include "errors.h"
#include "lock.h"
#include "made.h"
#include "problem.h"

namespace kiln::python {
namespace {

constexpr const char* kPackedB = R"(PackedB(b, *, threads=0, engine=None)

A copy of ``b`` in the order in which kernels read it, for any number of calls `matmul(a, packed)`:
of any ``a``, threads and engine. ``b`` may change or end meanwhile. CPUs only.

>>> import numpy as np
>>> w = np.ones((64, 32), np.float32)
>>> packed = PackedB(w)
>>> packed.shape, packed.dtype
((64, 32), 'float32')
>>> matmul(np.ones((8, 64), np.float32), packed)[0, 0]
64.0
)";

constexpr std::pair<const char*, TuningPolicy> kTuningPolicies[] = {
    {"cool", TuningPolicy::cool},
    {"sustained", TuningPolicy::sustained},
    {"auto", TuningPolicy::automatic}};

constexpr const char* kStages[] = {"space", "compile", "screen", "verify", "race", "done"};

/// The callbacks of one search. What Python throws in one (KeyboardInterrupt, say) cancels it and
/// is thrown again when tune() has returned.
class Watch {
 public:
  explicit Watch(py::object progress) : progress_(std::move(progress)) {}

  void tell(const Progress& state) {
    if (progress_.is_none()) return;
    locked([&] {
      call_python(progress_, py::make_tuple(kStages[static_cast<int>(state.stage)], state.done,
                                            state.total, state.seconds));
    });
  }
  /// Also where Python ends.
  bool cancelled() {
    const bool asked = locked([] {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    });
    return !asked || thrown_ != nullptr;
  }
  void rethrow() const {
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  /// False: Python ends, and nothing was called.
  template <typename F>
  bool locked(const F& f) {
    return with_lock([&] {
      try {
        if (!thrown_) f();
      } catch (const ForcedUnwind&) {
        hang();
      } catch (...) {
        thrown_ = std::current_exception();
      }
    });
  }

  py::object progress_;
  std::exception_ptr thrown_;
};

Place place_of(const std::string& device) {
  const auto colon = device.find(':');
  if (colon == device.npos) return {};
  const auto kind = device.starts_with("hip") ? Place::Kind::hip : Place::Kind::cuda;
  return {kind, std::stoi(device.substr(colon + 1))};
}

std::shared_ptr<Engine> engine_for(const py::object& engine, const std::string& device) {
  if (engine.is_none()) return engine_of(nullptr, place_of(device));
  return made<EngineObject>(engine, "Engine").engine();
}

py::object tune(const std::string& line, double budget, int candidates, std::uint64_t seed,
                int threads, bool force, bool race, const std::string& policy,
                const py::object& progress, const py::object& engine, const std::string& device) {
  const auto keeper = engine_for(engine, device);
  Watch watch(progress);
  const TuneOptions options{.budget = std::chrono::duration<double>(budget),
                            .candidates = candidates,
                            .seed = seed,
                            .threads = threads,
                            .force = force,
                            .race = race,
                            .policy = chosen(kTuningPolicies, policy, "policy"),
                            .progress = [&](const Progress& state) { watch.tell(state); },
                            .cancelled = [&] { return watch.cancelled(); }};
  const auto run = [&](const auto& problem) {
    auto result = without_lock([&] { return keeper->tune(problem, options); });
    watch.rethrow();
    return py::cast(value_or_raise(std::move(result)));
  };
  if (names_range(line)) return run(value_or_raise(parse_gemm_range(line)));
  return run(value_or_raise(parse_gemm(line)));
}

/// explain() or source() of the engine.
template <Result<std::string> (Engine::*kDescribe)(const Gemm&, int)>
std::string described(const std::string& line, int threads, const py::object& engine,
                      const std::string& device) {
  const auto keeper = engine_for(engine, device);
  const Gemm gemm = value_or_raise(parse_gemm(line));
  return value_or_raise(without_lock([&] { return ((*keeper).*kDescribe)(gemm, threads); }));
}

std::unique_ptr<PackedObject> pack(const py::object& b, int threads, const py::object& engine) {
  const Packing packing = packing_of(b.ptr());
  const auto keeper = engine_of(engine.is_none() ? nullptr : engine.ptr(), packing.b.place);
  auto packed = without_lock([&] { return keeper->pack_b(packing.gemm, packing.b.data, threads); });
  const Gemm& g = packing.gemm;
  return std::make_unique<PackedObject>(PackedObject{
      value_or_raise(std::move(packed)), packing.b.type, packing.b.dims, g.batch, g.k, g.n});
}

std::string repr(const TuneReport& report) {
  return fmt::format("<TuneReport {}: {}, {:.2f} us>", text(report.gemm), report.config,
                     report.timing.median_ns / 1e3);
}

void bind_reports(py::module_& module) {
  py::class_<TuneReport> tuned(module, "TuneReport");
  tuned.def_property_readonly("problem", [](const TuneReport& r) { return text(r.gemm); })
      .def_readonly("threads", &TuneReport::threads)
      .def_readonly("config", &TuneReport::config)
      .def_readonly("policy", &TuneReport::policy)
      .def_property_readonly("median_ns", [](const TuneReport& r) { return r.timing.median_ns; })
      .def_property_readonly("low_ns", [](const TuneReport& r) { return r.timing.low_ns; })
      .def_property_readonly("high_ns", [](const TuneReport& r) { return r.timing.high_ns; })
      .def_property_readonly("joules", [](const TuneReport& r) { return r.timing.joules; })
      .def_property_readonly("sm_mhz", [](const TuneReport& r) { return r.timing.sm_mhz; })
      .def_readonly("enumerated", &TuneReport::enumerated)
      .def_readonly("compiled", &TuneReport::compiled)
      .def_readonly("measured", &TuneReport::measured)
      .def_readonly("failed", &TuneReport::failed)
      .def_readonly("seconds", &TuneReport::seconds)
      .def_readonly("already_tuned", &TuneReport::already_tuned)
      .def_readonly("peak_flops", &TuneReport::peak_flops)
      .def_readonly("conditions", &TuneReport::conditions)
      .def_readonly("stored", &TuneReport::stored)
      .def_readonly("disturbed", &TuneReport::disturbed)
      .def_readonly("warnings", &TuneReport::warnings)
      .def("__repr__", &repr);
  py::class_<RangeReport::Part> part(module, "RangePart");
  part.def_readonly("last", &RangeReport::Part::last)
      .def_readonly("config", &RangeReport::Part::config)
      .def_readonly("tuned_at", &RangeReport::Part::tuned_at)
      .def_readonly("expected_ns", &RangeReport::Part::expected_ns);
  py::class_<RangeReport> range(module, "RangeReport");
  range.def_property_readonly("problem", [](const RangeReport& r) { return text(r.range); })
      .def_readonly("threads", &RangeReport::threads)
      .def_readonly("parts", &RangeReport::parts)
      .def_readonly("kernels", &RangeReport::kernels)
      .def_readonly("searched", &RangeReport::searched)
      .def_readonly("measured", &RangeReport::measured)
      .def_readonly("seconds", &RangeReport::seconds)
      .def_readonly("already_tuned", &RangeReport::already_tuned)
      .def_readonly("stored", &RangeReport::stored)
      .def_readonly("warnings", &RangeReport::warnings);
  make_nowhere_else(tuned);
  make_nowhere_else(part);
  make_nowhere_else(range);
}

}  // namespace

const PackedObject* packed_in(PyObject* object) {
  static const PyObject* const type = py::type::of<PackedObject>().release().ptr();
  if (reinterpret_cast<PyObject*>(Py_TYPE(object)) != type) return nullptr;
  return &made<PackedObject>(object, "PackedB");
}

void bind_tune(py::module_& module) {
  bind_reports(module);
  module.def("tune", &tune, py::arg("problem"), py::kw_only(), py::arg("budget"),
             py::arg("candidates"), py::arg("seed"), py::arg("threads"), py::arg("force"),
             py::arg("race"), py::arg("policy"), py::arg("progress"), py::arg("engine"),
             py::arg("device"));
  module.def("explain", &described<&Engine::explain>, py::arg("problem"), py::kw_only(),
             py::arg("threads"), py::arg("engine"), py::arg("device"));
  module.def("source", &described<&Engine::source>, py::arg("problem"), py::kw_only(),
             py::arg("threads"), py::arg("engine"), py::arg("device"));
  py::class_<PackedObject>(module, "PackedB", kPackedB)
      .def(py::init(&pack), py::arg("b"), py::kw_only(), py::arg("threads") = 0,
           py::arg("engine") = py::none())
      .def_property_readonly(
          "nbytes",
          [](const py::object& self) { return made<PackedObject>(self, "PackedB").packed.bytes(); })
      .def_property_readonly("dtype",
                             [](const py::object& self) {
                               return python_name(made<PackedObject>(self, "PackedB").type);
                             })
      .def_property_readonly("shape", [](const py::object& self) -> py::tuple {
        const PackedObject& p = made<PackedObject>(self, "PackedB");
        if (p.dims == 3) return py::make_tuple(p.batch, p.k, p.n);
        return py::make_tuple(p.k, p.n);
      });
}

}  // namespace kiln::python
