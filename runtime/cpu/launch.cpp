#include <algorithm>
#include <atomic>

#include "generator/expression/program.h"
#include "generator/problem/extent.h"
#include "generator/problem/groups.h"
#include "generator/problem/indices.h"
#include "generator/problem/operands.h"
#include "generator/problem/product_list.h"
#include "kiln/numeric.hpp"
#include "runtime/cpu/added_rows.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/reductions.h"
#include "runtime/cpu/row_copies.h"
#include "runtime/cpu/thread_pool.h"
#include "runtime/workspace.h"

namespace kiln {
namespace {

static_assert(kBiasPerRow == static_cast<int>(Bias::per_row) &&
              kBiasPerColumn == static_cast<int>(Bias::per_column));
static_assert(kActivationRelu == static_cast<int>(Activation::relu) &&
              kActivationGeluTanh == static_cast<int>(Activation::gelu_tanh) &&
              kActivationGeluErf == static_cast<int>(Activation::gelu_erf) &&
              kActivationSilu == static_cast<int>(Activation::silu));

struct Call {
  KilnGemmFn gemm;
  const KilnArgs* args;
};

bool widens_bias(const HostArgs& args) {
  return args.bias_kind != 0 && size_of(args.bias_type) < size_of(DType::fp32);
}

std::int64_t bias_length(const HostArgs& args) {
  return args.bias_kind == kBiasPerRow ? args.m : args.products * args.n;
}

/// Where the widened bias lies: behind what the kernel asked for.
std::int64_t behind(std::int64_t workspace_bytes) { return (workspace_bytes + 63) / 64 * 64; }

Status run_alone(KilnGemmFn gemm, const HostArgs& args, std::int64_t workspace_bytes) {
  return with_workspace(args, workspace_bytes).map([&](const KilnArgs& own) { gemm(&own, 0, 1); });
}

Status run_on_team(KilnGemmFn gemm, KilnWorkspaceFn ask_workspace, const HostArgs& args,
                   int threads, std::int64_t workspace_bytes) {
  TeamLease team(threads);
  if (team.threads() != threads) workspace_bytes = ask_workspace(&args, team.threads());
  const Result<KilnArgs> own = with_workspace(args, workspace_bytes);
  if (!own) return tl::unexpected(own.error());
  Call call{gemm, &*own};
  const bool ran = team.run(
      [](void* context, int thread, int count) {
        const Call& c = *static_cast<const Call*>(context);
        c.gemm(c.args, thread, count);
      },
      &call);
  return ran ? Status{} : run_alone(gemm, args, ask_workspace(&args, 1));
}

/// The calls of a grouped problem's kernel.
struct GroupCalls {
  const HostKernel& kernel;
  const HostArgs& args;
  std::int64_t large;  // work() from which on threads divide a group
  std::atomic<std::int64_t> next = 0;
  std::atomic<bool> failed = false;

  const Gemm& gemm() const { return args.groups_of->gemm; }
  const ListEntry& entry(std::int64_t group) const {
    return static_cast<const ListEntry*>(args.groups)[group];
  }
  /// Of groups in order; of a list's product it is not used.
  Segment segment(Segments& segments, std::int64_t group) const {
    return lists_products(gemm()) ? Segment{} : segments.of(group);
  }
  /// Rows, or elements along k; of a product of a list elements of D times those along k.
  std::int64_t work(std::int64_t group, const Segment& of) const {
    if (!lists_products(gemm())) return of.count;
    const ListEntry& e = entry(group);
    return e.m * e.n * std::max<std::int64_t>(1, e.k);
  }
  bool writes(std::int64_t group, const Segment& of) const {
    return lists_products(gemm()) ? writes_d(entry(group)) : writes_d(gemm(), of);
  }
  bool small(std::int64_t group, const Segment& of) const {
    return writes(group, of) && work(group, of) < large;
  }

  Status run(std::int64_t group, const Segment& of, int threads) const {
    HostArgs one = args;
    one.groups_of = nullptr;
    one.finds_amax = false;  // all groups raise one
    if (lists_products(gemm())) {
      call_one(one, canonical_entry(*args.groups_of, entry(group)));
      return launch(kernel, one, threads);
    }
    (gemm().grouping() == Grouping::k ? one.k : one.m) = of.count;
    one.batch = 1;
    one.first_row = first_row_of(gemm(), of);
    if (indexed(gemm())) return run_in_order(one, group, of, threads);
    move_to_group(gemm(), one, group, of);
    return launch(kernel, one, threads);
  }
  /// With copies of the rows that indices name.
  Status run_in_order(HostArgs one, std::int64_t group, const Segment& of, int threads) const {
    move_to_group(in_order(gemm()), one, group, of);
    RowCopies copies(gemm(), args, of);
    if (Status ok = copies.gather(one, threads); !ok) return ok;
    if (Status ran = launch(kernel, one, threads); !ran) return ran;
    copies.scatter(threads);
    return {};
  }
  /// Whole groups, as long as there are some.
  void take_small() {
    Segments segments(gemm(), args.groups);
    for (std::int64_t group = next++; group < gemm().batch; group = next++)
      if (const Segment of = segment(segments, group); small(group, of) && !run(group, of, 1))
        failed = true;
  }
};

/// Groups that are more than half a thread's share are divided among all threads, one after the
/// other; threads take the others whole.
Status launch_each_group(const HostKernel& kernel, const HostArgs& args, int threads) {
  clear_amax(args);
  GroupCalls calls{kernel, args, 1};
  const std::int64_t groups = calls.gemm().batch;
  if (threads > 1) {
    std::int64_t all = 0;
    Segments segments(calls.gemm(), args.groups);
    for (std::int64_t group = 0; group < groups; ++group)
      all += calls.work(group, calls.segment(segments, group));
    calls.large = all / (2 * threads) + 1;
  }
  bool any_small = false;
  Segments segments(calls.gemm(), args.groups);
  for (std::int64_t group = 0; group < groups; ++group) {
    const Segment of = calls.segment(segments, group);
    any_small |= calls.small(group, of);
    if (!calls.writes(group, of) || calls.work(group, of) < calls.large) continue;
    if (Status ran = calls.run(group, of, threads); !ran) return ran;
  }
  if (!any_small) return {};
  {
    TeamLease team(threads);
    const auto take = [](void* context, int, int) {
      static_cast<GroupCalls*>(context)->take_small();
    };
    if (!team.run(take, &calls)) calls.take_small();
  }
  if (calls.failed) return fail(ErrorCode::device, "no memory for the workspace of a group");
  return {};
}

/// A call whose expression reduces or stores no D.
Status launch_reduced(const HostKernel& kernel, const HostArgs& args, int threads) {
  return reducing(
      args, [&](const HostArgs& own) { return launch(kernel, own, threads); },
      [&](const KilnArgs& behind) {
        for (const KilnGemmFn step : kernel.reduce) {
          if (step == nullptr) continue;
          if (threads == 1)  // which may have a group of its own
            step(&behind, 0, 1);
          else
            parallel(threads, [&](int thread, int count) { step(&behind, thread, count); });
        }
      });
}

Status launch_groups(const HostKernel& kernel, const HostArgs& args, int threads) {
  const Gemm& gemm = args.groups_of->gemm;
  if (!adds_rows(gemm)) return launch_each_group(kernel, args, threads);
  AddedRows rows(gemm, args);
  HostArgs product = args;
  if (Status ok = rows.redirect(product); !ok) return ok;
  if (Status ran = launch_each_group(kernel, product, threads); !ran) return ran;
  rows.add(threads);
  return {};
}

}  // namespace

HostArgs make_args(const Problem& problem, const Operands& operands, const KilnDivision& division) {
  HostArgs args = kernel_args<KilnArgs>(problem, operands);
  args.division = division;
  // Structured bindings: what an epilogue gets later, kernels that take any must be told.
  [[maybe_unused]] const auto& [bias, activation, residual, bias_as_d, gate, expression] =
      problem.gemm.epilogue;
  args.bias_kind = static_cast<int>(bias);
  args.activation = static_cast<int>(activation);
  args.adds_residual = residual;
  args.products = gate ? 2 : 1;  // gates and expressions are constants of all code that has them
  if (bias_as_d) args.bias_type = problem.gemm.d.dtype;
  args.finds_amax = problem.gemm.amax_d;
  if (expression::reduces(expression) || !expression.stores_d()) args.reduced_of = &problem;
  if (grouped(problem.gemm)) args.groups_of = &problem;
  return args;
}

std::int64_t bytes_of_call(const HostArgs& args, std::int64_t workspace_bytes) {
  if (!widens_bias(args)) return workspace_bytes;
  return behind(workspace_bytes) + bias_length(args) * size_of(DType::fp32);
}

Result<KilnArgs> with_workspace(const HostArgs& args, std::int64_t workspace_bytes) {
  const Result<void*> memory = workspace(bytes_of_call(args, workspace_bytes));
  if (!memory) return tl::unexpected(memory.error());
  Result<KilnArgs> own = args;
  own->workspace = *memory;
  own->barrier = barrier_words();
  if (widens_bias(args)) {
    auto* const wide =
        reinterpret_cast<float*>(static_cast<std::byte*>(*memory) + behind(workspace_bytes));
    for (std::int64_t i = 0; i < bias_length(args); ++i)
      wide[i] = static_cast<float>(load_element(args.bias_type, args.bias, i));
    own->bias = wide;
  }
  return own;
}

void clear_amax(const HostArgs& args) {
  if (args.finds_amax) *static_cast<float*>(args.amax_d) = 0;
}

int threads_used(const HostKernel& kernel, const HostArgs& args, int threads) {
  if (args.groups_of != nullptr) return threads;
  return threads > 1 && kernel.threads != nullptr ? kernel.threads(&args, threads) : threads;
}

Status launch(const HostKernel& kernel, const HostArgs& args, int threads) {
  if (args.groups_of != nullptr) return launch_groups(kernel, args, threads);
  if (args.reduced_of != nullptr) return launch_reduced(kernel, args, threads);
  threads = threads_used(kernel, args, threads);
  return launch(kernel, args, threads, kernel.workspace_bytes(&args, threads));
}

Status launch(const HostKernel& kernel, const HostArgs& args, int threads,
              std::int64_t workspace_bytes) {
  if (args.groups_of != nullptr) return launch_groups(kernel, args, threads);
  if (args.reduced_of != nullptr) return launch_reduced(kernel, args, threads);
  clear_amax(args);
  if (kernel.direct != nullptr && threads == 1 && !widens_bias(args)) {
    kernel.direct(args.a, args.b, args.c, args.d, args.bias, args.residual, args.alpha, args.beta);
    return {};
  }
  return launch(kernel.gemm, kernel.workspace_bytes, args, threads, workspace_bytes);
}

Status launch(KilnGemmFn gemm, KilnWorkspaceFn ask_workspace, const HostArgs& args, int threads,
              std::int64_t workspace_bytes) {
  if (threads > 1) return run_on_team(gemm, ask_workspace, args, threads, workspace_bytes);
  return run_alone(gemm, args, workspace_bytes);
}

}  // namespace kiln
