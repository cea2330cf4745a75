#include "tuner/worker/program/verifiers.h"

#include <fmt/format.h>

#include "tuner/verify/ragged.h"

namespace kiln {
namespace {

tl::unexpected<Failure> not_loaded(const Error& error) {
  return tl::unexpected(Failure{Failure::Kind::load, error.message});
}

}  // namespace

Result<Verifiers> Verifiers::make(const HarnessInput& input) {
  auto problem = Verifier::make(input.gemm, input.options);
  if (!problem) return tl::unexpected(problem.error());
  return Verifiers(input, std::move(*problem));
}

Verdict Verifiers::check(const CodeOn& code, double flushed) {
  const auto run = code(input_.gemm);
  return run ? problem_.check(*run, flushed) : not_loaded(run.error());
}

Verdict Verifiers::check_ragged(const CodeOn& code, const Config& config, double flushed) {
  const auto neighbour = ragged_problem_for(input_.gemm, input_.device, config);
  if (!neighbour) return {};
  if (!ragged_ || ragged_->gemm() != *neighbour) {
    // While tuning, the problem itself had the thorough check.
    auto made =
        Verifier::make(*neighbour, {.seed = input_.options.seed,
                                    .effort = input_.timed ? Effort::quick : input_.options.effort,
                                    .ask_for_room = false});
    if (!made) return tl::unexpected(resources(made.error()));
    ragged_.emplace(std::move(*made));
  }
  const auto run = code(*neighbour);
  if (!run) return not_loaded(run.error());
  Verdict verdict = ragged_->check(*run, flushed);
  if (!verdict) verdict.error().detail += fmt::format(" (the same code on '{}')", text(*neighbour));
  return verdict;
}

}  // namespace kiln
