// A GPU's kernels on the emulator, in this process's memory: verified, never timed.
#include "generator/space/family.h"
#include "runtime/cpu/image.h"
#include "runtime/emulator/kernel.h"
#include "tuner/worker/program/cage.h"
#include "tuner/worker/program/verifiers.h"

namespace kiln {
namespace {

/// The first run keeps the plain order of waves; each later one draws its own.
CodeOn emulated_code(std::span<const std::byte> image, const HarnessInput& input,
                     const Config& config) {
  return [image = std::vector(image.begin(), image.end()), device = input.device, config,
          seed = input.options.seed](const Gemm& on) -> Result<RunKernel> {
    const Problem problem = Problem::of(on).value();
    auto loaded = EmulatedKernel::load(
        image, family_of(config, device.vendor).launch(problem, device, config), device);
    if (!loaded) return tl::unexpected(loaded.error());
    const auto kernel = std::make_shared<EmulatedKernel>(std::move(*loaded));
    return [kernel, problem, seed, run = std::uint64_t{0}](const Operands& operands) mutable {
      const std::uint64_t order = run == 0 ? 0 : seed + run;
      ++run;
      return kernel->call(problem, operands, order);
    };
  };
}

Failure never_timed() { return {Failure::Kind::resources, "the emulator times nothing"}; }

class EmulatedCandidate final : public Candidate {
 public:
  EmulatedCandidate(CodeOn code, Config config, Verifiers& verifiers)
      : code_(std::move(code)), config_(std::move(config)), verifiers_(verifiers) {}

  // The emulator keeps denormals, whatever the device it stands for does.
  Verdict check() override { return verifiers_.check(code_, 0); }
  Verdict check_ragged() override { return verifiers_.check_ragged(code_, config_, 0); }
  tl::expected<std::unique_ptr<Contender>, Failure> contender() override {
    return tl::unexpected(never_timed());
  }

 private:
  CodeOn code_;
  Config config_;
  Verifiers& verifiers_;
};

class EmulatedHarness final : public Harness {
 public:
  Status prepare(const HarnessInput& input) override {
    if (input.timed) return fail(ErrorCode::unsupported, never_timed().detail);
    auto made = Verifiers::make(input);
    if (!made) return tl::unexpected(made.error());
    input_ = input;
    verifiers_.emplace(std::move(*made));
    return {};
  }
  bool serves_many() const override { return false; }
  /// The emulator's lanes have stacks of their own, as many as a GPU has threads: no limit of
  /// address space.
  std::string confine(WorkerStatus* status) override {
    LoadedImage::prepare();
    return enter_cage(CageKind::host, status);
  }
  int sets() const override { return 0; }
  tl::expected<std::unique_ptr<Candidate>, Failure> load(std::span<const std::byte> image,
                                                         const Config& config) override {
    return std::make_unique<EmulatedCandidate>(emulated_code(image, input_, config), config,
                                               *verifiers_);
  }
  bool checks_first() const override { return true; }
  bool checks_after_race() const override { return false; }
  tl::expected<Raced, Failure> race(std::span<Contender* const>, const RaceRules&) override {
    return tl::unexpected(never_timed());
  }

 private:
  HarnessInput input_;
  std::optional<Verifiers> verifiers_;
};

}  // namespace

std::unique_ptr<Harness> emulated_harness() { return std::make_unique<EmulatedHarness>(); }

}  // namespace kiln
