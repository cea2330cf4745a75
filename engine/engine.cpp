// The public face: open, and calls that go to a plan.
#include "kiln/engine.hpp"

#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sys/utsname.h>

#include <new>
#include <set>

#include "cache/records/winners.h"
#include "engine/engine_impl.h"
#include "generator/problem/spelling.h"
#include "generator/render/render.h"
#include "runtime/backend.h"
#include "runtime/cpu/blas_library.h"
#include "runtime/cpu/cpu.h"
#include "runtime/log.h"

namespace kiln {
namespace {

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
  tuning.begin_in_child();
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
  recorder.flush();  // plans may outlive this
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
    if (Status found = impl->find(); !found) return tl::unexpected(found.error());
    auto store = open_store(impl->options);
    if (!store) return tl::unexpected(store.error());
    impl->store = std::move(*store);
    if (Status opened = impl->recorder.open(); !opened) return tl::unexpected(opened.error());
    impl->now = {.template_hash = template_hash(impl->device.vendor),
                 .compiler = {},
                 .runtime = impl->gpu ? impl->gpu->runtime_version() : runtime_version()};
    return Engine(std::move(impl));
  });
}

Status Engine::Impl::run(const Gemm& gemm, const Operands& operands) {
  const int threads = operands.threads != 0 ? operands.threads : default_threads();
  if (const Plan::Impl* plan = resolver.known(gemm, threads)) [[likely]]
    return run_plan(*plan, operands);
  const auto resolved = resolver.plan_for(gemm, threads);
  if (!resolved) return tl::unexpected(resolved.error());
  return run_plan(**resolved, operands);
}

Status Engine::gemm(const Gemm& gemm, const Operands& operands) {
  // On a CPU any address is as good, and the problem is looked up as it is.
  if (impl_->gpu && gemm.alignment == 1)
    return impl_->run(impl_->with_defaults(gemm, operands), operands);
  return impl_->run(gemm, operands);
}

Result<Plan> Engine::plan(const Gemm& gemm, int threads) {
  auto plan = impl_->resolver.plan_for(impl_->with_defaults(gemm), threads);
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
  return shielded(
      [&] { return impl_->tuning.tune_and_confirm(impl_->with_defaults(gemm), options); });
}

Result<RangeReport> Engine::tune(const GemmRange& range, const TuneOptions& options) {
  return shielded(
      [&] { return impl_->tuning.tune_and_confirm(impl_->with_defaults(range), options); });
}

Result<std::string> Engine::source(const Gemm& gemm, int threads) {
  return shielded([&] { return impl_->source(impl_->with_defaults(gemm), threads); });
}

Result<std::string> Engine::explain(const Gemm& gemm, int threads) {
  return shielded([&] { return impl_->explain(impl_->with_defaults(gemm), threads); });
}

std::optional<Record> Engine::Impl::best(const BestKey& key, const Validators& with) {
  auto record = store->winners().best(key, with);
  if (!record || key.determinism != Determinism::batch_invariant) return record;
  const Config& config = record->measured.config;
  const bool allowed =
      broken_rule(key.problem(), key.device, config).empty() && allowed_by(key).allows(config);
  return allowed ? std::move(record) : std::nullopt;
}

std::optional<Record> Engine::Impl::exact_record(const Gemm& gemm, int threads,
                                                 std::span<const TuningPolicy> asked) {
  std::vector<Gemm> spellings{gemm};
  if (gpu && with_alignment_of_pitches(gemm) != gemm)
    spellings.push_back(with_alignment_of_pitches(gemm));
  for (const Gemm& as : spellings)
    for (const TuningPolicy policy : asked)
      if (auto record = best(key_of(as, threads, policy), now)) return record;
  return std::nullopt;
}

}  // namespace kiln
