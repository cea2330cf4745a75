#include "tuner/verify/gpu_check.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "generator/problem/groups.h"
#include "generator/problem/indices.h"
#include "generator/problem/operands.h"
#include "generator/problem/product_list.h"
#include "kiln/numeric.hpp"
#include "tuner/verify/drawn_list.h"
#include "tuner/verify/view.h"

namespace kiln {
namespace {

/// Before and after D, in bytes: several rows of any tile.
constexpr std::size_t kGuard = 64 << 10;
/// Largest problem that is also run on data with NaN and infinity, for which products are computed
/// a second time.
constexpr double kNonfiniteFlops = 0x1p31;

enum class Contents : std::uint8_t { exact, uniform, nonfinite };

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::string_view name(Contents contents) {
  switch (contents) {
    case Contents::exact:
      return "exact data";
    case Contents::uniform:
      return "uniform data";
    case Contents::nonfinite:
      break;
  }
  return "data with NaN and infinity";
}

std::size_t padded(std::int64_t bytes) { return static_cast<std::size_t>((bytes + 15) / 8 * 8); }

std::size_t operand_bytes(const Gemm& gemm, Operand which) {
  return padded(span_bytes(gemm, which));
}

/// The 8 bytes that a run's D is filled with: a NaN of its type in every element, or the pattern
/// that no integer sum of the test data meets.
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

Failure failure_of(const Error& error) { return {Failure::Kind::resources, error.message}; }

/// Inputs with what their product should be.
struct InputSet {
  Contents contents = Contents::exact;
  std::array<gpu::DeviceBuffer, kOperandCount> inputs;  // empty: not there, or an output
  std::vector<std::int32_t> groups;                     // as fill() makes them
  std::vector<ProductPart> parts;                       // of the canonical problem
  gpu::DeviceBuffer rows_of_a, scales_of_a;             // in order, where they are by index
  gpu::DeviceBuffer sums, magnitudes;
  std::uint64_t checksum = 0;
  const gpu::DeviceBuffer& operator[](Operand which) const { return inputs[index_of(which)]; }
};

/// One part of a run, as a problem without groups.
struct PartOfRun {
  Canonical problem;
  std::int64_t group = 0;
  KilnGpuArgs args;
  const void* c = nullptr;  // what was given, which D may have taken the place of
  double* sums = nullptr;
  float* magnitudes = nullptr;
};

}  // namespace

struct GpuChecker::Impl {
  std::shared_ptr<const GpuTools> tools;
  Canonical problem;
  Gemm asked;  // as the caller spelt it, for messages
  std::uint64_t seed = 1;
  std::vector<InputSet> sets = {};
  gpu::DeviceBuffer d = {};  // what runs write
  std::array<gpu::DeviceBuffer, kOperandCount> beside_d = {};
  gpu::DeviceBuffer rows_of_d = {};            // D's rows in order, where they are by index
  gpu::DeviceBuffer values = {}, errors = {};  // of D where rows are added to its rows
  mutable std::vector<ListEntry> list = {};    // of the call in hand

  struct Run {
    Contents contents;
    double alpha, beta;
    bool in_place;
  };

  const Gemm& gemm() const { return problem.gemm; }
  const gpu::GpuDevice& device() const { return *tools->device(); }
  void* d_data() const { return d.data() + kGuard; }

  Result<gpu::DeviceBuffer> buffer(std::size_t bytes) const {
    return gpu::DeviceBuffer::make(tools->device(), bytes);
  }

  std::vector<Run> runs() const {
    const auto [alpha, beta] = uniform_scalars(gemm());
    const Gemm& g = gemm();
    const bool alike =
        present(g, Operand::c) && g.c.ld == g.d.ld && g.c.batch_stride == g.d.batch_stride;
    std::vector<Run> list{{Contents::exact, 1.0, 0.0, false},
                          {Contents::uniform, alpha, beta, false}};
    // C of a list lies as D does on exact data alone.
    if (lists_products(g)) list.push_back({Contents::exact, -2.0, 1.0, true});
    if (alike && !lists_products(g)) list.push_back({Contents::uniform, -alpha, 1.0, true});
    const bool smooth = g.epilogue.activation > Activation::relu || gated(g);
    if (is_floating(g.a.dtype) && !smooth && !lists_products(g) && g.flops() <= kNonfiniteFlops)
      list.push_back({Contents::nonfinite, 1.0, 0.0, false});
    return list;
  }

  Data kind_of(const InputSet& set) const {
    return set.contents == Contents::exact ? Data::exact : Data::uniform;
  }
  std::uint64_t seed_of(const InputSet& set) const {
    return seed * 4 + static_cast<std::uint64_t>(set.contents);
  }

  Status fill(InputSet& set) const {
    const Gemm& g = gemm();
    set.groups.resize(static_cast<std::size_t>(span(g, Operand::groups)));
    kiln::fill(g, Operand::groups, kind_of(set), seed_of(set), set.groups.data());
    set.parts = parts_of(g, set.groups.data());
    const std::vector<std::int64_t> unnamed = rows_without_name(set);
    Status ok;
    const auto then = [&](Status step) {
      if (ok) ok = std::move(step);
    };
    for (const Operand which : kOperands) {
      const gpu::DeviceBuffer& x = set[which];
      if (x.bytes() == 0) continue;
      // Not behind the bias: a store beyond D that adds it would leave D's own poison, unseen.
      if (which != Operand::bias)
        then(tools->poison(x.data(), x.bytes(), poison_pattern(g.d.dtype)));
      for (const Filling& piece : fillings(g, which, seed_of(set), set.groups.data(), x.data()))
        then(tools->fill(piece.gemm, which, kind_of(set), piece.seed, piece.data));
    }
    then(spoil_behind_groups(set));
    for (const std::int64_t row : unnamed)
      then(put(g.a.dtype, set[Operand::a], row * g.a.ld, kNan));
    if (set.contents == Contents::nonfinite) then(spoil(set));
    return ok;
  }

  /// A NaN and an infinity in A, a NaN in B: first, last and middle places.
  Status spoil(const InputSet& set) const {
    const Gemm& g = gemm();
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (Status ok = put(g.a.dtype, set[Operand::a], span(g, Operand::a) - 1, kNan); !ok) return ok;
    if (Status ok = put(g.b.dtype, set[Operand::b], 0, kNan); !ok) return ok;
    if (Status ok = spoil_groups(set); !ok) return ok;
    // fp8_e4m3 has none: the store would make a large number of it. In parts of half precision it
    // is a NaN, and so it is beside zero points that are no integers.
    if (g.a.dtype == DType::fp8_e4m3 || g.numerics == Numerics::tensor || g.zero == Zero::floating)
      return {};
    return put(g.a.dtype, set[Operand::a], (g.a.ld) * (extent(g, Operand::a).lines / 2), kInfinity);
  }

  /// Some of A's rows that no row of a group is.
  std::vector<std::int64_t> rows_without_name(const InputSet& set) const {
    const Gemm& g = gemm();
    constexpr std::size_t kMost = 64;
    if (!gathers(g) || !is_floating(g.a.dtype)) return {};
    std::vector<std::int32_t> index(static_cast<std::size_t>(g.m));
    kiln::fill(g, Operand::index_a, kind_of(set), seed_of(set), index.data());
    std::vector<std::int64_t> rows = unnamed_rows(g, Operand::a, index.data(), set.parts);
    rows.resize(std::min(rows.size(), kMost));
    return rows;
  }

  /// Puts the rows of inputs in order.
  Status order_inputs(InputSet& set) const {
    const Gemm& g = gemm();
    for (const auto& [which, to] :
         {std::pair{Operand::a, &set.rows_of_a}, std::pair{Operand::scale_a, &set.scales_of_a}}) {
      if (!is_gathered(g, which)) continue;
      auto made = buffer(padded(g.m * line_bytes(g, which)));
      if (!made) return tl::unexpected(made.error());
      *to = std::move(*made);
      if (Status ok =
              tools->gather(g, which, set[which].data(), set[Operand::index_a].data(), to->data());
          !ok)
        return ok;
    }
    return {};
  }

  /// NaN in the first and the last line of what lies along k behind groups and is of none.
  Status spoil_behind_groups(const InputSet& set) const {
    const Gemm& g = gemm();
    if (!is_floating(g.a.dtype)) return {};
    constexpr std::int64_t kReach = 64;
    for (const std::int64_t k : k_behind_groups(g, set.parts, kReach))
      for (const Operand which : {Operand::a, Operand::b}) {
        const std::int64_t lines = which == Operand::a ? g.m : g.n;
        const bool k_major = which == Operand::a ? problem.a_k_major : problem.b_k_major;
        const std::int64_t pitch = leading_dimension(g, which);
        for (const std::int64_t line : {std::int64_t{0}, lines - 1}) {
          const std::int64_t at = k_major ? line * pitch + k : k * pitch + line;
          if (Status ok = put(g.a.dtype, set[which], at, kNan); !ok) return ok;
        }
      }
    return {};
  }

  /// NaN in the first and the last element along k of every second group of k, in A or B.
  Status spoil_groups(const InputSet& set) const {
    const Gemm& g = gemm();
    if (g.grouping != Grouping::k) return {};
    for (const ProductPart& part : set.parts) {
      if (part.group % 2 == 0 || part.segment.count == 0) continue;
      const Operand which = part.group % 4 == 1 ? Operand::a : Operand::b;
      const std::int64_t last = part.segment.first + part.segment.count - 1;
      for (const std::int64_t k : {part.segment.first, last}) {
        const std::int64_t at = to_group(g, which, part.group, {k, 1});
        if (Status ok = put(g.a.dtype, set[which], at, kNan); !ok) return ok;
      }
    }
    return {};
  }

  Status put(DType type, const gpu::DeviceBuffer& to, std::int64_t at, double value) const {
    if (bits_of(type) < 8) return {};  // these have neither
    std::uint64_t bits = 0;
    store_element(type, &bits, 0, value);
    const std::span all = std::as_bytes(std::span(&bits, 1));
    return gpu::upload(device(), to.pointer() + static_cast<std::uint64_t>(at * size_of(type)),
                       all.first(static_cast<std::size_t>(size_of(type))), tools->stream());
  }

  /// The problem, whose operands are not exchanged.
  Canonical as_it_is() const {
    Canonical same = problem;
    same.swapped = false;
    return same;
  }

  /// Of a list its entries are kept until the next call.
  KilnGpuArgs args_of(const InputSet& set, const Run& run) const {
    KilnGpuArgs args = gpu::gpu_args(problem, {});
    for_each_operand([&](auto which) {
      if (set[which].bytes() > 0) pointer<which>(args) = set[which].data();
    });
    args.d = d_data();
    for_each_operand([&](auto which) {
      const gpu::DeviceBuffer& written = beside_d[index_of(which)];
      if constexpr (which == Operand::scale_d || which == Operand::amax_d)
        if (written.bytes() > 0) pointer<which>(args) = written.data() + kGuard;
    });
    // With beta = 0 it is D's own poison: read, it would make every element NaN.
    if (run.in_place || run.beta == 0) args.c = args.d;
    args.alpha = run.alpha;
    args.beta = run.beta;
    if (lists_products(gemm())) {
      canonical_entries(as_it_is(), entries_of(gemm(), set.groups.data(), args).data(), list);
      args.groups = list.data();
    }
    return args;
  }

  PartOfRun part_of(const InputSet& set, const ProductPart& part, const KilnGpuArgs& args) const {
    const Gemm& g = gemm();
    PartOfRun one{.problem = problem,
                  .group = part.group,
                  .args = args,
                  .c = set[Operand::c].data(),
                  .sums = reinterpret_cast<double*>(set.sums.data()),
                  .magnitudes = reinterpret_cast<float*>(set.magnitudes.data())};
    if (!grouped(g)) return one;
    const Gemm ordered = in_order(g);
    one.problem = alone(problem, part.segment.count);
    if (gathers(g)) one.args.a = set.rows_of_a.data();
    if (is_gathered(g, Operand::scale_a)) one.args.scale_a = set.scales_of_a.data();
    if (scatters(g)) one.args.d = rows_of_d.data();
    one.args.lda = part.gemm.lda();
    one.args.ldd = part.gemm.ldd();
    move_to_group(ordered, one.args, part.group, part.segment);
    one.args.m = part.gemm.m;
    one.args.k = part.gemm.k;
    one.args.batch = 1;
    if (lists_products(g)) {
      one.problem = alone(problem, listed(set.groups.data(), part.group));
      one.args.n = part.gemm.n;
      one.args.ldb = part.gemm.ldb();
      one.args.ldc = part.gemm.ldc();
    }
    KilnGpuArgs given = args;
    given.c = one.c;
    move_to_group(ordered, given, part.group, part.segment);
    one.c = given.c;
    const std::int64_t row = g.grouping == Grouping::rows ? part.segment.first : part.group * g.m;
    one.sums += row * g.columns_of_b();
    one.magnitudes += row * g.columns_of_b();
    return one;
  }

  Result<std::uint64_t> checksum(const InputSet& set) const {
    std::uint64_t sum = 0;
    for (const gpu::DeviceBuffer& x : set.inputs) {
      if (x.bytes() == 0) continue;
      const auto one = tools->checksum(x);
      if (!one) return one;
      sum = sum * 31 + *one;
    }
    return sum;
  }

  Status make_set(InputSet& set) const {
    const Gemm& g = gemm();
    const auto elements = static_cast<std::size_t>(g.outputs() * (gated(g) ? 2 : 1));
    std::vector<std::pair<gpu::DeviceBuffer*, std::size_t>> wanted{
        {&set.sums, elements * sizeof(double)}, {&set.magnitudes, elements * sizeof(float)}};
    for (const Operand which : kOperands)
      if (!is_output(g, which) && present(g, which) &&
          !(which == Operand::groups && lists_products(g)))
        wanted.push_back({&set.inputs[index_of(which)], operand_bytes(g, which)});
    for (const auto& [to, bytes] : wanted) {
      auto made = buffer(bytes);
      if (!made) return tl::unexpected(made.error());
      *to = std::move(*made);
    }
    if (Status ok = fill(set); !ok) return ok;
    if (Status ok = order_inputs(set); !ok) return ok;
    const KilnGpuArgs args = args_of(set, {set.contents, 1.0, 0.0, false});
    for (const ProductPart& part : set.parts) {
      const PartOfRun one = part_of(set, part, args);
      if (Status ok = tools->products(one.problem, one.args, one.sums, one.magnitudes); !ok)
        return ok;
    }
    const auto sum = checksum(set);
    if (!sum) return tl::unexpected(sum.error());
    set.checksum = *sum;
    return {};
  }

  Result<InputSet*> set_of(Contents contents) {
    for (InputSet& set : sets)
      if (set.contents == contents) return &set;
    if (d.bytes() == 0) {
      auto made = buffer(operand_bytes(gemm(), Operand::d) + 2 * kGuard);
      if (!made) return tl::unexpected(made.error());
      d = std::move(*made);
      if (scatters(gemm())) {
        made = buffer(padded(gemm().m * line_bytes(gemm(), Operand::d)));
        if (!made) return tl::unexpected(made.error());
        rows_of_d = std::move(*made);
      }
      if (adds_rows(gemm()))
        for (gpu::DeviceBuffer* const to : {&values, &errors}) {
          made = buffer(padded(kiln::rows_of_d(gemm()) * gemm().n * 8));
          if (!made) return tl::unexpected(made.error());
          *to = std::move(*made);
        }
      for (const Operand which : kBesideD) {
        if (!is_output(gemm(), which)) continue;
        made = buffer(operand_bytes(gemm(), which) + 2 * kGuard);
        if (!made) return tl::unexpected(made.error());
        beside_d[index_of(which)] = std::move(*made);
      }
    }
    InputSet set;
    set.contents = contents;
    if (Status ok = make_set(set); !ok) return tl::unexpected(ok.error());
    sets.push_back(std::move(set));
    return &sets.back();
  }

  double read(DType type, const void* data, std::int64_t at) const {
    std::uint64_t bits = 0;
    const auto size = static_cast<std::size_t>(size_of(type));
    const gpu::Guest guest(device());
    device().driver().cuMemcpyDtoH(
        &bits, std::bit_cast<gpu::DevicePointer>(data) + static_cast<std::size_t>(at) * size, size);
    return load_element(type, &bits, 0);
  }

  Failure wrong(const InputSet& set, const Run& run, const PartOfRun& part,
                GpuTools::Count count) const {
    const Gemm& g = part.problem.gemm;
    const auto at = static_cast<std::int64_t>(count.first);
    const std::int64_t batch = at / (g.m * g.n), row = at / g.n % g.m, column = at % g.n;
    const std::int64_t d_at = batch * g.d.batch_stride + row * g.d.ld + column;
    // Of either product and either bias; without a gate the second ones are not looked at.
    std::array<double, 2> sum{}, magnitude{}, bias{};
    std::array<double, kOperandCount> term{};
    Terms terms{{&sum[0], 1}, {&magnitude[0], 1}};
    terms.second = {{&sum[1], 1}, {&magnitude[1], 1}, {&bias[1], 1}};
    for (const Factor factor : kFactors) {
      const auto which = static_cast<std::size_t>(factor);
      const std::int64_t under = columns_of(g, factor)(column);
      const std::int64_t place = (batch * g.m + row) * g.columns_of_b() + under;
      sum[which] = read(fp64, part.sums, place);
      magnitude[which] = read(fp32, part.magnitudes, place);
      if (present(g, Operand::bias))
        bias[which] = read(dtype_of(g, Operand::bias), part.args.bias,
                           view_of(g, Operand::bias, nullptr, 0).offset(row, under));
    }
    for (const Operand which : kOperands) {
      if (!row_of(which).term || !present(g, which)) continue;
      double& value = term[index_of(which)];
      terms[which] = {&value, 1};
      if (which == Operand::bias) {
        value = bias[0];
        continue;
      }
      const std::int64_t index =
          batch * batch_stride(g, which) + view_of(g, which, nullptr, 0).offset(row, column);
      value =
          read(dtype_of(g, which), which == Operand::c ? part.c : pointer(part.args, which), index);
    }
    double value = 0, error = 0;
    expect(g, {run.alpha, run.beta, set.contents == Contents::exact}, terms, {&value, 1},
           {&error, 1});
    return {Failure::Kind::wrong_result,
            fmt::format("{} {} row {} column {} and {} more: got {}, expected {} within {:.3g} "
                        "before rounding to {} ({}, seed {}, alpha {}, beta {}{}; {})",
                        grouped(gemm()) ? "group" : "batch", grouped(gemm()) ? part.group : batch,
                        row, column, count.wrong - 1, read(g.d.dtype, part.args.d, d_at), value,
                        error, kiln::name(g.d.dtype), name(set.contents), seed, run.alpha, run.beta,
                        run.in_place ? ", C in place" : "", text(asked))};
  }

  /// D is poisoned, or C where it is computed in place.
  Status prepare_d(const InputSet& set, const Run& run) const {
    Status ok = tools->poison(d.data(), d.bytes(), poison_pattern(gemm().d.dtype));
    for (const gpu::DeviceBuffer& written : beside_d)
      if (ok && written.bytes() > 0)
        ok = tools->poison(written.data(), written.bytes(), poison_pattern(fp32));
    if (run.in_place)
      for (const Filling& piece :
           fillings(gemm(), Operand::c, seed_of(set), set.groups.data(), d_data()))
        if (ok) ok = tools->fill(piece.gemm, Operand::c, kind_of(set), piece.seed, piece.data);
    return ok ? tools->wait() : ok;
  }

  Verdict run_one(const RunOnGpu& kernel, const Run& run) {
    const auto set = set_of(run.contents);
    if (!set) return tl::unexpected(failure_of(set.error()));
    if (Status ok = prepare_d(**set, run); !ok) return tl::unexpected(failure_of(ok.error()));
    const KilnGpuArgs args = args_of(**set, run);
    Status ran = kernel(args, tools->stream());
    if (!ran) return tl::unexpected(Failure{Failure::Kind::load, ran.error().message});
    if (Status done = tools->wait(); !done)
      return tl::unexpected(Failure{Failure::Kind::crashed, done.error().message});
    return compare(**set, run, args);
  }

  static tl::unexpected<Failure> strayed(std::string_view what, GpuTools::Count count) {
    return tl::unexpected(Failure{
        Failure::Kind::out_of_bounds,
        fmt::format("{} bytes around {} were written, the first {} bytes from its start",
                    count.wrong, what,
                    static_cast<std::int64_t>(count.first) - static_cast<std::int64_t>(kGuard))});
  }

  /// Those that follow from D; those of rows that are no group's are not looked at.
  Verdict compare_scales(const InputSet& set, const Run& run, const PartOfRun& part) const {
    if (beside_d[index_of(Operand::scale_d)].bytes() == 0) return {};
    const auto count = tools->judge_scales(part.problem, part.args,
                                           {run.alpha, run.beta, set.contents == Contents::exact},
                                           part.sums, part.magnitudes, part.c);
    if (!count) return tl::unexpected(failure_of(count.error()));
    if (count->wrong == 0) return {};
    const auto at = static_cast<std::int64_t>(count->first);
    return tl::unexpected(Failure{
        Failure::Kind::wrong_result,
        fmt::format("{} {}: scale {} of D and {} more: got {} ({}, seed {}; {})",
                    grouped(gemm()) ? "group" : "batch", part.group, at, count->wrong - 1,
                    read(fp32, part.args.scale_d, at), name(set.contents), seed, text(asked))});
  }

  /// Takes one part's elements into the bounds of D's largest magnitude. NaN is more than all.
  Verdict widen_amax(const InputSet& set, const Run& run, const PartOfRun& part,
                     GpuTools::Between& of_d) const {
    if (!gemm().amax_d) return {};
    const auto found =
        tools->amax(part.problem, part.args, {run.alpha, run.beta, set.contents == Contents::exact},
                    part.sums, part.magnitudes, part.c);
    if (!found) return tl::unexpected(failure_of(found.error()));
    const auto raise = [](double& to, double by) {
      if (!(by <= to) && !std::isnan(to)) to = by;
    };
    raise(of_d.least, found->least);
    raise(of_d.most, found->most);
    return {};
  }

  Verdict compare_amax(const InputSet& set, const Run& run, const KilnGpuArgs& args,
                       const GpuTools::Between& of_d) const {
    if (!gemm().amax_d) return {};
    const double got = read(fp32, args.amax_d, 0);
    const bool right =
        std::isnan(of_d.least) ? std::isnan(got) : got >= of_d.least && got <= of_d.most;
    if (right) return {};
    return tl::unexpected(
        Failure{Failure::Kind::wrong_result,
                fmt::format("amax_d = {}: expected {} to {} ({}, seed {}, alpha {}, beta {}; {})",
                            got, of_d.least, of_d.most, name(set.contents), seed, run.alpha,
                            run.beta, text(asked))});
  }

  /// Of a D to whose rows those of the product are added.
  Verdict compare_added(const InputSet& set, const Run& run, const KilnGpuArgs& args) const {
    const auto broken = [](const Error& error) { return tl::unexpected(failure_of(error)); };
    const Gemm& g = gemm();
    const Scaling product{run.alpha, 0, set.contents == Contents::exact};
    GpuTools::AddedRows added{.rows_of_d = kiln::rows_of_d(g),
                              .values = reinterpret_cast<double*>(values.data()),
                              .errors = reinterpret_cast<double*>(errors.data())};
    for (const gpu::DeviceBuffer* sums : {&values, &errors})
      if (Status ok = tools->poison(sums->data(), sums->bytes(), 0); !ok) return broken(ok.error());
    for (const ProductPart& part : set.parts) {
      PartOfRun one = part_of(set, part, args);
      one.args.beta = 0;
      added.index =
          reinterpret_cast<const std::int32_t*>(set[Operand::index_d].data()) + part.segment.first;
      added.weights = g.scatter != Scatter::weighted
                          ? nullptr
                          : reinterpret_cast<const float*>(set[Operand::row_weights].data()) +
                                part.segment.first;
      if (Status ok =
              tools->add_rows(one.problem, one.args, product, one.sums, one.magnitudes, added);
          !ok)
        return broken(ok.error());
    }
    const auto count = tools->judge_added(problem, args, {run.alpha, run.beta, product.exact},
                                          added, set[Operand::c].data());
    if (!count) return broken(count.error());
    if (count->wrong == 0) return {};
    const auto at = static_cast<std::int64_t>(count->first);
    const std::int64_t row = at / g.n, column = at % g.n;
    return tl::unexpected(Failure{
        Failure::Kind::wrong_result,
        fmt::format("row {} column {} and {} more: got {}, expected {} within {:.3g} beside beta "
                    "times C, before rounding to {}, the sum of rows of the product ({}, seed {}, "
                    "alpha {}, beta {}{}; {})",
                    row, column, count->wrong - 1, read(g.d.dtype, d_data(), row * g.d.ld + column),
                    read(fp64, added.values, at), read(fp64, added.errors, at),
                    kiln::name(g.d.dtype), name(set.contents), seed, run.alpha, run.beta,
                    run.in_place ? ", C in place" : "", text(asked))});
  }

  Verdict compare(const InputSet& set, const Run& run, const KilnGpuArgs& args) const {
    const auto broken = [](const Error& error) { return tl::unexpected(failure_of(error)); };
    const std::uint64_t pattern = poison_pattern(gemm().d.dtype);
    // Where C was in D's place, its rows that are no group's remain.
    // What a list's C has between its products is poison as well.
    const bool exactly =
        lists_products(gemm()) ||
        (grouped(gemm()) && gemm().grouping != Grouping::k && !adds_rows(gemm()) && !run.in_place);
    const void* const index_d = set[Operand::index_d].data();
    if (scatters(gemm()))
      if (Status ok = tools->gather(gemm(), Operand::d, d_data(), index_d, rows_of_d.data()); !ok)
        return broken(ok.error());
    GpuTools::Between of_d;
    if (adds_rows(gemm()))
      if (Verdict verdict = compare_added(set, run, args); !verdict) return verdict;
    for (const ProductPart& part : set.parts) {
      if (adds_rows(gemm())) break;
      const PartOfRun one = part_of(set, part, args);
      const auto values = tools->judge(one.problem, one.args,
                                       {run.alpha, run.beta, set.contents == Contents::exact},
                                       one.sums, one.magnitudes, one.c);
      if (!values) return broken(values.error());
      if (values->wrong > 0) return tl::unexpected(wrong(set, run, one, *values));
      if (Verdict verdict = compare_scales(set, run, one); !verdict) return verdict;
      if (Verdict verdict = widen_amax(set, run, one, of_d); !verdict) return verdict;
      if (!exactly) continue;
      if (Status ok = tools->forget(gemm(), part, d, kGuard, pattern, index_d); !ok)
        return broken(ok.error());
    }
    if (Verdict verdict = compare_amax(set, run, args, of_d); !verdict) return verdict;
    const auto around = exactly ? tools->changed(d, pattern)
                                : tools->around(gemm(), Operand::d, d, kGuard, pattern);
    if (!around) return broken(around.error());
    if (around->wrong > 0) return strayed("D", *around);
    for (const Operand which : kBesideD) {
      const gpu::DeviceBuffer& written = beside_d[index_of(which)];
      if (written.bytes() == 0) continue;
      const auto beside = tools->around(gemm(), which, written, kGuard, poison_pattern(fp32));
      if (!beside) return broken(beside.error());
      if (beside->wrong > 0) return strayed(name(which), *beside);
    }
    const auto sum = checksum(set);
    if (!sum) return broken(sum.error());
    if (*sum != set.checksum)
      return tl::unexpected(Failure{Failure::Kind::out_of_bounds, "an input was written"});
    return {};
  }
};

GpuChecker::GpuChecker(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GpuChecker::GpuChecker(GpuChecker&&) noexcept = default;
GpuChecker& GpuChecker::operator=(GpuChecker&&) noexcept = default;
GpuChecker::~GpuChecker() = default;

double GpuChecker::bytes_needed(const Gemm& gemm) {
  constexpr double kContents = 2;  // exact and uniform; small problems have a third
  const double elements = gemm.outputs() * (gated(gemm) ? 2 : 1);
  return kContents * (DataSet::bytes_needed(gemm) + elements * (sizeof(double) + sizeof(float))) +
         double(span_bytes(gemm, Operand::d) + span_bytes(gemm, Operand::scale_d)) +
         (adds_rows(gemm) ? 2.0 * sizeof(double) * double(span(gemm, Operand::d)) : 0);
}

Result<GpuChecker> GpuChecker::make(std::shared_ptr<const GpuTools> tools, const Gemm& gemm,
                                    std::uint64_t seed) {
  if (Status ok = validate(gemm); !ok) return tl::unexpected(ok.error());
  if (Status room = tools->room_for(bytes_needed(gemm),
                                    fmt::format("operands and reference of '{}'", text(gemm)));
      !room)
    return tl::unexpected(room.error());
  return GpuChecker(std::make_unique<Impl>(Impl{std::move(tools), canonicalise(gemm), gemm, seed}));
}

Verdict GpuChecker::check(const RunOnGpu& run) {
  for (const Impl::Run& one : impl_->runs())
    if (Verdict verdict = impl_->run_one(run, one); !verdict) return verdict;
  return {};
}

Verdict GpuChecker::check_product(const RunOnGpu& run) {
  for (const Contents contents : {Contents::exact, Contents::uniform})
    if (Verdict verdict = impl_->run_one(run, {contents, 1.0, 0.0, false}); !verdict)
      return verdict;
  return {};
}

const Gemm& GpuChecker::gemm() const { return impl_->asked; }

}  // namespace kiln
