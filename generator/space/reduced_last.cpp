// The steps of a GPU's launch behind its kernels where an expression reduces.
#include <algorithm>

#include "generator/expression/halves.h"
#include "generator/problem/extent.h"
#include "generator/space/typed_family.h"

namespace kiln {
namespace {

constexpr std::int64_t kMostBlocks = 1 << 20;  // which then take several lines each
// Of kiln_reduce: threads of a block, and most values of a row that a warp reduces.
constexpr int kReducing = 512, kMostOfWarp = 256;

std::int64_t parts(std::int64_t size, std::int64_t of) { return (size + of - 1) / of; }

/// So many bytes behind the workspace, which grows: where they begin.
std::int64_t taken(GpuLaunch& launch, std::int64_t bytes) {
  constexpr std::int64_t kUnit = 256;
  const std::int64_t at = parts(launch.workspace_bytes, kUnit) * kUnit;
  launch.workspace_bytes = at + bytes;
  return at;
}

/// How many matrices have rows of their own: groups of rows share one.
std::int64_t matrices_of(const Gemm& gemm) {
  return gemm.grouping() == Grouping::rows ? 1 : gemm.batch;
}
/// From one matrix to the next.
std::int64_t stride_of(const Gemm& gemm, std::int64_t elements) {
  return gemm.grouping() == Grouping::rows ? 0 : elements;
}

unsigned blocks(std::int64_t count) { return static_cast<unsigned>(std::min(kMostBlocks, count)); }
constexpr std::int64_t kMostAcross = 65535;  // blocks along y and z

/// What is made of what is reduced. Where lines are short a block has several, where there are few
/// several blocks have one. Teams that are no warps are blocks.
void add_step_behind(const Gemm& gemm, const expression::Halves& halves, const Together& together,
                     GpuLaunch& launch) {
  constexpr std::int64_t kThreads = 256, kColumns = 4;  // of a thread at a time
  constexpr std::int64_t kBlocks = 660;                 // that an H200 runs at once, 5 on each SM
  const bool rows = halves.stores_elements || halves.stores_rows;
  const bool columns = halves.stores_elements || halves.stores_columns;
  const std::int64_t lines = rows ? gemm.m : 1, length = columns ? gemm.n : 1;
  std::int64_t threads = kThreads;
  if (together.of_row > 1)
    while (threads > 32 && threads / 2 * kColumns >= length) threads /= 2;
  GpuStep step;
  step.overlaps_previous = launch.steps.back().overlaps_previous;
  step.entry = "kiln_behind";
  step.block.x = static_cast<unsigned>(threads);
  step.block.y = static_cast<unsigned>(kThreads / threads);
  step.grid.x = blocks(parts(lines, kThreads / threads));
  step.grid.z = static_cast<unsigned>(std::min(kMostAcross, matrices_of(gemm)));
  step.grid.y = static_cast<unsigned>(std::clamp<std::int64_t>(
      kBlocks / (std::int64_t{step.grid.x} * step.grid.z), 1, parts(length, kThreads * kColumns)));
  launch.steps.push_back(step);
}

}  // namespace

GpuLaunch reduced_last(const Gemm& gemm, const Together& together, GpuLaunch launch) {
  const Expression& expression = gemm.epilogue.expression;
  const expression::Halves* const halves =
      expression.empty() ? nullptr : expression.program()->half_of;
  if (!expression::reduces(expression) && halves == nullptr) return launch;
  const std::int64_t size = size_of(type_of_values(gemm));
  const bool of_each = together.of_row == 1 && together.of_column == 1;
  for (std::size_t i = 0; halves != nullptr && i < halves->kept; ++i) {
    ValuesAt& kept = launch.values[halves->first_kept() + i];
    kept.ld = gemm.n, kept.stride = stride_of(gemm, gemm.m * gemm.n);
    kept.at = taken(launch,
                    matrices_of(gemm) * gemm.m * gemm.n * size_of(type_of_kept(gemm, *halves, i)));
    if (i == 0 && expression::keeps_in_d(expression))
      launch.in_place_of_d = static_cast<int>(halves->first_kept());
  }
  std::int64_t most_blocks = 0;
  bool over_all = false;
  for (std::size_t i = 0; i < expression.outputs().size(); ++i) {
    const ExtraOutput& output = expression.outputs()[i];
    const bool hidden = halves != nullptr && i >= halves->outputs;
    if (!expression::is_reduced(output)) continue;
    ValuesAt& values = launch.values[i];
    const bool columns = expression::has_index(output.target, Index::n);
    const auto kept = expression::shared_kept(*expression.program(), i);
    if (of_each && kept) {
      values = launch.values[*kept];
    } else {
      values.ld = columns ? gemm.n : parts(gemm.n, together.of_row);
      const std::int64_t elements =
          values.ld * (columns ? parts(gemm.m, together.of_column) : gemm.m);
      values.stride = stride_of(gemm, elements);
      values.at = taken(launch, matrices_of(gemm) * elements * size);
    }
    const bool by_warps =
        together.of_row > 1 && values.ld <= kMostOfWarp && !expression::reduces_all(output);
    most_blocks = std::max(most_blocks, columns    ? parts(gemm.n, 32)
                                        : by_warps ? parts(gemm.m, kReducing / 32)
                                                   : gemm.m);
    over_all |= expression::reduces_all(output);
    if (!hidden) continue;
    const std::int64_t of_lines = columns                                          ? gemm.n
                                  : expression::has_index(output.target, Index::m) ? gemm.m
                                                                                   : 1;
    values.line_stride = stride_of(gemm, of_lines);
    values.line_at = taken(launch, matrices_of(gemm) * of_lines * size);
  }
  if (launch.steps.empty() || gemm.m == 0 || gemm.n == 0) return launch;
  GpuStep step;
  step.overlaps_previous = launch.steps.back().overlaps_previous;
  step.entry = "kiln_reduce";
  step.grid.x = blocks(most_blocks);
  step.grid.y = static_cast<unsigned>(expression.outputs().size());
  step.grid.z = static_cast<unsigned>(std::min(kMostAcross, matrices_of(gemm)));
  step.block.x = kReducing;
  if (most_blocks > 0 && !expression::reduces_rows_behind(expression)) launch.steps.push_back(step);
  if (over_all) {
    step.entry = "kiln_reduce_all";
    step.grid.x = static_cast<unsigned>(gemm.batch), step.grid.z = 1;
    launch.steps.push_back(step);
  }
  if (halves != nullptr) add_step_behind(gemm, *halves, together, launch);
  return launch;
}

double expected_ns_behind(const Gemm& gemm, const DeviceCaps& device) {
  const expression::Halves* const halves = expression::halves_in(gemm.epilogue.expression);
  if (halves == nullptr || device.vendor == Vendor::cpu) return 0;
  constexpr double kStart = 3000;  // a step of a launch [trial]
  const expression::Program& behind = halves->behind;
  const double elements = double(matrices_of(gemm)) * double(gemm.m) * double(gemm.n);
  double bytes = behind.stores_d ? elements * size_of(gemm.d.dtype) : 0;
  for (std::size_t i = 0; i < halves->kept; ++i)
    bytes += elements * size_of(type_of_kept(gemm, *halves, i));
  for (const expression::Value& value : behind.values)
    if (value.op == expression::Op::operand &&
        value.which < gemm.epilogue.expression.operands().size())
      bytes += double(span_bytes(gemm, extra_operand(value.which)));
  for (std::size_t i = 0; i < halves->outputs; ++i)
    if (behind.results[i] != expression::kNotStored)
      bytes += double(span_bytes(gemm, extra_output(i)));
  return kStart + bytes / device.gpu.memory_gbs;
}

}  // namespace kiln
