#include "engine/plan.h"

#define XXH_INLINE_ALL  // the call costs as much as the hash
#include <fmt/format.h>
#include <xxhash.h>

#include <cstdlib>

#include "engine/overlap.h"
#include "generator/problem/extent.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/reference_kernel.h"
#include "runtime/cpu/thread_pool.h"

namespace kiln {

PlanKey plan_key(const Gemm& gemm, int threads) {
  const auto& [m, n, k, batch, a, b, c, d, accumulator, epilogue, alignment, b_packed, scale_a,
               scale_b] = gemm;
  const auto& [bias, activation, residual] = epilogue;
  const auto word = [](auto value) { return static_cast<std::uint64_t>(value); };
  std::uint64_t types = 0, layouts = 0;
  PlanKey key;
  std::size_t next = 0;
  for (const auto value : {m, n, k, batch}) key.words[next++] = word(value);
  for (const Matrix* matrix : {&a, &b, &c, &d}) {
    const auto& [dtype, order, transposed, ld, batch_stride] = *matrix;
    types = types << 16 | word(dtype) << 8 | word(order);
    layouts = layouts << 1 | word(transposed);
    key.words[next++] = word(ld);
    key.words[next++] = word(batch_stride);
  }
  key.words[next++] = types;
  key.words[next++] = word(scale_a) << 56 | word(scale_b) << 48 | layouts << 40 |
                      word(accumulator) << 32 | word(bias) << 24 | word(activation) << 16 |
                      word(residual) << 8 | word(b_packed);
  key.words[next] =
      word(static_cast<std::uint32_t>(alignment)) << 32 | word(static_cast<std::uint32_t>(threads));
  return key;
}

std::uint64_t hash_of(const PlanKey& key) { return XXH3_64bits(&key, sizeof key); }

namespace {

/// Scales are read four bytes at a time.
constexpr std::uintptr_t kScaleBits = 3;

OperandRules rules_for(const Gemm& g, Vendor vendor) {
  OperandRules rules;
  if (g.m == 0 || g.n == 0) return rules;
  const auto bytes = [&](Operand which) {
    return static_cast<std::uintptr_t>(span_bytes(g, which));
  };
  const std::uintptr_t bias_size = g.accumulator == fp64 ? 8 : 4;
  rules.a_bytes = bytes(Operand::a);
  rules.b_bytes = bytes(Operand::b);
  rules.c_bytes = bytes(Operand::c);
  rules.d_bytes = bytes(Operand::d);
  if (g.epilogue.bias == Bias::per_row)
    rules.bias_bytes = bias_size * static_cast<std::uintptr_t>(g.m);
  if (g.epilogue.bias == Bias::per_column)
    rules.bias_bytes = bias_size * static_cast<std::uintptr_t>(g.n);
  if (g.epilogue.residual) rules.residual_bytes = rules.d_bytes;
  rules.scale_a_bytes = static_cast<std::uintptr_t>(scale_bytes(g, Operand::a));
  rules.scale_b_bytes = static_cast<std::uintptr_t>(scale_bytes(g, Operand::b));
  // A CPU reads an element at any address; on a GPU that is a fault which costs the context.
  const bool gpu = vendor != Vendor::cpu;
  const auto bits = [&](DType type) {
    const int unit = gpu && bits_of(type) >= 8 ? size_of(type) : 1;
    return static_cast<std::uintptr_t>(std::max(g.alignment, unit)) - 1;
  };
  rules.a_bits = bits(g.a.dtype);
  if (!g.b_packed) rules.b_bits = bits(g.b.dtype);
  rules.d_bits = bits(g.d.dtype);
  if (g.epilogue.residual) rules.residual_bits = rules.d_bits;
  if (gpu && rules.bias_bytes != 0) rules.bias_bits = bias_size - 1;
  if (rules.scale_a_bytes != 0) rules.scale_a_bits = kScaleBits;
  if (rules.scale_b_bytes != 0) rules.scale_b_bits = kScaleBits;
  rules.c_may_be_d = g.ldc() == g.ldd() && (g.batch == 1 || g.stride_c() == g.stride_d());
  return rules;
}

std::uintptr_t address(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

/// Whether [x, x + x_bytes) and [d, d + d_bytes) share a byte; never when x_bytes is 0.
bool ranges_meet(std::uintptr_t x, std::uintptr_t x_bytes, std::uintptr_t d,
                 std::uintptr_t d_bytes) {
  return (x_bytes != 0) & ((x - d < d_bytes) | (d - x < x_bytes));
}

KilnArgs bound_args(const Plan::Impl& plan, const Operands& operands) {
  KilnArgs args = plan.args;
  args.a = plan.problem.swapped ? operands.b : operands.a;
  args.b = plan.problem.swapped ? operands.a : operands.b;
  args.c = operands.c;
  args.d = operands.d;
  args.bias = operands.bias;
  args.residual = operands.residual;
  args.alpha = operands.alpha;
  args.beta = operands.beta;
  args.scale_a = plan.problem.swapped ? operands.scale_b : operands.scale_a;
  args.scale_b = plan.problem.swapped ? operands.scale_a : operands.scale_b;
  return args;
}

Status run_checked(const Plan::Impl& plan, const Operands& operands) {
  if (plan.gpu) return plan.gpu->run(operands);
  KilnArgs args = bound_args(plan, operands);
  if (plan.kernel) return launch(*plan.kernel, args, plan.used_threads, plan.workspace_bytes);
  parallel(plan.threads,
           [&](int thread, int threads) { run_reference(plan.problem, args, thread, threads); });
  return {};
}

/// The quick look at operands: true when there is nothing to find.
inline bool in_order(const Plan::Impl& plan, const Operands& o, const void* b) {
  const OperandRules& r = plan.rules;
  const std::uintptr_t c_bytes = o.beta != 0 ? r.c_bytes : 0;
  const std::uintptr_t d = address(o.d);
  const auto suspect = [&](const void* pointer, std::uintptr_t bytes) {
    const std::uintptr_t x = address(pointer);
    return ((bytes != 0) & (x == 0)) | ranges_meet(x, bytes, d, r.d_bytes);
  };
  // A and B with no bytes are of any address: k is 0.
  const std::uintptr_t misaligned =
      (r.a_bytes != 0 ? address(o.a) & r.a_bits : 0) |
      (r.b_bytes != 0 ? address(b) & r.b_bits : 0) | (address(o.d) & r.d_bits) |
      (c_bytes != 0 ? address(o.c) & r.d_bits : 0) | (address(o.residual) & r.residual_bits) |
      (address(o.bias) & r.bias_bits) | (address(o.scale_a) & r.scale_a_bits) |
      (address(o.scale_b) & r.scale_b_bits);
  const bool c_is_d = o.c == o.d && r.c_may_be_d;
  const bool wrong = (d == 0) | suspect(o.a, r.a_bytes) | suspect(b, r.b_bytes) |
                     (!c_is_d && suspect(o.c, c_bytes)) | suspect(o.bias, r.bias_bytes) |
                     suspect(o.residual, r.residual_bytes) | suspect(o.scale_a, r.scale_a_bytes) |
                     suspect(o.scale_b, r.scale_b_bytes) | (misaligned != 0);
  return !wrong;
}

/// One operand of a call, for the sentences of errors.
struct Named {
  std::string_view name;
  const void* pointer;
  std::uintptr_t bytes, bits;
  Bytes2d shape;
};

Bytes2d shape_of(const Gemm& g, Operand which, const void* pointer) {
  const DType type = matrix(g, which).dtype;
  const Extent e = extent(g, which);
  return {.first = static_cast<std::int64_t>(address(pointer)),
          .width = bytes_of(type, e.length),
          .lines = e.lines,
          .pitch = bytes_of(type, leading_dimension(g, which)),
          .batch = g.batch,
          .stride = g.batch == 1 ? 0 : bytes_of(type, batch_stride(g, which))};
}

/// The careful look at operands that the quick one found something about: an error, or nothing when
/// only the outlines meet (blocks of columns of one buffer, say).
Status examine(const Plan::Impl& plan, const Operands& o, const void* b) {
  const Gemm& g = plan.gemm;
  const OperandRules& r = plan.rules;
  const auto line = [](const void* pointer, std::uintptr_t bytes) {
    return Bytes2d{.first = static_cast<std::int64_t>(address(pointer)),
                   .width = static_cast<std::int64_t>(bytes)};
  };
  const std::uintptr_t c_bytes = o.beta != 0 ? r.c_bytes : 0;
  const Named d{"d", o.d, r.d_bytes, r.d_bits, shape_of(g, Operand::d, o.d)};
  const Named matrices[] = {
      {"a", o.a, r.a_bytes, r.a_bits, shape_of(g, Operand::a, o.a)},
      {"b", b, r.b_bytes, r.b_bits, g.b_packed ? line(b, 1) : shape_of(g, Operand::b, b)},
      {"c", o.c, c_bytes, r.d_bits, shape_of(g, Operand::c, o.c)},
      {"residual", o.residual, r.residual_bytes, r.residual_bits,
       shape_of(g, Operand::d, o.residual)},
      {"bias", o.bias, r.bias_bytes, r.bias_bits, line(o.bias, r.bias_bytes)},
      {"scale_a", o.scale_a, r.scale_a_bytes, r.scale_a_bits, line(o.scale_a, r.scale_a_bytes)},
      {"scale_b", o.scale_b, r.scale_b_bytes, r.scale_b_bits, line(o.scale_b, r.scale_b_bytes)},
      d};
  for (const Named& x : matrices) {
    if (x.bytes != 0 && x.pointer == nullptr)
      return fail(ErrorCode::bad_input, fmt::format("{} = null: {} needs it", x.name, text(g)));
    if (x.bytes == 0 || (address(x.pointer) & x.bits) == 0) continue;
    const bool promised = x.bits + 1 == static_cast<std::uintptr_t>(g.alignment);
    return fail(ErrorCode::bad_input, promised
                                          ? fmt::format("{} = {}: not a multiple of alignment = {}",
                                                        x.name, fmt::ptr(x.pointer), g.alignment)
                                          : fmt::format("{} = {}: must be {}-byte aligned", x.name,
                                                        fmt::ptr(x.pointer), x.bits + 1));
  }
  for (const Named& x : matrices) {
    if (x.name == "d" || !ranges_meet(address(x.pointer), x.bytes, address(o.d), d.bytes)) continue;
    if (x.name == "c" && x.pointer == o.d && r.c_may_be_d) continue;
    if (share_bytes(x.shape, d.shape))
      return fail(ErrorCode::bad_input,
                  fmt::format("{} = {} overlaps d = {}: only c may be d, laid out alike", x.name,
                              fmt::ptr(x.pointer), fmt::ptr(o.d)));
  }
  return {};
}

}  // namespace

std::shared_ptr<std::byte[]> aligned_bytes(std::int64_t bytes) {
  constexpr std::size_t kLine = 64;
  const std::size_t lines = (static_cast<std::size_t>(bytes) + kLine - 1) / kLine;
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kLine, (lines == 0 ? 1 : lines) * kLine));
  return {data, [](std::byte* p) { std::free(p); }};
}

std::shared_ptr<Plan::Impl> bare_plan(const Gemm& gemm, int threads, Vendor vendor) {
  auto plan = std::make_shared<Plan::Impl>();
  plan->gemm = gemm;
  plan->threads = threads;
  plan->key = plan_key(gemm, threads);
  plan->hash = hash_of(plan->key);
  plan->problem = canonicalise(gemm);
  plan->rules = rules_for(gemm, vendor);
  plan->config = "reference";
  plan->args = make_args(plan->problem, {});
  return plan;
}

void bind_kernel(Plan::Impl& plan, std::shared_ptr<const HostKernel> kernel) {
  plan.used_threads = threads_used(*kernel, plan.args, plan.threads);
  plan.workspace_bytes = kernel->workspace_bytes(&plan.args, plan.used_threads);
  plan.bare_call = plan.used_threads == 1 && plan.workspace_bytes == 0 && !plan.gemm.b_packed &&
                   plan.rules.d_bytes != 0;
  plan.kernel = std::move(kernel);
}

Status check_operands(const Plan::Impl& plan, const Operands& o, const void* b) {
  if (in_order(plan, o, b)) [[likely]]
    return {};
  return examine(plan, o, b);
}

namespace {

// Kept out of run_plan: its many locals would cost the shortest calls their prologue.
[[gnu::noinline]] Status run_with_care(const Plan::Impl& plan, const Operands& operands) {
  if (plan.rules.d_bytes == 0) return {};  // m or n is 0: there is no D
  if (!plan.gemm.b_packed) {
    if (Status ok = check_operands(plan, operands, operands.b); !ok) return ok;
    return run_checked(plan, operands);
  }
  if (operands.packed_b == nullptr)
    return fail(ErrorCode::bad_input,
                fmt::format("packed_b = null: {} needs the result of pack_b()", text(plan.gemm)));
  const PackedB::Impl& packed = operands.packed_b->impl();
  if (!(packed.plan->key == plan.key))
    return fail(
        ErrorCode::bad_input,
        fmt::format("packed_b: packed for {} on {} threads, not for {} on {}",
                    text(packed.plan->gemm), packed.plan->threads, text(plan.gemm), plan.threads));
  if (Status ok = check_operands(plan, operands, packed.data.get()); !ok) return ok;
  Operands bound = operands;
  bound.b = packed.data.get();
  // Its own plan, not this one: the layout is that kernel's, whatever was tuned since.
  return run_checked(*packed.plan, bound);
}

}  // namespace

Status run_plan(const Plan::Impl& plan, const Operands& operands) {
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
std::int64_t Plan::workspace_bytes() const {
  return impl_->gpu ? impl_->gpu->workspace_bytes() : 0;
}
std::size_t PackedB::bytes() const { return impl_->bytes; }

}  // namespace kiln
