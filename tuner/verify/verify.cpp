#include "tuner/verify/verify.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "generator/problem/extent.h"
#include "runtime/memory.h"
#include "tuner/verify/data_set.h"
#include "tuner/verify/judge.h"

namespace kiln {
namespace {

struct Case {
  DataRecipe recipe;
  Run run;
};

/// What all operand sets of one problem may take: a quarter of the machine's memory, in bytes.
std::size_t memory_share() {
  static const std::size_t share = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                                   static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) / 4;
  return share;
}

Effort resolved(const Gemm& gemm, Effort effort) {
  if (effort != Effort::automatic) return effort;
  // Fractions of a second of a core at usual speeds.
  if (gemm.flops() > 0x1p33) return Effort::quick;
  return gemm.flops() > 0x1p29 ? Effort::usual : Effort::full;
}

/// In-place needs C laid out as D, and a D.
bool same_layout(const Gemm& gemm) {
  return gemm.epilogue.expression.stores_d() && gemm.ldc() == gemm.ldd() &&
         (gemm.batch == 1 || gemm.stride_c() == gemm.stride_d());
}

/// The same of every product of a list, whose leading dimensions are drawn.
bool c_lies_as_d(const std::vector<ProductPart>& parts) {
  return std::ranges::all_of(parts, [](const ProductPart& part) { return same_layout(part.gemm); });
}

/// The cheapest and most telling first: most wrong kernels fall at once. Guards lie after the data
/// on some runs and before on others, so that straying either way is seen without luck; the first
/// run's D has canaries after it, which name a short overrun where a fault would only crash.
std::vector<Case> cases_with_c(const Gemm& gemm, const VerifyOptions& options) {
  const Effort effort = resolved(gemm, options.effort);
  const DataRecipe exact{.data = Data::exact, .seed = options.seed, .guard = Guard::before};
  const DataRecipe uniform{.data = Data::uniform, .seed = options.seed + 1, .guard = Guard::after};
  const auto [alpha, beta] = uniform_scalars(gemm);
  const Run::C in_place = same_layout(gemm) ? Run::C::in_place : Run::C::separate;
  std::vector<Case> cases{{exact, {1.0, 0.0, Run::C::unread}},
                          {uniform, {alpha, beta, Run::C::separate}}};
  if (effort == Effort::quick) return cases;
  cases.push_back({exact, {-2.0, 1.0, in_place}});
  if (effort == Effort::usual) return cases;

  const DataRecipe exact_again{
      .data = Data::exact, .seed = options.seed + 2, .guard = Guard::after};
  const DataRecipe uniform_again{
      .data = Data::uniform, .seed = options.seed + 3, .guard = Guard::before};
  cases.push_back({uniform, {1.0, 0.0, Run::C::absent}});
  cases.push_back({uniform_again, {-alpha, 1.0, in_place}});
  cases.push_back({exact_again, {2.0, -1.0, Run::C::separate}});
  if (is_floating(gemm.a.dtype) && DataSet::whole_is_cheap(gemm)) {
    DataRecipe nonfinite = uniform_again;
    nonfinite.nonfinite = true;
    cases.push_back({nonfinite, {1.0, 0.0, Run::C::unread}});
  }
  if (tiny_exponents(gemm)) {
    DataRecipe tiny = exact;
    tiny.tiny = true;
    cases.push_back({tiny, {1.0, 0.0, Run::C::unread}});
  }
  return cases;
}

std::vector<Case> cases_for(const Gemm& gemm, const VerifyOptions& options) {
  std::vector<Case> cases = cases_with_c(gemm, options);
  if (present(gemm, Operand::c)) return cases;
  for (Case& one : cases) one.run.beta = 0.0, one.run.c = Run::C::absent;
  return cases;
}

}  // namespace

struct Verifier::Impl {
  Gemm gemm;
  std::vector<Case> cases;
  std::vector<DataSet> sets;  // one for each recipe met so far
  struct Guarded {
    std::optional<GuardedBuffer> before, after;  // by the side of the guard
  };
  std::array<Guarded, kOperandCount> outputs;
  std::optional<GuardedBuffer> unread_c;
  using Written = std::array<const GuardedBuffer*, kOperandCount>;  // null: no output

  Result<DataSet*> set_of(const DataRecipe& recipe);
  Result<GuardedBuffer*> output(Operand which, Guard guard);
  Result<GuardedBuffer*> poisoned_c();
  Verdict check(const Case& test, const RunKernel& run);
  Verdict judge(DataSet& set, const Run& run, const Written& written);
};

namespace {

tl::unexpected<Failure> no_memory(const Error& error) {
  return tl::unexpected(Failure{Failure::Kind::resources, "operands: " + error.message});
}

tl::unexpected<Failure> strayed(std::string what) {
  return tl::unexpected(Failure{Failure::Kind::out_of_bounds, std::move(what)});
}

/// `operands` write to these buffers.
void bind_written(const std::array<const GuardedBuffer*, kOperandCount>& written,
                  Operands& operands) {
  for_each_operand([&](auto which) {
    constexpr Operand kWhich = which;
    if constexpr (may_be_written(kWhich))
      if (const GuardedBuffer* output = written[index_of(kWhich)])
        pointer<kWhich>(operands) = output->data();
  });
}

/// Makes `slot` on first use: as large as an operand, whose type it has.
Result<GuardedBuffer*> make_once(std::optional<GuardedBuffer>& slot, const Gemm& gemm,
                                 Operand which, Guard guard) {
  if (!slot) {
    const auto bytes = static_cast<std::size_t>(span_bytes(gemm, which));
    const int alignment = std::max(address_alignment(gemm, which), size_of(dtype_of(gemm, which)));
    auto made = GuardedBuffer::make(bytes, alignment, guard);
    if (!made) return tl::unexpected(made.error());
    slot.emplace(std::move(*made));
  }
  return &*slot;
}

}  // namespace

Result<DataSet*> Verifier::Impl::set_of(const DataRecipe& recipe) {
  for (DataSet& set : sets)
    if (set.recipe() == recipe) return &set;
  // Kept while they fit; for a larger problem each is made again for each kernel.
  std::size_t held = 0;
  for (const DataSet& set : sets) held += set.bytes();
  if (!sets.empty() && held + sets.front().bytes() > memory_share()) sets.clear();
  auto made = DataSet::make(gemm, recipe);
  if (!made) return tl::unexpected(made.error());
  return &sets.emplace_back(std::move(*made));
}

Result<GuardedBuffer*> Verifier::Impl::output(Operand which, Guard guard) {
  auto& slots = outputs[index_of(which)];
  auto& slot = guard == Guard::before ? slots.before : slots.after;
  auto buffer = make_once(slot, gemm, which, guard);
  if (buffer) poison(dtype_of(gemm, which), {(*buffer)->data(), (*buffer)->size()});
  return buffer;
}

/// Poisoned on first use and never to be changed by anyone.
Result<GuardedBuffer*> Verifier::Impl::poisoned_c() {
  const bool fresh = !unread_c;
  auto buffer = make_once(unread_c, gemm, Operand::c, Guard::after);
  if (buffer && fresh) poison(gemm.c.dtype, {(*buffer)->data(), (*buffer)->size()});
  return buffer;
}

Verdict Verifier::Impl::check(const Case& test, const RunKernel& run) {
  auto set = set_of(test.recipe);
  if (!set) return no_memory(set.error());
  Written written{};
  for (const Operand which : kOperands) {
    if (!is_output(gemm, which)) continue;
    auto made = output(which, test.recipe.guard);
    if (!made) return no_memory(made.error());
    written[index_of(which)] = *made;
  }
  const GuardedBuffer& d = *written[index_of(Operand::d)];

  Operands operands;
  (*set)->bind(operands);
  bind_written(written, operands);
  operands.alpha = test.run.alpha;
  operands.beta = test.run.beta;
  Run ran = test.run;
  if (ran.c == Run::C::in_place && !c_lies_as_d((*set)->parts())) ran.c = Run::C::separate;
  switch (ran.c) {
    case Run::C::separate:
      break;
    case Run::C::absent:
      operands.c = nullptr;
      break;
    case Run::C::in_place:
      std::memcpy(d.data(), operands.c, d.size());
      operands.c = d.data();
      break;
    case Run::C::unread: {
      auto unread = poisoned_c();
      if (!unread) return no_memory(unread.error());
      operands.c = (*unread)->data();
    }
  }
  std::vector<ListEntry> list;
  if (Status status = run((*set)->call(operands, list)); !status)
    return tl::unexpected(
        Failure{Failure::Kind::wrong_result, "the call failed: " + status.error().message});
  return judge(**set, ran, written);
}

/// Stray writes first: they explain wrong values better than the values do.
Verdict Verifier::Impl::judge(DataSet& set, const Run& run, const Written& written) {
  for (const Operand which : kOperands)
    if (const GuardedBuffer* output = written[index_of(which)])
      if (auto damage = output->damage())
        return strayed(fmt::format("{}: {}", which == Operand::d ? "D" : name(which), *damage));
  if (auto tampering = set.tampering()) return strayed(*tampering);
  if (run.c == Run::C::unread)
    if (auto damage = unread_c->damage()) return strayed("C: " + *damage);
  Operands outputs;
  bind_written(written, outputs);
  const Outputs got = Outputs::of(outputs);
  if (auto failure = judge_paddings(gemm, got)) return tl::unexpected(std::move(*failure));
  if (auto failure = judge_values(set, run, got)) return tl::unexpected(std::move(*failure));
  return {};
}

Verifier::Verifier(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Verifier::Verifier(Verifier&&) noexcept = default;
Verifier& Verifier::operator=(Verifier&&) noexcept = default;
Verifier::~Verifier() = default;

std::pair<double, double> uniform_scalars(const Gemm& gemm) {
  const double beta = present(gemm, Operand::c) ? -0.6 : 0.0;
  if (gemm.accumulator != DType::s32 || size_of(gemm.d.dtype) > 2) return {0.7, beta};
  const double typical_sum = 73.0 * 73.0 * std::sqrt(static_cast<double>(gemm.k) + 1.0);
  return {40.0 / typical_sum, beta};
}

// Sets beyond memory_share() are not kept beside one another, so one is the least; D has a buffer
// for each side of its guard, and C one that must not be read.
double Verifier::bytes_needed(const Gemm& gemm) {
  const double elements = gemm.outputs() * (present(gemm, Operand::c) ? 1 : 2);
  return DataSet::bytes_needed(gemm) +
         2.0 * double(span_bytes(gemm, Operand::d) + bytes_beside_d(gemm)) +
         double(span_bytes(gemm, Operand::c)) + elements * sizeof(std::int32_t) +
         (adds_rows(gemm) ? 2.0 * sizeof(double) * double(span(gemm, Operand::d)) : 0);
}

Result<Verifier> Verifier::make(const Gemm& gemm, const VerifyOptions& options) {
  if (const auto problem = Problem::of(gemm); !problem) return tl::unexpected(problem.error());
  if (options.ask_for_room)
    if (Status room = room_for(bytes_needed(gemm), available_memory(),
                               fmt::format("operands and reference of '{}'", text(gemm)));
        !room)
      return tl::unexpected(room.error());
  auto impl = std::make_unique<Impl>();
  impl->gemm = gemm;
  impl->cases = cases_for(gemm, options);
  return Verifier(std::move(impl));
}

Verdict Verifier::check(const RunKernel& run, double flushed) {
  try {
    for (Case test : impl_->cases) {
      const bool integers = test.recipe.data == Data::exact && !test.recipe.tiny;
      test.run.flushed = integers ? 0 : flushed;  // no integer is denormal
      if (Verdict verdict = impl_->check(test, run); !verdict) return verdict;
    }
  } catch (const std::bad_alloc&) {  // a worker's memory is limited
    return tl::unexpected(Failure{Failure::Kind::resources,
                                  fmt::format("references: no memory for {}", text(impl_->gemm))});
  }
  return {};
}

bool Verifier::owns(const void* address) const {
  for (const DataSet& set : impl_->sets)
    if (set.owns(address)) return true;
  const auto owned = [&](const std::optional<GuardedBuffer>& x) { return x && x->owns(address); };
  return owned(impl_->unread_c) ||
         std::ranges::any_of(impl_->outputs, [&](const Impl::Guarded& output) {
           return owned(output.before) || owned(output.after);
         });
}

const Gemm& Verifier::gemm() const { return impl_->gemm; }
int Verifier::runs() const { return static_cast<int>(impl_->cases.size()); }

Verdict verify(const Gemm& gemm, const RunKernel& run, const VerifyOptions& options,
               double flushed) {
  auto verifier = Verifier::make(gemm, options);
  if (!verifier)
    return tl::unexpected(
        Failure{Failure::Kind::wrong_result, "no such problem: " + verifier.error().message});
  return verifier->check(run, flushed);
}

}  // namespace kiln
