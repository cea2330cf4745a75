// The public face: open, and calls that go to a plan.
#include "kiln/engine.hpp"

#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sys/utsname.h>

#include <new>
#include <set>

#include "engine/engine_impl.h"
#include "generator/render/render.h"
#include "runtime/backend.h"
#include "runtime/cpu/blas_library.h"
#include "runtime/cpu/cpu.h"
#include "runtime/log.h"

namespace kiln {
namespace {

Status unknown_device(const std::string& name) {
  if (name.starts_with("emu:"))
    return fail(
        ErrorCode::unsupported,
        fmt::format(
            "device = {}: gemm() does not run on the emulator, which only verifies kernels: "
            "see `kiln verify`",
            name));
  return fail(ErrorCode::bad_input, fmt::format("device = {}: must be cpu, {}", name, gpu_names()));
}

/// Finds what `impl.options.device` names. Errors: bad_input (no such name), device (none here).
Status find_device(Engine::Impl& impl) {
  const std::string& name = impl.options.device;
  if (names_gpu(name)) {
    auto gpu = open_gpu(name);
    if (!gpu) return tl::unexpected(gpu.error());
    impl.gpu = std::move(*gpu);
    impl.device = impl.gpu->caps();
    impl.gpu_shared = std::make_shared<GpuResources>(impl.gpu);
  } else if (name == backend_of(Vendor::cpu).name) {
    reread_cores();
    const auto caps = detect_cpu();
    if (!caps) return tl::unexpected(caps.error());
    impl.device = *caps;
  } else {
    return unknown_device(name);
  }
  impl.backend = backend_of(impl.device.vendor);
  return {};
}

/// A path that the caller or $KILN_DB named must open; the default one may fail (no home, a
/// read-only one): then nothing is remembered, and everything else works.
Result<std::unique_ptr<Store>> open_store(const OpenOptions& options) {
  StoreOptions wanted = store_options(options.database, options.shipped);
  std::error_code ignored;
  auto store = Store::open(wanted);
  if (store || !wanted.by_default || std::filesystem::exists(wanted.database, ignored))
    return store;
  log::warn("{}; winners will not be stored", store.error().message);
  wanted.database.clear();
  return Store::open(wanted);
}

}  // namespace

std::string runtime_version() {
  utsname system{};
  ::uname(&system);
  const std::string_view release = system.release;
  const std::size_t minor = release.find('.');
  // Patch levels of the system's kernel change nothing that generated code relies on.
  const auto end = release.find_first_not_of("0123456789", minor == release.npos ? 0 : minor + 1);
  return fmt::format("kiln {}, glibc {}, {} {}", version(), gnu_get_libc_version(), system.sysname,
                     release.substr(0, end));
}

namespace {

/// Those of this process: a forked child begins with what they know, and without their threads.
struct LiveEngines {
  std::mutex mutex;  // free at a fork, as all QuietLocks
  std::set<Engine::Impl*> all;

  /// Never destroyed: exit() may come before or after any static object's end.
  static LiveEngines& get() {
    static LiveEngines& live = []() -> LiveEngines& {
      ForkGate::at_fork({nullptr, nullptr, [] {
                           for (Engine::Impl* engine : get().all) engine->begin_in_child();
                         }});
      return *new LiveEngines;
    }();
    return live;
  }
};

}  // namespace

void Engine::Impl::live() {
  LiveEngines& live = LiveEngines::get();
  const QuietLock lock(live.mutex);
  live.all.insert(this);
}

void Engine::Impl::begin_in_child() {
  // A search may have been going on, and holds `tuning` for long: fork() does not wait for it.
  new (&tuning) std::mutex;
  background.begin_in_child();
}

Engine::Impl::~Impl() {
  close();
  LiveEngines& live = LiveEngines::get();
  const QuietLock lock(live.mutex);
  live.all.erase(this);
}

void Engine::Impl::close() {
  background.close();
  if (recorder) recorder->flush();  // plans may outlive this
}

Engine::Engine(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&& other) noexcept {
  const NoCancel whole;
  if (impl_ && impl_ != other.impl_) impl_->close();
  impl_ = std::move(other.impl_);
  return *this;
}
Engine::~Engine() {
  const NoCancel whole;  // closing waits for threads and files, and is noexcept
  if (impl_) impl_->close();
  impl_.reset();
}

Result<Engine> Engine::open(OpenOptions options) {
  return shielded([&]() -> Result<Engine> {
    const QuietScope scope;
    auto impl = std::make_shared<Impl>();
    impl->live();
    impl->options = std::move(options);
    if (Status found = find_device(*impl); !found) return tl::unexpected(found.error());
    if (impl->gpu) impl->named_threads = impl->device.compute_units;
    const auto threads = impl->threads_of(impl->options.threads);
    if (!threads) return tl::unexpected(threads.error());
    if (impl->options.threads != 0) impl->named_threads = *threads;
    auto store = open_store(impl->options);
    if (!store) return tl::unexpected(store.error());
    impl->store = std::move(*store);
    if (Status opened = impl->open_recorder(); !opened) return tl::unexpected(opened.error());
    impl->now = {.template_hash = template_hash(impl->device.vendor),
                 .compiler = {},
                 .runtime = impl->gpu ? impl->gpu->runtime_version() : runtime_version()};
    return Engine(std::move(impl));
  });
}

Status Engine::Impl::run(const Gemm& gemm, const Operands& operands) {
  const int threads = operands.threads != 0 ? operands.threads : default_threads();
  const PlanKey key = plan_key(gemm, threads);
  if (const Plan::Impl* plan = plans.find(key, hash_of(key))) [[likely]]
    return run_plan(*plan, operands);
  const auto resolved = plan_for(gemm, threads);
  if (!resolved) return tl::unexpected(resolved.error());
  return run_plan(**resolved, operands);
}

Status Engine::gemm(const Gemm& gemm, const Operands& operands) {
  // On a CPU any address is as good, and the problem is looked up as it is.
  if (impl_->gpu && gemm.alignment == 1) return impl_->run(impl_->spelt(gemm, operands), operands);
  return impl_->run(gemm, operands);
}

Result<Plan> Engine::plan(const Gemm& gemm, int threads) {
  auto plan = impl_->plan_for(impl_->spelt(gemm), threads);
  if (!plan) return tl::unexpected(plan.error());
  return Plan(std::move(*plan));
}

std::string_view blas_library() {
  const NoCancel whole;
  const QuietScope scope;  // a child would wait for the thread that opens it
  const auto& library = system_blas();
  return library == nullptr ? "" : std::string_view(library->path);
}

Result<TuneReport> Engine::tune(const Gemm& gemm, const TuneOptions& options) {
  return shielded([&] { return impl_->tune_and_confirm(impl_->spelt(gemm), options); });
}

Result<RangeReport> Engine::tune(const GemmRange& range, const TuneOptions& options) {
  return shielded([&] { return impl_->tune_and_confirm(impl_->spelt(range), options); });
}

Result<std::string> Engine::source(const Gemm& gemm, int threads) {
  return shielded([&] { return impl_->source(impl_->spelt(gemm), threads); });
}

Result<std::string> Engine::explain(const Gemm& gemm, int threads) {
  return shielded([&] { return impl_->explain(impl_->spelt(gemm), threads); });
}

}  // namespace kiln
