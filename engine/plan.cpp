#include "engine/plan.h"

#define XXH_INLINE_ALL  // the call costs as much as the hash
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdlib>

#include "engine/list_check.h"
#include "engine/overlap.h"
#include "generator/problem/groups.h"
#include "generator/problem/operands.h"
#include "generator/problem/product_list.h"
#include "runtime/backend.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/reductions.h"
#include "runtime/cpu/reference_expression.h"
#include "runtime/cpu/reference_kernel.h"
#include "runtime/cpu/thread_pool.h"
#include "runtime/no_cancel.h"

namespace kiln {

PlanKey plan_key(const Gemm& gemm, int threads) {
  PlanKey key;
  std::size_t next = 0;
  // Fields of 8 bytes are words of their own; others are packed, the threads among them.
  std::uint64_t packed = 0;
  int used = 0;
  const auto put = [&]<int kBits>(std::int64_t field) __attribute__((always_inline)) {
    auto value = static_cast<std::uint64_t>(field);
    if constexpr (kBits == 64) {
      key.words[next++] = value;
      return;
    } else {
      value &= (std::uint64_t{1} << kBits) - 1;
      packed |= value << used;
      used += kBits;
      if (used < 64) return;
      key.words[next++] = packed;
      used -= 64;
      packed = used == 0 ? 0 : value >> (kBits - used);
    }
  };
  for_each_gemm_field([&](auto at) __attribute__((always_inline)) {
    put.template operator()<8 * kGemmFields[at].bytes>(kGemmFields[at].get(gemm));
  });
  // A problem that says what none can is another one than that without it.
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) __attribute__((always_inline)) {
    (put.template operator()<8>(kUnsaid[kIndex].get(gemm)), ...);
  }
  (std::make_index_sequence<kUnsaid.size()>{});
  put.template operator()<8 * sizeof threads>(threads);
  if (used > 0) key.words[next] = packed;
  return key;
}

std::uint64_t hash_of(const PlanKey& key) { return XXH3_64bits(&key, sizeof key); }

namespace {

/// Whether a call whose D has rows without elements writes the scales of those rows: of no element,
/// the largest magnitude is 0 and the scale 1. Which rows are of a group the device alone knows.
bool writes_scales_of_nothing(const Gemm& g, bool host) {
  const bool known = host || g.grouping() == Grouping::none || g.grouping() == Grouping::k;
  return g.n == 0 && g.d.q.scale == Scale::line && !lists_products(g) && known;
}

OperandRules rules_for(const Gemm& g, Vendor vendor) {
  OperandRules rules;
  const bool empty = rules.empty = g.m == 0 || g.n == 0;
  // A CPU reads an element at any address; on a GPU that is a fault which costs the context.
  const bool host = backend_of(vendor).host();
  const auto written_without_d = [&](Operand which) {
    if (which == Operand::scale_d || (which == Operand::groups && host))
      return writes_scales_of_nothing(g, host);
    return which == Operand::amax_d;
  };
  const auto unit = [&](DType type) { return !host && bits_of(type) >= 8 ? size_of(type) : 1; };
  for (const Operand which : kOperands) {
    if (empty && !written_without_d(which)) continue;
    if (which == Operand::d && !g.epilogue.expression.stores_d()) continue;
    OperandRule& rule = rules.each[index_of(which)];
    rule.bytes = static_cast<std::uintptr_t>(span_bytes(g, which));
    // An operand without bytes is of any address: A and B where k is 0. A packed B is kiln's own.
    if (rule.bytes == 0 || (which == Operand::b && g.b_packed)) continue;
    const int alignment = std::max(address_alignment(g, which), unit(dtype_of(g, which)));
    rule.bits = static_cast<std::uintptr_t>(alignment) - 1;
  }
  rules.writes_beside_d = empty && rules[Operand::scale_d].bytes != 0;
  if (empty) return rules;
  rules.takes_c = present(g, Operand::c);
  for (const Operand which : kBesideD) rules.writes_beside_d |= is_output(g, which);
  rules.c_may_be_d = g.ldc() == g.ldd() && (g.batch == 1 || g.stride_c() == g.stride_d());
  return rules;
}

/// A, B, C and D: the others belong to an epilogue or to scaled types.
constexpr bool is_of_every_product(Operand which) {
  return which == Operand::a || which == Operand::b || which == Operand::c || which == Operand::d;
}

std::uintptr_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

/// Whether [x, x + x_bytes) and [d, d + d_bytes) share a byte; never when x_bytes is 0.
bool ranges_meet(std::uintptr_t x, std::uintptr_t x_bytes, std::uintptr_t d,
                 std::uintptr_t d_bytes) {
  return (x_bytes != 0) & ((x - d < d_bytes) | (d - x < x_bytes));
}

HostArgs bound_args(const Plan::Impl& plan, const Operands& operands) {
  HostArgs args = plan.args;
  bind_operands(args, operands, plan.problem.swapped);
  if (lists_products(plan.gemm)) args.groups = operands.list;
  return args;
}

Status run_checked(const Plan::Impl& plan, const Operands& operands) {
  if (plan.gpu) return plan.gpu->run(operands);
  const HostArgs args = bound_args(plan, operands);
  if (plan.kernel) return launch(*plan.kernel, args, plan.used_threads, plan.workspace_bytes);
  const PackedLayout* packed = plan.gemm.b_packed ? &plan.packed_layout : nullptr;
  clear_amax(args);
  const auto run = [&](const HostArgs& own) -> Status {
    std::atomic<bool> failed = false;
    parallel(plan.threads, [&](int thread, int threads) {
      if (!run_reference(plan.problem, own, packed, thread, threads)) failed = true;
    });
    if (failed) return fail(ErrorCode::device, "no memory for what an expression reduces");
    return {};
  };
  if (grouped(plan.problem.gemm)) return run(args);
  return reducing(args, run,
                  [&](const KilnArgs& own) { reduce_reference(plan.problem, own, plan.threads); });
}

/// Whether what a call writes beside D meets no other operand.
bool beside_d_in_order(const Plan::Impl& plan, const Operands& o, const void* b) {
  bool meets = false;
  for (const Operand written : kBesideD) {
    if (!is_output(plan.gemm, written)) continue;
    const std::uintptr_t to = address_of(pointer(o, written)), bytes = plan.rules[written].bytes;
    for_each_operand([&](auto which) {
      if (which == written || (which == Operand::c && o.beta == 0)) return;
      const void* const x = which == Operand::b ? b : pointer<which>(o);
      meets |= ranges_meet(address_of(x), plan.rules[which].bytes, to, bytes);
    });
  }
  return !meets;
}

/// The quick look at operands: true when there is nothing to find. `Plain`: there are A, B, C and D
/// alone.
template <bool Plain = false>
inline bool in_order(const Plan::Impl& plan, const Operands& o, const void* b) {
  const OperandRules& r = plan.rules;
  const std::uintptr_t d = address_of(o.d), d_bytes = r[Operand::d].bytes;
  const bool reads_c = o.beta != 0, c_is_d = o.c == o.d && r.c_may_be_d;
  bool wrong = ((d_bytes != 0) & (d == 0)) | (reads_c & !r.takes_c);
  for_each_operand([&](auto which) __attribute__((always_inline)) {
    constexpr Operand kWhich = which;
    if constexpr (Plain && !is_of_every_product(kWhich)) return;
    const std::uintptr_t x = address_of(kWhich == Operand::b ? b : pointer<kWhich>(o));
    const std::uintptr_t bytes = r[kWhich].bytes;
    bool suspect = (x & r[kWhich].bits) != 0;
    if constexpr (kWhich != Operand::d) {
      const bool meets_d = ranges_meet(x, bytes, d, d_bytes);
      suspect |= ((bytes != 0) & (x == 0)) | (kWhich == Operand::c ? !c_is_d & meets_d : meets_d);
    }
    if constexpr (kWhich == Operand::c) suspect &= reads_c;
    wrong |= suspect;
  });
  if (!Plain && r.writes_beside_d) return !wrong && beside_d_in_order(plan, o, b);
  return !wrong;
}

/// One operand of a call, for the sentences of errors.
struct Named {
  Operand which = Operand::a;
  const void* pointer = nullptr;
  OperandRule rule = {};
  Bytes2d shape = {};
};

/// Where an operand lies; of what no Matrix describes, from its first byte to its last.
Bytes2d shape_of(const Gemm& g, Operand which, const void* pointer, std::uintptr_t bytes) {
  const auto first = static_cast<std::int64_t>(address_of(pointer));
  if (which == Operand::b && g.b_packed) return {.first = first, .width = 1};
  if (!row_of(which).matrix) return {.first = first, .width = static_cast<std::int64_t>(bytes)};
  const DType type = dtype_of(g, which);
  const Extent e = extent(g, which);
  return {.first = first,
          .width = bytes_of(type, e.length),
          .lines = e.lines,
          .pitch = bytes_of(type, leading_dimension(g, which)),
          .batch = g.batch,
          .stride = g.batch == 1 ? 0 : bytes_of(type, batch_stride(g, which))};
}

/// What a call writes, against all other operands.
Status nothing_overlaps(const std::array<Named, kOperandCount>& all, const Named& written,
                        const OperandRules& rules) {
  for (const Named& x : all) {
    if (x.which == written.which) continue;
    if (!ranges_meet(address_of(x.pointer), x.rule.bytes, address_of(written.pointer),
                     written.rule.bytes))
      continue;
    const bool d = written.which == Operand::d;
    if (d && x.which == Operand::c && x.pointer == written.pointer && rules.c_may_be_d) continue;
    if (share_bytes(x.shape, written.shape))
      return fail(ErrorCode::bad_input,
                  fmt::format("{} = {} overlaps {} = {}{}", name(x.which), fmt::ptr(x.pointer),
                              name(written.which), fmt::ptr(written.pointer),
                              d ? why_not_in_d(x.which) : ", which is written"));
  }
  return {};
}

/// The careful look at operands that the quick one found something about: an error, or nothing when
/// only the outlines meet (blocks of columns of one buffer, say).
Status examine(const Plan::Impl& plan, const Operands& o, const void* b) {
  const Gemm& g = plan.gemm;
  if (o.beta != 0 && !plan.rules.takes_c)
    return fail(ErrorCode::bad_input, fmt::format("beta = {}: {} has no C", o.beta, text(g)));
  std::array<Named, kOperandCount> all;
  for (const Operand which : kOperands) {
    const void* at = which == Operand::b ? b : pointer(o, which);
    OperandRule rule = plan.rules[which];
    if (which == Operand::c && o.beta == 0) rule = {};
    all[index_of(which)] = {which, at, rule, shape_of(g, which, at, rule.bytes)};
  }
  for (const Named& x : all) {
    if (x.rule.bytes != 0 && x.pointer == nullptr)
      return fail(ErrorCode::bad_input,
                  fmt::format("{} = null: {} needs it", name(x.which), text(g)));
    if ((address_of(x.pointer) & x.rule.bits) == 0) continue;
    const bool promised = x.rule.bits + 1 == static_cast<std::uintptr_t>(g.alignment);
    return fail(ErrorCode::bad_input,
                promised ? fmt::format("{} = {}: not a multiple of alignment = {}", name(x.which),
                                       fmt::ptr(x.pointer), g.alignment)
                         : fmt::format("{} = {}: must be {}-byte aligned", name(x.which),
                                       fmt::ptr(x.pointer), x.rule.bits + 1));
  }
  for (const Operand written : kBesideD) {
    if (!is_output(g, written)) continue;
    if (Status ok = nothing_overlaps(all, all[index_of(written)], plan.rules); !ok) return ok;
  }
  return nothing_overlaps(all, all[index_of(Operand::d)], plan.rules);
}

}  // namespace

std::shared_ptr<std::byte[]> aligned_bytes(std::int64_t bytes) {
  constexpr std::size_t kLine = 64;
  const std::size_t lines = (static_cast<std::size_t>(bytes) + kLine - 1) / kLine;
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kLine, (lines == 0 ? 1 : lines) * kLine));
  return {data, [](std::byte* p) { std::free(p); }};
}

std::shared_ptr<Plan::Impl> bare_plan(const Gemm& gemm, int threads, const DeviceCaps& device) {
  auto plan = std::make_shared<Plan::Impl>(Problem::of(gemm).value());
  plan->threads = threads;
  plan->key = plan_key(gemm, threads);
  plan->hash = hash_of(plan->key);
  plan->rules = rules_for(gemm, device.vendor);
  if (gemm.b_packed) plan->packed_layout = packed_layout(plan->problem, device);
  plan->config = "reference";
  plan->args = make_args(plan->problem, {});
  return plan;
}

void bind_kernel(Plan::Impl& plan, std::shared_ptr<const HostKernel> kernel,
                 const KilnDivision& division) {
  plan.args.division = division;
  plan.used_threads = threads_used(*kernel, plan.args, plan.threads);
  plan.workspace_bytes = kernel->workspace_bytes(&plan.args, plan.used_threads);
  plan.bare_call = plan.used_threads == 1 && bytes_of_call(plan.args, plan.workspace_bytes) == 0 &&
                   !plan.gemm.b_packed && !grouped(plan.gemm) && !plan.gemm.amax_d &&
                   plan.args.reduced_of == nullptr && plan.counter == nullptr && !plan.rules.empty;
  const bool plain = std::ranges::all_of(kOperands, [&](Operand which) {
    return is_of_every_product(which) || plan.rules[which].bytes == 0;
  });
  if (plan.bare_call && plain) plan.direct_call = kernel->direct;
  plan.kernel = std::move(kernel);
}

Status check_operands(const Plan::Impl& plan, const Operands& o, const void* b) {
  if (in_order(plan, o, b)) [[likely]]
    return {};
  return examine(plan, o, b);
}

namespace {

/// The scales of all rows of a D without columns; of groups those of their rows.
void write_scales_of_nothing(const Gemm& g, const Operands& operands) {
  auto* const scales = static_cast<float*>(operands.scale_d);
  if (g.grouping() != Grouping::rows && g.grouping() != Grouping::masked) {
    std::fill_n(scales, span(g, Operand::scale_d), 1.0F);
    return;
  }
  for (std::int64_t group = 0; group < g.batch; ++group) {
    const Segment of = segment_of(g, operands.groups, group);
    std::fill_n(scales + to_group(g, Operand::scale_d, group, of), of.count, 1.0F);
  }
}

/// m or n is 0: there is no D, and no magnitude of it.
Status run_empty(const Plan::Impl& plan, const Operands& operands) {
  const Gemm& g = plan.gemm;
  const bool writes_scales = plan.rules[Operand::scale_d].bytes != 0;
  if (!g.amax_d && !writes_scales) return {};
  if (Status ok = check_operands(plan, operands, operands.b); !ok) return ok;
  if (!plan.empty_on) {
    clear_amax(bound_args(plan, operands));
    if (writes_scales) write_scales_of_nothing(g, operands);
    return {};
  }
  const NoCancel whole;  // drivers hold locks
  const gpu::Guest guest(*plan.empty_on);
  const gpu::Driver& driver = plan.empty_on->driver();
  const auto stream = static_cast<gpu::Stream>(operands.stream);
  if (writes_scales)
    return gpu::check(
        driver,
        driver.cuMemsetD32Async(address_of(operands.scale_d), std::bit_cast<unsigned>(1.0F),
                                static_cast<std::size_t>(span(g, Operand::scale_d)), stream),
        "cuMemsetD32Async");
  return gpu::check(driver,
                    driver.cuMemsetD8Async(address_of(operands.amax_d), 0, sizeof(float), stream),
                    "cuMemsetD8Async");
}

/// All entries may be empty, and all of them must be where m or n is 0.
Status run_list(const Plan::Impl& plan, const Operands& operands) {
  const bool gpu = plan.gpu != nullptr || plan.empty_on != nullptr;
  if (Status ok = check_entries(plan.gemm, operands.list, operands.beta, gpu); !ok) return ok;
  return plan.rules.empty ? Status{} : run_checked(plan, operands);
}

Status run_unrecorded(const Plan::Impl& plan, const Operands& operands) {
  if (lists_products(plan.gemm)) return run_list(plan, operands);
  if (plan.rules.empty) return run_empty(plan, operands);
  if (!plan.gemm.b_packed) {
    if (Status ok = check_operands(plan, operands, operands.b); !ok) return ok;
    return run_checked(plan, operands);
  }
  if (operands.packed_b == nullptr)
    return fail(ErrorCode::bad_input,
                fmt::format("packed_b = null: {} needs the result of pack_b()", text(plan.gemm)));
  const PackedB::Impl& packed = operands.packed_b->impl();
  if (Status ok = check_packed(packed, plan); !ok) return ok;
  Operands bound = operands;
  bound.b = packed.copy.data.get();
  if (Status ok = check_operands(plan, bound, bound.b); !ok) return ok;
  return run_checked(plan, bound);
}

/// A call that is counted, and timed: by the clock on a CPU, by what is expected on a GPU.
[[gnu::noinline]] Status run_timed(const Plan::Impl& plan, CallCounter::Shard& shard,
                                   const Operands& operands) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  Status ran = run_unrecorded(plan, operands);
  if (ran) CallCounter::add_timed(shard, Clock::now() - begin);
  plan.recorder->keep_flushing();
  return ran;
}

Status run_recorded(const Plan::Impl& plan, const Operands& operands) {
  CallCounter::Shard& shard = plan.counter->shard();
  if (plan.gpu) {
    Status ran = run_unrecorded(plan, operands);
    if (ran) CallCounter::add_known(shard, plan.expected_ns);
    return ran;
  }
  if (CallCounter::is_timed(shard)) [[unlikely]]
    return run_timed(plan, shard, operands);
  Status ran = run_unrecorded(plan, operands);
  if (ran) CallCounter::add(shard);
  return ran;
}

// Kept out of run_plan: its many locals would cost the shortest calls their prologue.
[[gnu::noinline]] Status run_with_care(const Plan::Impl& plan, const Operands& operands) {
  return plan.counter != nullptr ? run_recorded(plan, operands) : run_unrecorded(plan, operands);
}

}  // namespace

Status run_plan(const Plan::Impl& plan, const Operands& operands) {
  if (plan.direct_call != nullptr && in_order<true>(plan, operands, operands.b)) [[likely]] {
    const bool swapped = plan.problem.swapped;
    plan.direct_call(swapped ? operands.b : operands.a, swapped ? operands.a : operands.b,
                     operands.c, operands.d, nullptr, nullptr, operands.alpha, operands.beta);
    return {};
  }
  if (plan.bare_call && in_order(plan, operands, operands.b)) [[likely]] {
    const KilnArgs args = bound_args(plan, operands);
    plan.kernel->gemm(&args, 0, 1);
    return {};
  }
  return run_with_care(plan, operands);
}

Status Plan::run(const Operands& operands) const { return run_plan(*impl_, operands); }
Match Plan::match() const { return impl_->match; }
const std::string& Plan::config() const { return impl_->config; }
std::optional<LibraryRace> Plan::library_race() const {
  const NoCancel whole;  // it may open the library
  return race_with_loaded(impl_->raced);
}
std::int64_t Plan::workspace_bytes() const {
  return impl_->gpu ? impl_->gpu->workspace_bytes() : 0;
}

}  // namespace kiln
