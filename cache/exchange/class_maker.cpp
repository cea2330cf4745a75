#include "cache/exchange/class_maker.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "cache/keys.h"
#include "cache/records/binaries.h"
#include "cache/records/class_kernels.h"
#include "cache/records/measurements.h"
#include "cache/records/proofs.h"
#include "cache/records/winners.h"
#include "generator/render/code_key.h"
#include "generator/render/render.h"
#include "generator/space/launch_text.h"
#include "runtime/cpu/affinity.h"
#include "tuner/worker/check.h"

namespace kiln {
namespace {

/// A kernel of the list that is not stored yet.
struct ToMake {
  BestKey key;
  Config config;
  Source source;
};

/// The proofs name no runtime: see Engine::Impl::make_ready.
constexpr const char* kAnyRuntime = "any";

class Maker {
 public:
  Maker(Store& store, Compiler& compiler, const DeviceCaps& of_class, const ClassMaking& how)
      : store_(store),
        compiler_(compiler),
        of_class_(of_class),
        how_(how),
        made_by_{.template_hash = template_hash(of_class.vendor),
                 .compiler = compiler.version(),
                 .runtime = kAnyRuntime} {}

  /// What has to be made. Errors: internal (the list has a config that cannot be rendered).
  Result<std::vector<ToMake>> missing(std::span<const ClassKernel> list) {
    std::vector<ToMake> all;
    std::set<std::pair<std::string, std::string>> known;
    std::set<std::string> kinds;
    for (const auto& [gemm, config] : list) {
      const BestKey key = class_key(of_class_, gemm);
      const Problem problem = key.problem();
      auto source = render(problem, of_class_, config);
      if (!source) return tl::unexpected(source.error());
      const std::string kind = class_text(key.gemm), code = code_key(*source);
      kinds.insert(kind);
      // The division of work is an argument: kernels that differ in it alone are one binary.
      if (!known.emplace(kind, code + launch_text(problem, of_class_, config)).second)
        ++report_.same_code;
      else if (is_there(key, config, code))
        ++report_.there;
      else
        all.push_back({key, config, std::move(*source)});
    }
    report_.kinds = static_cast<int>(kinds.size());
    return all;
  }

  /// Errors: database, device.
  Status make_all(const std::vector<ToMake>& all) {
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
      auto checker = Checker::start({}, of_class_, {.seed = 1, .effort = Effort::quick});
      if (!checker) return stop(checker.error());
      for (std::size_t i; (i = next++) < all.size() && !stopped();) {
        make(all[i], *checker);
        const std::lock_guard lock(reporting_);
        if (how_.progress) how_.progress(++done_, static_cast<int>(all.size()));
      }
    };
    const auto cores = static_cast<std::size_t>(usable_threads());
    const std::size_t jobs = how_.jobs > 0 ? static_cast<std::size_t>(how_.jobs) : cores;
    {
      std::vector<std::jthread> others;
      for (std::size_t i = 1; i < std::min(jobs, all.size()); ++i) others.emplace_back(work);
      work();
    }
    if (stopped_by_) return tl::unexpected(*stopped_by_);
    return {};
  }

  ClassReport take_report() { return std::move(report_); }

 private:
  bool is_there(const BestKey& key, const Config& config, const std::string& code) {
    const auto record = store_.winners().best(key, {.runtime = kAnyRuntime});
    if (!record || record->measured.config != config || record->image.empty()) return false;
    const auto stored = store_.binaries().by_key(record->measured.binary_key);
    return stored && stored->code_key == code && store_.proofs().envelope_proven(*record);
  }

  void make(const ToMake& one, Checker& checker) {
    const auto failed = [&](const std::string& reason) {
      const std::lock_guard lock(reporting_);
      report_.failed.push_back(
          fmt::format("config '{}' for {}: {}", text(one.config), text(one.key.gemm), reason));
    };
    const auto binary = code_of(one.source);
    if (!binary) return failed(binary.error().message);
    const Verdict proof = checker.check_envelope(one.key.gemm, one.config, *binary);
    if (!proof)
      return failed(fmt::format("{}: {}", name(proof.error().kind), proof.error().detail));
    if (Status kept = keep(one, *binary); !kept) return stop(kept.error());
    const std::lock_guard lock(reporting_);
    ++report_.made;
  }

  /// Compiled once for all ways to divide its work.
  Result<Binary> code_of(const Source& source) {
    if (auto stored = store_.binaries().by_key(binary_key(source, made_by_.compiler));
        stored && !stored->image.empty())
      return Binary{.image = std::move(stored->image)};
    return compiler_.compile(source);
  }

  Status keep(const ToMake& one, const Binary& binary) {
    const double ns = predict_ns(one.key.problem(), of_class_, one.config);
    Record record{.key = one.key, .validators = made_by_};
    record.measured = {
        .config = one.config,
        .predicted_ns = ns,
        .outcome = Timing{.median_ns = ns, .low_ns = ns, .high_ns = ns, .samples = 0},
        .round = Round::screen,
        .verified = true,
        .binary_key = binary_key(one.source, made_by_.compiler)};
    // Without the source, which would be half of the file; explain() renders it again.
    const StoredBinary code{.key = record.measured.binary_key,
                            .code_key = code_key(one.source),
                            .compiler = made_by_.compiler,
                            .image = binary.image};
    if (Status ok = store_.measurements().put(record.key, made_by_, record.measured); !ok)
      return ok;
    if (Status ok = store_.binaries().put(code); !ok) return ok;
    if (Status ok = store_.winners().make_winner(record.key, made_by_, one.config); !ok) return ok;
    return store_.proofs().proved_envelope(record);
  }

  void stop(const Error& error) {
    const std::lock_guard lock(reporting_);
    if (!stopped_by_) stopped_by_ = error;
  }
  bool stopped() {
    const std::lock_guard lock(reporting_);
    return stopped_by_ || (how_.cancelled && how_.cancelled());
  }

  Store& store_;
  Compiler& compiler_;
  const DeviceCaps& of_class_;
  const ClassMaking& how_;
  const Validators made_by_;
  std::mutex reporting_;
  ClassReport report_;
  int done_ = 0;
  std::optional<Error> stopped_by_;
};

}  // namespace

Result<ClassReport> make_class(Store& store, Compiler& compiler, const DeviceCaps& of_class,
                               std::span<const ClassKernel> list, const ClassMaking& how) {
  Maker maker(store, compiler, of_class, how);
  const auto all = maker.missing(list);
  if (!all) return tl::unexpected(all.error());
  if (Status made = maker.make_all(*all); !made) return tl::unexpected(made.error());
  return maker.take_report();
}

}  // namespace kiln
