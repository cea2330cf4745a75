#include "tuner/verify/gpu_inputs.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "generator/problem/gate.h"
#include "generator/problem/indices.h"
#include "generator/problem/operands.h"
#include "generator/problem/product_list.h"
#include "kiln/numeric.hpp"
#include "tuner/verify/drawn_list.h"

namespace kiln {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Of what an expression reads or stores.
void move_to_part(const Gemm& gemm, Operand which, const KilnGpuArgs& from, const ProductPart& part,
                  KilnGpuArgs& to) {
  const void* const moved = extra_of_part(gemm, which, pointer(from, which), part);
  const std::size_t i = index_of_extra(which);
  if (is_extra(which))
    to.extra[i] = moved;
  else
    to.outputs[i] = const_cast<void*>(moved);
}

}  // namespace

std::string_view name(GpuContents contents) {
  switch (contents) {
    case GpuContents::exact:
      return "exact data";
    case GpuContents::uniform:
      return "uniform data";
    case GpuContents::nonfinite:
      break;
  }
  return "data with NaN and infinity";
}

std::uint64_t poison_pattern(DType type) {
  switch (size_of(type)) {
    case 8:
      return 0x7ffdeadbeefcafe5;
    case 4:
      return type == DType::s32 ? 0xA5A5A5A5A5A5A5A5 : 0x7fdeadbe7fdeadbe;
    case 2:
      return type == DType::fp16 ? 0x7ead7ead7ead7ead : 0x7fde7fde7fde7fde;
    default:
      return 0xA5A5A5A5A5A5A5A5;
  }
}

std::size_t whole_words(std::int64_t bytes) {
  return static_cast<std::size_t>((bytes + 15) / 8 * 8);
}

std::size_t buffer_bytes(const Gemm& gemm, Operand which) {
  return whole_words(span_bytes(gemm, which));
}

Result<GpuInputs> GpuInputs::make(const GpuTools& tools, const Problem& problem,
                                  GpuContents contents, std::uint64_t seed) {
  GpuInputs made(tools, problem, contents, seed * 4 + static_cast<std::uint64_t>(contents));
  Status ok = made.allocate();
  if (ok) ok = made.fill();
  if (ok) ok = made.order_rows();
  if (ok) ok = made.multiply();
  if (!ok) return tl::unexpected(ok.error());
  const auto sum = made.checksum();
  if (!sum) return tl::unexpected(sum.error());
  made.checksum_ = *sum;
  return made;
}

Status GpuInputs::allocate() {
  const Gemm& g = gemm();
  const auto elements = static_cast<std::size_t>(g.outputs() * (gated(g) ? 2 : 1));
  std::vector<std::pair<gpu::DeviceBuffer*, std::size_t>> wanted{
      {&sums_, elements * sizeof(double)}, {&magnitudes_, elements * sizeof(float)}};
  for (const Operand which : kOperands)
    if (!is_output(g, which) && present(g, which) &&
        !(which == Operand::groups && lists_products(g)))
      wanted.push_back({&inputs_[index_of(which)], buffer_bytes(g, which)});
  for (const auto& [which, to] :
       {std::pair{Operand::a, &rows_of_a_}, std::pair{Operand::scale_a, &scales_of_a_}})
    if (is_gathered(g, which)) wanted.push_back({to, whole_words(g.m * line_bytes(g, which))});
  for (const auto& [to, bytes] : wanted) {
    auto made = gpu::DeviceBuffer::make(tools_->device(), bytes);
    if (!made) return tl::unexpected(made.error());
    *to = std::move(*made);
  }
  return {};
}

Status GpuInputs::fill() {
  const Gemm& g = gemm();
  groups_.resize(static_cast<std::size_t>(span(g, Operand::groups)));
  kiln::fill(g, Operand::groups, data(), seed_, groups_.data());
  parts_ = parts_of(g, groups_.data());
  const std::vector<std::int64_t> unnamed = rows_without_name();
  Status ok;
  const auto then = [&](Status step) {
    if (ok) ok = std::move(step);
  };
  for (const Operand which : kOperands) {
    const gpu::DeviceBuffer& x = inputs_[index_of(which)];
    if (x.bytes() == 0) continue;
    // Not behind the bias: a store beyond D that adds it would leave D's own poison, unseen.
    if (which != Operand::bias)
      then(tools_->poison(x.data(), x.bytes(), poison_pattern(g.d.dtype)));
    then(fill_like(which, x.data()));
  }
  then(spoil_behind_groups());
  for (const std::int64_t row : unnamed)
    then(put(g.a.dtype, (*this)[Operand::a], row * g.a.ld, kNan));
  if (contents_ == GpuContents::nonfinite) then(spoil());
  return ok;
}

Status GpuInputs::fill_like(Operand which, void* to) const {
  for (const Filling& piece : fillings(gemm(), which, seed_, groups_.data(), to))
    if (Status ok = tools_->fill(piece.gemm, which, data(), piece.seed, piece.data); !ok) return ok;
  return {};
}

/// A NaN and an infinity in A, a NaN in B: first, last and middle places.
Status GpuInputs::spoil() const {
  const Gemm& g = gemm();
  const gpu::DeviceBuffer &a = (*this)[Operand::a], &b = (*this)[Operand::b];
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (Status ok = put(g.a.dtype, a, span(g, Operand::a) - 1, kNan); !ok) return ok;
  if (Status ok = put(g.b.dtype, b, 0, kNan); !ok) return ok;
  if (Status ok = spoil_groups(); !ok) return ok;
  // fp8_e4m3 has none: the store would make a large number of it. In parts of half precision it
  // is a NaN, and so it is beside zero points that are not integers.
  if (g.a.dtype == DType::fp8_e4m3 || g.numerics == Numerics::tensor ||
      g.b.q.zero == Zero::floating)
    return {};
  return put(g.a.dtype, a, (g.a.ld) * (extent(g, Operand::a).lines / 2), kInfinity);
}

/// Some of A's rows that no row of a group is.
std::vector<std::int64_t> GpuInputs::rows_without_name() const {
  const Gemm& g = gemm();
  constexpr std::size_t kMost = 64;
  if (!gathers(g) || !is_floating(g.a.dtype)) return {};
  std::vector<std::int32_t> index(static_cast<std::size_t>(g.m));
  kiln::fill(g, Operand::index_a, data(), seed_, index.data());
  std::vector<std::int64_t> rows = unnamed_rows(g, Operand::a, index.data(), parts_);
  rows.resize(std::min(rows.size(), kMost));
  return rows;
}

Status GpuInputs::order_rows() {
  const Gemm& g = gemm();
  for (const auto& [which, to] :
       {std::pair{Operand::a, &rows_of_a_}, std::pair{Operand::scale_a, &scales_of_a_}}) {
    if (!is_gathered(g, which)) continue;
    if (Status ok = tools_->gather(g, which, (*this)[which].data(),
                                   (*this)[Operand::index_a].data(), to->data());
        !ok)
      return ok;
  }
  return {};
}

/// NaN in the first and the last line of what lies along k behind groups and is of none.
Status GpuInputs::spoil_behind_groups() const {
  const Gemm& g = gemm();
  if (!is_floating(g.a.dtype)) return {};
  constexpr std::int64_t kReach = 64;
  for (const std::int64_t k : k_behind_groups(g, parts_, kReach))
    for (const Operand which : {Operand::a, Operand::b}) {
      const std::int64_t lines = which == Operand::a ? g.m : g.n;
      const bool k_major = which == Operand::a ? problem_->a_k_major : problem_->b_k_major;
      const std::int64_t pitch = leading_dimension(g, which);
      for (const std::int64_t line : {std::int64_t{0}, lines - 1}) {
        const std::int64_t at = k_major ? line * pitch + k : k * pitch + line;
        if (Status ok = put(matrix(g, which).dtype, (*this)[which], at, kNan); !ok) return ok;
      }
    }
  return {};
}

/// NaN in the first and the last element along k of every second group of k, in A or B.
Status GpuInputs::spoil_groups() const {
  const Gemm& g = gemm();
  if (g.grouping() != Grouping::k) return {};
  for (const ProductPart& part : parts_) {
    if (part.group % 2 == 0 || part.segment.count == 0) continue;
    const Operand which = part.group % 4 == 1 ? Operand::a : Operand::b;
    const std::int64_t last = part.segment.first + part.segment.count - 1;
    for (const std::int64_t k : {part.segment.first, last}) {
      const std::int64_t at = to_group(g, which, part.group, {k, 1});
      if (Status ok = put(matrix(g, which).dtype, (*this)[which], at, kNan); !ok) return ok;
    }
  }
  return {};
}

Status GpuInputs::put(DType type, const gpu::DeviceBuffer& to, std::int64_t at,
                      double value) const {
  if (bits_of(type) < 8) return {};  // these have neither
  std::uint64_t bits = 0;
  store_element(type, &bits, 0, value);
  const std::span all = std::as_bytes(std::span(&bits, 1));
  return gpu::upload(*tools_->device(),
                     to.pointer() + static_cast<std::uint64_t>(at * size_of(type)),
                     all.first(static_cast<std::size_t>(size_of(type))), tools_->stream());
}

/// Sums and magnitudes of all parts.
Status GpuInputs::multiply() const {
  const KilnGpuArgs all = args();
  for (const ProductPart& one : parts_) {
    const PartOfRun of = part(one, all, nullptr);
    if (Status ok = tools_->products(of.problem, of.args, of.sums, of.magnitudes,
                                     part_of_k(gemm(), one.segment));
        !ok)
      return ok;
  }
  return {};
}

KilnGpuArgs GpuInputs::args() const {
  KilnGpuArgs args = gpu::gpu_args(*problem_, {});
  for_each_operand([&](auto which) {
    if ((*this)[which].bytes() > 0) pointer<which>(args) = (*this)[which].data();
  });
  return args;
}

PartOfRun GpuInputs::part(const ProductPart& part, const KilnGpuArgs& args, void* rows_of_d) const {
  const Gemm& g = gemm();
  PartOfRun one{.problem = *problem_,
                .group = part.group,
                .args = args,
                .c = (*this)[Operand::c].data(),
                .sums = reinterpret_cast<double*>(sums_.data()),
                .magnitudes = reinterpret_cast<float*>(magnitudes_.data())};
  if (!grouped(g)) return one;
  const Gemm ordered = in_order(g);
  one.problem = alone(*problem_, part.segment.count);
  one.rows_before = first_row_of(g, part.segment);
  if (gathers(g)) one.args.a = rows_of_a_.data();
  if (is_gathered(g, Operand::scale_a)) one.args.scale_a = scales_of_a_.data();
  if (scatters(g)) one.args.d = rows_of_d;
  one.args.lda = part.gemm.lda();
  one.args.ldd = part.gemm.ldd();
  move_to_group(ordered, one.args, part.group, part.segment);
  for (const Operand which : kOperands)
    if (extra_of(g, which) != nullptr) move_to_part(g, which, args, part, one.args);
  one.args.m = part.gemm.m;
  one.args.k = part.gemm.k;
  one.args.batch = 1;
  if (lists_products(g)) {
    one.problem = alone(*problem_, listed(groups_.data(), part.group));
    one.args.n = part.gemm.n;
    one.args.ldb = part.gemm.ldb();
    one.args.ldc = part.gemm.ldc();
  }
  KilnGpuArgs given = args;
  given.c = one.c;
  move_to_group(ordered, given, part.group, part.segment);
  one.c = given.c;
  const std::int64_t row = g.grouping() == Grouping::rows ? part.segment.first : part.group * g.m;
  one.sums += row * g.columns_of_b();
  one.magnitudes += row * g.columns_of_b();
  return one;
}

Result<std::uint64_t> GpuInputs::checksum() const {
  std::uint64_t sum = 0;
  for (const gpu::DeviceBuffer& x : inputs_) {
    if (x.bytes() == 0) continue;
    const auto one = tools_->checksum(x);
    if (!one) return one;
    sum = sum * 31 + *one;
  }
  return sum;
}

Result<bool> GpuInputs::unchanged() const {
  return checksum().map([this](std::uint64_t sum) { return sum == checksum_; });
}

}  // namespace kiln
