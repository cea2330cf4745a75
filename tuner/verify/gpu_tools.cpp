#include "tuner/verify/gpu_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <vector>

#include "generator/families/cuda/common/check.h"
#include "generator/problem/extent.h"
#include "generator/problem/indices.h"
#include "runtime/compiler.h"
#include "runtime/memory.h"
#include "tuner/verify/data.h"
#include "tuner/verify/view.h"

namespace kiln {

using check_args::device_allowance;
using check_args::DeviceAllowance;
using check_args::types_of;

namespace {

/// Of grid-stride loops: some waves on any device.
constexpr unsigned kBlocks = 2048;
/// Elements of one block of check_products, each way.
constexpr std::int64_t kProductTile = 64;

unsigned blocks_for(std::int64_t count, std::int64_t unit) {
  return static_cast<unsigned>((count + unit - 1) / unit);
}

}  // namespace

Result<std::shared_ptr<const GpuTools>> GpuTools::make(gpu::SharedDevice device) {
  const auto compiler = compiler_for(device->caps());
  if (!compiler) return tl::unexpected(compiler.error());
  const auto binary = (*compiler)->compile(gpu_check_source(device->caps()));
  if (!binary) return tl::unexpected(binary.error());
  auto module = gpu::GpuModule::load(device, binary->image);
  if (!module) return tl::unexpected(module.error());
  auto stream = gpu::OwnedStream::make(device);
  if (!stream) return tl::unexpected(stream.error());
  auto counters = gpu::DeviceBuffer::make(device, 2 * sizeof(std::uint64_t));
  if (!counters) return tl::unexpected(counters.error());
  return std::shared_ptr<const GpuTools>(
      new GpuTools(device, *module, std::move(*stream), std::move(*counters)));
}

template <typename... Args>
Status GpuTools::call(const char* entry, Dim3 grid, Args... args) const {
  const auto function = module_->function(entry);
  if (!function) return tl::unexpected(function.error());
  std::array<void*, sizeof...(Args)> parameters{&args...};
  return gpu::launch(*device_, *function, grid, {kCheckThreads}, parameters, stream());
}

Status GpuTools::fill(const Gemm& gemm, Operand which, Data kind, std::uint64_t seed,
                      void* data) const {
  if (span(gemm, which) == 0) return {};
  const DType type = dtype_of(gemm, which);
  const bool numbers = row_of(which).matrix || row_of(which).term;
  // Of weights that are floats the device's code knows codes of e4m3 and e2m1.
  const bool codes = which == Operand::b && has_weights(gemm) && is_floating(type);
  const bool nibbles = bits_of(type) == 4 && (codes || !is_floating(type));
  // Scales are few and of their own range; the device's code stores no other floats of fewer than
  // eight bits.
  if (!numbers || (bits_of(type) < 8 && !nibbles)) {
    std::vector<std::byte> values(static_cast<std::size_t>(span_bytes(gemm, which)));
    kiln::fill(gemm, which, kind, seed, values.data());
    return upload(data, values);
  }
  constexpr std::uint64_t kStreams = std::bit_ceil(kOperandCount);  // one for each operand
  const Extent e = extent(gemm, which);
  // A stride of 0 would have every batch write the same elements.
  const std::int64_t stride = batch_stride(gemm, which), batch = stride == 0 ? 1 : gemm.batch;
  const std::uint64_t stream = seed * kStreams + index_of(which);
  const int code = static_cast<int>(type), limit = kind == Data::exact ? exact_limit(gemm, which)
                                                   : codes             ? -1
                                                                       : 0;
  const std::int64_t pitch = leading_dimension(gemm, which);
  if (nibbles)
    return call("check_fill_nibbles", {kBlocks}, data, code, e.length, e.lines, pitch, batch,
                stride, stream, limit, span_bytes(gemm, which));
  return call("check_fill", {kBlocks}, data, code, e.length, e.lines, pitch, batch, stride, stream,
              limit);
}

Status GpuTools::upload(void* to, std::span<const std::byte> from) const {
  return gpu::upload(*device_, std::bit_cast<gpu::DevicePointer>(to), from, stream());
}

Status GpuTools::poison(void* data, std::size_t bytes, std::uint64_t pattern) const {
  return call("check_poison", {kBlocks}, data, static_cast<std::int64_t>(bytes / 8), pattern);
}

Status GpuTools::wait() const {
  const gpu::Guest guest(*device_);
  return gpu::check(device_->driver(), device_->driver().cuStreamSynchronize(stream()),
                    "cuStreamSynchronize");
}

Result<GpuTools::Count> GpuTools::counted() const {
  if (Status ok = wait(); !ok) return tl::unexpected(ok.error());
  const gpu::Guest guest(*device_);
  Count count;
  if (Status ok =
          gpu::check(device_->driver(),
                     device_->driver().cuMemcpyDtoH(&count, counters_.pointer(), sizeof count),
                     "cuMemcpyDtoH");
      !ok)
    return tl::unexpected(ok.error());
  return count;
}

Result<std::uint64_t> GpuTools::checksum(const gpu::DeviceBuffer& buffer) const {
  Status ok = poison(counters_.data(), counters_.bytes(), 0);
  if (ok)
    ok = call("check_sum", {kBlocks}, buffer.data(), static_cast<std::int64_t>(buffer.bytes() / 8),
              counters_.data());
  if (!ok) return tl::unexpected(ok.error());
  return counted().map([](const Count& c) { return c.wrong; });
}

Status GpuTools::products(const Problem& problem, const KilnGpuArgs& args, double* sums,
                          float* magnitudes, const PartOfK& part) const {
  const Gemm& g = problem.gemm;
  KilnGpuArgs product = args;
  product.n = g.columns_of_b();
  return call("check_products",
              {blocks_for(product.n, kProductTile) * blocks_for(g.m, kProductTile) *
               static_cast<unsigned>(g.batch)},
              product, types_of(problem, part), int{g.accumulator == fp64}, sums, magnitudes);
}

Result<GpuTools::Count> GpuTools::judge(const Problem& problem, const KilnGpuArgs& args,
                                        const Scaling& scaling, const double* sums,
                                        const float* magnitudes, const void* c,
                                        const ReducedLines& reduced) const {
  const Gemm& g = problem.gemm;
  if (g.epilogue.expression.empty())
    return compared("check_judge", problem, args, scaling, sums, magnitudes, c);
  return judge_output(problem, args, scaling, sums, magnitudes, c, reduced, kValueOfD);
}

Status GpuTools::judged(const Problem& problem, const KilnGpuArgs& args, const Scaling& scaling,
                        const double* sums, const float* magnitudes, const void* c,
                        const check_args::CheckedExpression& expression) const {
  const auto memory = gpu::DeviceBuffer::make(device_, sizeof expression);
  if (!memory) return tl::unexpected(memory.error());
  Status ok = upload(memory->data(), std::as_bytes(std::span(&expression, 1)));
  if (ok) ok = poison(counters_.data(), 8, 0);
  if (ok) ok = poison(counters_.data() + 8, 8, ~std::uint64_t{0});
  if (ok)
    ok = call(expression.entry(), {kBlocks}, args, types_of(problem),
              device_allowance(problem.gemm, scaling), sums, magnitudes, c, counters_.data(),
              memory->data());
  return ok ? wait() : ok;  // the memory lives no longer
}

Result<GpuTools::ReducedLines> GpuTools::reduced_lines(const Problem& problem,
                                                       const KilnGpuArgs& args,
                                                       const Scaling& scaling, const double* sums,
                                                       const float* magnitudes, const void* c,
                                                       std::int64_t rows_before) const {
  const Gemm& g = problem.gemm;
  ReducedLines all{.rows_before = rows_before};
  if (g.epilogue.expression.empty() || g.m == 0 || g.n == 0) return all;
  for (const expression::Value& value : g.epilogue.expression.program()->values) {
    if (value.op != expression::Op::reduced) continue;
    const auto line = value.line;
    auto memory = gpu::DeviceBuffer::make(
        device_, static_cast<std::size_t>(check_args::bytes_of_lines(g, line)));
    if (!memory) return tl::unexpected(memory.error());
    const auto place = check_args::place_of_lines(g, line, memory->data());
    if (Status ok = judged(problem, args, scaling, sums, magnitudes, c,
                           check_args::put(g, args, value, all.of, place, rows_before));
        !ok)
      return tl::unexpected(ok.error());
    all.of.push_back(place);
    all.memory.push_back(std::move(*memory));
  }
  return all;
}

Result<GpuTools::Count> GpuTools::judge_output(const Problem& problem, const KilnGpuArgs& args,
                                               const Scaling& scaling, const double* sums,
                                               const float* magnitudes, const void* c,
                                               const ReducedLines& reduced, int output) const {
  if (Status ok =
          judged(problem, args, scaling, sums, magnitudes, c,
                 check_args::compared(problem.gemm, args, reduced.of, output, reduced.rows_before));
      !ok)
    return tl::unexpected(ok.error());
  return counted();
}

Result<GpuTools::Count> GpuTools::judge_scales(const Problem& problem, const KilnGpuArgs& args,
                                               const Scaling& scaling, const double* sums,
                                               const float* magnitudes, const void* c) const {
  return compared("check_scales", problem, args, scaling, sums, magnitudes, c);
}

Result<GpuTools::Between> GpuTools::amax(const Problem& problem, const KilnGpuArgs& args,
                                         const Scaling& scaling, const double* sums,
                                         const float* magnitudes, const void* c) const {
  // Both are maxima, of the bits of numbers that are not negative.
  return compared("check_amax", problem, args, scaling, sums, magnitudes, c, 0)
      .map([](const Count& found) {
        return Between{std::bit_cast<double>(found.wrong), std::bit_cast<double>(found.first)};
      });
}

Result<GpuTools::Count> GpuTools::compared(const char* entry, const Problem& problem,
                                           const KilnGpuArgs& args, const Scaling& scaling,
                                           const double* sums, const float* magnitudes,
                                           const void* c, std::uint64_t first) const {
  const Gemm& g = problem.gemm;
  const DeviceAllowance allow = device_allowance(g, scaling);
  // Usually the largest index, so that the least can be found.
  Status ok = poison(counters_.data(), 8, 0);
  if (ok) ok = poison(counters_.data() + 8, 8, first);
  if (ok)
    ok = call(entry, {kBlocks}, args, types_of(problem), allow, sums, magnitudes, c,
              counters_.data());
  if (!ok) return tl::unexpected(ok.error());
  return counted();
}

Status GpuTools::add_rows(const Problem& part, const KilnGpuArgs& args, const Scaling& scaling,
                          const double* sums, const float* magnitudes, const AddedRows& added,
                          const ReducedLines& reduced) const {
  if (part.gemm.epilogue.expression.empty())
    return call("check_add_rows", {kBlocks}, args, types_of(part),
                device_allowance(part.gemm, scaling), sums, magnitudes, added.index, added.weights,
                added.rows_of_d, added.values, added.errors);
  const auto expression =
      check_args::compared(part.gemm, args, reduced.of, kValueOfD, reduced.rows_before);
  const auto memory = gpu::DeviceBuffer::make(device_, sizeof expression);
  if (!memory) return tl::unexpected(memory.error());
  Status ok = upload(memory->data(), std::as_bytes(std::span(&expression, 1)));
  if (ok)
    ok = call("check_add_expressed", {kBlocks}, args, types_of(part),
              device_allowance(part.gemm, scaling), sums, magnitudes, added.index, added.weights,
              added.rows_of_d, added.values, added.errors, memory->data());
  return ok ? wait() : ok;  // the memory lives no longer
}

Result<GpuTools::Count> GpuTools::judge_added(const Problem& problem, const KilnGpuArgs& args,
                                              const Scaling& scaling, const AddedRows& added,
                                              const void* c) const {
  Status ok = poison(counters_.data(), 8, 0);
  if (ok) ok = poison(counters_.data() + 8, 8, ~std::uint64_t{0});
  if (ok)
    ok = call("check_judge_added", {kBlocks}, args, types_of(problem),
              device_allowance(in_order(problem.gemm), scaling), added.rows_of_d,
              int{!problem.gemm.epilogue.expression.empty()},
              static_cast<const double*>(added.values), static_cast<const double*>(added.errors), c,
              counters_.data());
  if (!ok) return tl::unexpected(ok.error());
  return counted();
}

Status GpuTools::gather(const Gemm& gemm, Operand which, const void* operand, const void* index,
                        void* to) const {
  return call("check_gather", {kBlocks}, to, operand, index, gemm.m, extent(gemm, which).lines,
              line_bytes(gemm, which), pitch_bytes(gemm, which));
}

Status GpuTools::forget(const Gemm& gemm, const ProductPart& part, const gpu::DeviceBuffer& buffer,
                        std::size_t first, std::uint64_t pattern, const void* index_d) const {
  const std::int64_t size = size_of(gemm.d.dtype);
  if (scatters(gemm))
    return call("check_forget_listed", {kBlocks}, buffer.data(), pattern,
                static_cast<std::int64_t>(first), gemm.n * size, part.segment.count,
                gemm.ldd() * size, static_cast<const std::int32_t*>(index_d) + part.segment.first,
                rows_of_d(gemm));
  const std::int64_t at = to_group(gemm, Operand::d, part.group, part.segment) * size;
  return call("check_forget", {kBlocks}, buffer.data(), pattern,
              static_cast<std::int64_t>(first) + at, part.gemm.n * size, part.segment.count,
              part.gemm.ldd() * size);
}

Status GpuTools::forget_beside(const Gemm& gemm, const ProductPart& part, Operand which,
                               const gpu::DeviceBuffer& buffer, std::size_t first,
                               std::uint64_t pattern) const {
  const Extent e = extent(part.gemm, which);
  const std::int64_t size = size_of(dtype_of(gemm, which));
  const auto* const begin = static_cast<const std::byte*>(buffer.data()) + first;
  const std::int64_t at =
      is_extra_output(which)
          ? static_cast<const std::byte*>(extra_of_part(gemm, which, begin, part)) - begin
          : part.group * batch_stride(gemm, which) * size;
  return call("check_forget", {kBlocks}, buffer.data(), pattern,
              static_cast<std::int64_t>(first) + at, e.length * size, e.lines,
              leading_dimension(part.gemm, which) * size);
}

Result<GpuTools::Count> GpuTools::around(const Gemm& gemm, Operand which,
                                         const gpu::DeviceBuffer& buffer, std::size_t first,
                                         std::uint64_t pattern) const {
  const Extent e = extent(gemm, which);
  const std::int64_t size = size_of(dtype_of(gemm, which)), stride = batch_stride(gemm, which);
  return changed_beside(
      buffer, pattern,
      {static_cast<std::int64_t>(first), e.length * size, e.lines,
       leading_dimension(gemm, which) * size, stride == 0 ? 1 : gemm.batch, stride * size});
}

Result<GpuTools::Count> GpuTools::changed(const gpu::DeviceBuffer& buffer,
                                          std::uint64_t pattern) const {
  return changed_beside(buffer, pattern, {.batch = 0});
}

Result<GpuTools::Count> GpuTools::changed_beside(const gpu::DeviceBuffer& buffer,
                                                 std::uint64_t pattern, const DLines& d) const {
  Status ok = poison(counters_.data(), 8, 0);
  if (ok) ok = poison(counters_.data() + 8, 8, ~std::uint64_t{0});
  if (ok)
    ok = call("check_around", {kBlocks}, buffer.data(), static_cast<std::int64_t>(buffer.bytes()),
              pattern, d.first, d.line, d.lines, d.pitch, d.batch, d.stride, counters_.data());
  if (!ok) return tl::unexpected(ok.error());
  return counted();
}

Status GpuTools::room_for(double bytes, const std::string& what) const {
  const gpu::Guest guest(*device_);
  std::size_t free = 0, total = 0;
  const gpu::Driver& driver = device_->driver();
  if (Status ok = gpu::check(driver, driver.cuMemGetInfo(&free, &total), "cuMemGetInfo"); !ok)
    return ok;
  return kiln::room_for(bytes, static_cast<std::int64_t>(free), what);
}

}  // namespace kiln
