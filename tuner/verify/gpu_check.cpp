#include "tuner/verify/gpu_check.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "generator/expression/program.h"
#include "generator/problem/groups.h"
#include "generator/problem/indices.h"
#include "generator/problem/operands.h"
#include "generator/problem/product_list.h"
#include "kiln/numeric.hpp"
#include "tuner/verify/drawn_list.h"
#include "tuner/verify/gpu_inputs.h"
#include "tuner/verify/interval.h"
#include "tuner/verify/view.h"

namespace kiln {
namespace {

/// Before and after D, in bytes: several rows of any tile.
constexpr std::size_t kGuard = 64 << 10;
/// Largest problem that is also run on data with NaN and infinity, for which products are computed
/// a second time.
constexpr double kNonfiniteFlops = 0x1p31;

Failure failure_of(const Error& error) { return {Failure::Kind::resources, error.message}; }

/// Of what an expression reduces and reads, of lines and of blocks.
double bytes_of_lines(const Gemm& gemm) {
  if (gemm.epilogue.expression.empty()) return 0;
  double bytes = 0;
  for (const expression::Value& value : gemm.epilogue.expression.program()->values)
    if (value.op == expression::Op::reduced)
      bytes += double(check_args::bytes_of_lines(gemm, value.line));
  return bytes;
}

}  // namespace

struct GpuChecker::Impl {
  std::shared_ptr<const GpuTools> tools;
  Problem problem;
  Gemm asked;  // as the caller spelt it, for messages
  std::uint64_t seed = 1;
  std::vector<GpuInputs> sets = {};
  gpu::DeviceBuffer d = {};  // what runs write
  std::array<gpu::DeviceBuffer, kOperandCount> beside_d = {};
  gpu::DeviceBuffer rows_of_d = {};            // D's rows in order, where they are by index
  gpu::DeviceBuffer values = {}, errors = {};  // of D where rows are added to its rows
  mutable std::vector<ListEntry> list = {};    // of the call in hand

  struct Run {
    GpuContents contents;
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
    const bool alike = g.epilogue.expression.stores_d() && present(g, Operand::c) &&
                       g.c.ld == g.d.ld && g.c.batch_stride == g.d.batch_stride;
    std::vector<Run> list{{GpuContents::exact, 1.0, 0.0, false},
                          {GpuContents::uniform, alpha, beta, false}};
    // C of a list lies as D does on exact data alone.
    if (lists_products(g) && present(g, Operand::c))
      list.push_back({GpuContents::exact, -2.0, 1.0, true});
    if (alike && !lists_products(g)) list.push_back({GpuContents::uniform, -alpha, 1.0, true});
    const bool smooth =
        g.epilogue.activation > Activation::relu || (gated(g) && !gated_by_expression(g));
    if (is_floating(g.a.dtype) && !smooth && !lists_products(g) && g.flops() <= kNonfiniteFlops)
      list.push_back({GpuContents::nonfinite, 1.0, 0.0, false});
    return list;
  }

  std::uint64_t pattern_of(Operand which) const { return poison_pattern(dtype_of(gemm(), which)); }

  /// The problem, whose operands are not exchanged.
  Problem as_it_is() const {
    Problem same = problem;
    same.swapped = false;
    return same;
  }

  /// Of a list its entries are kept until the next call.
  KilnGpuArgs args_of(const GpuInputs& set, const Run& run) const {
    KilnGpuArgs args = set.args();
    args.d = d_data();
    for_each_operand([&](auto which) {
      const gpu::DeviceBuffer& written = beside_d[index_of(which)];
      if constexpr (which != Operand::d && may_be_written(which))
        if (written.bytes() > 0) pointer<which>(args) = written.data() + kGuard;
    });
    // With beta = 0 it is D's own poison: read, it would make every element NaN.
    if (run.in_place || run.beta == 0) args.c = args.d;
    args.alpha = run.alpha;
    args.beta = run.beta;
    if (lists_products(gemm())) {
      canonical_entries(as_it_is(), entries_of(gemm(), set.groups(), args).data(), list);
      args.groups = list.data();
    }
    return args;
  }

  Result<GpuInputs*> set_of(GpuContents contents) {
    for (GpuInputs& set : sets)
      if (set.contents() == contents) return &set;
    if (d.bytes() == 0) {
      auto made = buffer(buffer_bytes(gemm(), Operand::d) + 2 * kGuard);
      if (!made) return tl::unexpected(made.error());
      d = std::move(*made);
      if (scatters(gemm())) {
        made = buffer(whole_words(gemm().m * line_bytes(gemm(), Operand::d)));
        if (!made) return tl::unexpected(made.error());
        rows_of_d = std::move(*made);
      }
      if (adds_rows(gemm()))
        for (gpu::DeviceBuffer* const to : {&values, &errors}) {
          made = buffer(whole_words(kiln::rows_of_d(gemm()) * gemm().n * 8));
          if (!made) return tl::unexpected(made.error());
          *to = std::move(*made);
        }
      for (const Operand which : kBesideD) {
        if (!is_output(gemm(), which)) continue;
        made = buffer(buffer_bytes(gemm(), which) + 2 * kGuard);
        if (!made) return tl::unexpected(made.error());
        beside_d[index_of(which)] = std::move(*made);
      }
    }
    auto set = GpuInputs::make(*tools, problem, contents, seed);
    if (!set) return tl::unexpected(set.error());
    sets.push_back(std::move(*set));
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

  /// What the lines of one element are expected to be, each as if there were no other.
  std::vector<ExpectedLines> lines_of(const GpuTools::ReducedLines& reduced, std::int64_t batch,
                                      std::int64_t row, std::int64_t column) const {
    using intervals::Interval;
    constexpr std::int64_t kWords = sizeof(Interval) / sizeof(double);
    static_assert(offsetof(Interval, high) == 8 && offsetof(Interval, nan) == 16);
    const intervals::Precision precision = intervals::precision_of(type_of_values(gemm()), 0);
    std::vector<ExpectedLines> all;
    for (const auto& each : reduced.of) {
      const std::int64_t at = each.place(batch, row, column) * kWords;
      const Interval interval{read(fp64, each.data, at), read(fp64, each.data, at + 1),
                              read(u8, each.data, (at + 2) * 8) != 0};
      const auto [value, error] = intervals::expected_in(interval, precision);
      all.push_back({.value = {value}, .error = {error}});
    }
    return all;
  }

  Failure wrong(const GpuInputs& set, const Run& run, const PartOfRun& part,
                const GpuTools::ReducedLines& reduced, GpuTools::Count count) const {
    const Gemm& g = part.problem.gemm;
    const auto at = static_cast<std::int64_t>(count.first);
    const std::int64_t batch = at / (g.m * g.n), row = at / g.n % g.m, column = at % g.n;
    const std::int64_t d_at = batch * g.d.batch_stride + row * g.d.ld + column;
    // Of either product and either bias; without a gate the second ones are not looked at.
    std::array<double, 2> sum{}, magnitude{}, bias{};
    std::array<double, kOperandCount> term{};
    Terms terms{{&sum[0], 1}, {&magnitude[0], 1}};
    const std::vector<ExpectedLines> lines = lines_of(reduced, batch, row, column);
    terms.line = row, terms.first = column, terms.reduced = lines;
    terms.rows_before = part.rows_before;
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
    expect(g, {run.alpha, run.beta, set.exact()}, terms, {&value, 1}, {&error, 1});
    return {Failure::Kind::wrong_result,
            fmt::format("{} {} row {} column {} and {} more: got {}, expected {} within {:.3g} "
                        "before rounding to {} ({}, seed {}, alpha {}, beta {}{}; {})",
                        grouped(gemm()) ? "group" : "batch", grouped(gemm()) ? part.group : batch,
                        row, column, count.wrong - 1, read(g.d.dtype, part.args.d, d_at), value,
                        error, kiln::name(g.d.dtype), name(set.contents()), seed, run.alpha,
                        run.beta, run.in_place ? ", C in place" : "", text(asked))};
  }

  /// D is poisoned, or C where it is computed in place.
  Status prepare_d(const GpuInputs& set, const Run& run) const {
    Status ok = tools->poison(d.data(), d.bytes(), poison_pattern(gemm().d.dtype));
    for (const Operand which : kBesideD) {
      const gpu::DeviceBuffer& written = beside_d[index_of(which)];
      if (ok && written.bytes() > 0)
        ok = tools->poison(written.data(), written.bytes(), pattern_of(which));
    }
    if (ok && run.in_place) ok = set.fill_like(Operand::c, d_data());
    return ok ? tools->wait() : ok;
  }

  Verdict run_one(const RunOnGpu& kernel, const Run& run) {
    const auto set = set_of(run.contents);
    if (!set) return tl::unexpected(failure_of(set.error()));
    if (Status ok = prepare_d(**set, run); !ok) return tl::unexpected(failure_of(ok.error()));
    const KilnGpuArgs args = args_of(**set, run);
    KilnGpuArgs given = args;
    const auto to_host = [&](const void* from, void* to, std::size_t bytes) {
      const gpu::Guest guest(device());
      return gpu::check(
          device().driver(),
          device().driver().cuMemcpyDtoH(to, std::bit_cast<gpu::DevicePointer>(from), bytes),
          "cuMemcpyDtoH");
    };
    if (Status ok = gpu::take_host_values(gemm(), given, to_host); !ok)
      return tl::unexpected(failure_of(ok.error()));
    Status ran = kernel(given, tools->stream());
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

  /// What the expression stores beside D.
  Verdict compare_outputs(const GpuInputs& set, const Run& run, const PartOfRun& part,
                          const GpuTools::ReducedLines& reduced) const {
    const Gemm& g = part.problem.gemm;
    for (std::size_t i = 0; i < g.epilogue.expression.outputs().size(); ++i) {
      const auto count =
          tools->judge_output(part.problem, part.args, {run.alpha, run.beta, set.exact()},
                              part.sums, part.magnitudes, part.c, reduced, static_cast<int>(i));
      if (!count) return tl::unexpected(failure_of(count.error()));
      if (count->wrong == 0) continue;
      const Operand which = extra_output(i);
      const auto at = static_cast<std::int64_t>(count->first);
      const MatrixView view = view_of(g, which, nullptr, 0);
      // A line begins where its other index is 0.
      const ExtraOutput& output = g.epilogue.expression.outputs()[i];
      const std::string_view from = expression::line_of(output).is_block() ? "block from "
                                    : expression::is_line(output)          ? "from "
                                                                           : "";
      const std::int64_t row = at / g.n % g.m, column = at % g.n, batch = at / (g.m * g.n);
      const std::int64_t place = batch * batch_stride(g, which) + view.offset(row, column);
      return tl::unexpected(Failure{
          Failure::Kind::wrong_result,
          fmt::format("{} {} {} {}row {} column {} and {} more: got {} ({}, seed {}, alpha {}, "
                      "beta {}; {})",
                      name(which), grouped(gemm()) ? "group" : "batch",
                      grouped(gemm()) ? part.group : batch, from, row, column, count->wrong - 1,
                      read(dtype_of(g, which), part.args.outputs[i], place), name(set.contents()),
                      seed, run.alpha, run.beta, text(asked))});
    }
    return {};
  }

  /// Whether some rows of what an expression stores may be of no group.
  bool has_unused_rows() const {
    return gemm().grouping() == Grouping::rows || gemm().grouping() == Grouping::masked;
  }
  /// Gives what the expression stores of one part the pattern back.
  Status forget_outputs(const ProductPart& part) const {
    for (std::size_t i = 0; i < gemm().epilogue.expression.outputs().size(); ++i)
      if (Status ok = tools->forget_beside(gemm(), part, extra_output(i),
                                           beside_d[index_of(extra_output(i))], kGuard,
                                           pattern_of(extra_output(i)));
          !ok)
        return ok;
    return {};
  }

  /// D, and what the expression stores beside it.
  Verdict compare_expected(const GpuInputs& set, const Run& run, const PartOfRun& part) const {
    const Scaling scaling{run.alpha, run.beta, set.exact()};
    const auto reduced = tools->reduced_lines(part.problem, part.args, scaling, part.sums,
                                              part.magnitudes, part.c, part.rows_before);
    if (!reduced) return tl::unexpected(failure_of(reduced.error()));
    if (gemm().epilogue.expression.stores_d()) {
      const auto values = tools->judge(part.problem, part.args, scaling, part.sums, part.magnitudes,
                                       part.c, *reduced);
      if (!values) return tl::unexpected(failure_of(values.error()));
      if (values->wrong > 0) return tl::unexpected(wrong(set, run, part, *reduced, *values));
    }
    return compare_outputs(set, run, part, *reduced);
  }

  /// Those that follow from D; those of rows of no group are not looked at.
  Verdict compare_scales(const GpuInputs& set, const Run& run, const PartOfRun& part) const {
    if (beside_d[index_of(Operand::scale_d)].bytes() == 0) return {};
    const auto count =
        tools->judge_scales(part.problem, part.args, {run.alpha, run.beta, set.exact()}, part.sums,
                            part.magnitudes, part.c);
    if (!count) return tl::unexpected(failure_of(count.error()));
    if (count->wrong == 0) return {};
    const auto at = static_cast<std::int64_t>(count->first);
    return tl::unexpected(Failure{
        Failure::Kind::wrong_result,
        fmt::format("{} {}: scale {} of D and {} more: got {} ({}, seed {}; {})",
                    grouped(gemm()) ? "group" : "batch", part.group, at, count->wrong - 1,
                    read(fp32, part.args.scale_d, at), name(set.contents()), seed, text(asked))});
  }

  /// Takes one part's elements into the bounds of D's largest magnitude. NaN is more than all.
  Verdict widen_amax(const GpuInputs& set, const Run& run, const PartOfRun& part,
                     GpuTools::Between& of_d) const {
    if (!gemm().amax_d) return {};
    const auto found = tools->amax(part.problem, part.args, {run.alpha, run.beta, set.exact()},
                                   part.sums, part.magnitudes, part.c);
    if (!found) return tl::unexpected(failure_of(found.error()));
    const auto raise = [](double& to, double by) {
      if (!(by <= to) && !std::isnan(to)) to = by;
    };
    raise(of_d.least, found->least);
    raise(of_d.most, found->most);
    return {};
  }

  Verdict compare_amax(const GpuInputs& set, const Run& run, const KilnGpuArgs& args,
                       const GpuTools::Between& of_d) const {
    if (!gemm().amax_d) return {};
    const double got = read(fp32, args.amax_d, 0);
    const bool right =
        std::isnan(of_d.least) ? std::isnan(got) : got >= of_d.least && got <= of_d.most;
    if (right) return {};
    return tl::unexpected(
        Failure{Failure::Kind::wrong_result,
                fmt::format("amax_d = {}: expected {} to {} ({}, seed {}, alpha {}, beta {}; {})",
                            got, of_d.least, of_d.most, name(set.contents()), seed, run.alpha,
                            run.beta, text(asked))});
  }

  /// Of a D to whose rows those of the product are added.
  Verdict compare_added(const GpuInputs& set, const Run& run, const KilnGpuArgs& args) const {
    const auto broken = [](const Error& error) { return tl::unexpected(failure_of(error)); };
    const Gemm& g = gemm();
    const Scaling product{run.alpha, 0, set.exact()};
    GpuTools::AddedRows added{.rows_of_d = kiln::rows_of_d(g),
                              .values = reinterpret_cast<double*>(values.data()),
                              .errors = reinterpret_cast<double*>(errors.data())};
    for (const gpu::DeviceBuffer* sums : {&values, &errors})
      if (Status ok = tools->poison(sums->data(), sums->bytes(), 0); !ok) return broken(ok.error());
    for (const ProductPart& part : set.parts()) {
      PartOfRun one = set.part(part, args, rows_of_d.data());
      one.args.beta = 0;
      added.index =
          reinterpret_cast<const std::int32_t*>(set[Operand::index_d].data()) + part.segment.first;
      added.weights = !weighs_rows(g)
                          ? nullptr
                          : reinterpret_cast<const float*>(set[Operand::row_weights].data()) +
                                part.segment.first;
      const auto reduced = tools->reduced_lines(one.problem, one.args, product, one.sums,
                                                one.magnitudes, nullptr, one.rows_before);
      if (!reduced) return broken(reduced.error());
      if (Status ok = tools->add_rows(one.problem, one.args, product, one.sums, one.magnitudes,
                                      added, *reduced);
          !ok)
        return broken(ok.error());
      const Run without_c{run.contents, run.alpha, 0, run.in_place};
      if (Verdict verdict = compare_outputs(set, without_c, one, *reduced); !verdict)
        return verdict;
      if (Status ok = forget_outputs(part); !ok) return broken(ok.error());
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
                    kiln::name(g.d.dtype), name(set.contents()), seed, run.alpha, run.beta,
                    run.in_place ? ", C in place" : "", text(asked))});
  }

  Verdict compare(const GpuInputs& set, const Run& run, const KilnGpuArgs& args) const {
    const auto broken = [](const Error& error) { return tl::unexpected(failure_of(error)); };
    const std::uint64_t pattern = poison_pattern(gemm().d.dtype);
    const bool stores_d = gemm().epilogue.expression.stores_d();
    // Where C was in D's place, its rows of no group remain. What a list's C has between
    // its products is poison as well.
    const bool exactly =
        lists_products(gemm()) || (grouped(gemm()) && gemm().grouping() != Grouping::k &&
                                   !adds_rows(gemm()) && !run.in_place);
    const void* const index_d = set[Operand::index_d].data();
    if (scatters(gemm()))
      if (Status ok = tools->gather(gemm(), Operand::d, d_data(), index_d, rows_of_d.data()); !ok)
        return broken(ok.error());
    GpuTools::Between of_d;
    if (adds_rows(gemm()))
      if (Verdict verdict = compare_added(set, run, args); !verdict) return verdict;
    for (const ProductPart& part : set.parts()) {
      if (adds_rows(gemm())) break;
      const PartOfRun one = set.part(part, args, rows_of_d.data());
      if (Verdict verdict = compare_expected(set, run, one); !verdict) return verdict;
      if (Verdict verdict = compare_scales(set, run, one); !verdict) return verdict;
      if (Verdict verdict = widen_amax(set, run, one, of_d); !verdict) return verdict;
      if (has_unused_rows())
        if (Status ok = forget_outputs(part); !ok) return broken(ok.error());
      if (!exactly) continue;
      if (Status ok = tools->forget(gemm(), part, d, kGuard, pattern, index_d); !ok)
        return broken(ok.error());
      if (!lists_products(gemm()) || !is_output(gemm(), Operand::scale_d)) continue;
      if (Status ok = tools->forget_beside(gemm(), part, Operand::scale_d,
                                           beside_d[index_of(Operand::scale_d)], kGuard,
                                           poison_pattern(fp32));
          !ok)
        return broken(ok.error());
    }
    if (Verdict verdict = compare_amax(set, run, args, of_d); !verdict) return verdict;
    const auto around = exactly || !stores_d
                            ? tools->changed(d, pattern)
                            : tools->around(gemm(), Operand::d, d, kGuard, pattern);
    if (!around) return broken(around.error());
    if (around->wrong > 0) return strayed("D", *around);
    for (const Operand which : kBesideD) {
      const gpu::DeviceBuffer& written = beside_d[index_of(which)];
      if (written.bytes() == 0) continue;
      const bool forgotten = (lists_products(gemm()) && which == Operand::scale_d) ||
                             (has_unused_rows() && is_extra_output(which));
      const auto beside = forgotten
                              ? tools->changed(written, pattern_of(which))
                              : tools->around(gemm(), which, written, kGuard, pattern_of(which));
      if (!beside) return broken(beside.error());
      if (beside->wrong > 0) return strayed(name(which), *beside);
    }
    const auto unchanged = set.unchanged();
    if (!unchanged) return broken(unchanged.error());
    if (!*unchanged)
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
         double(span_bytes(gemm, Operand::d) + bytes_beside_d(gemm)) + bytes_of_lines(gemm) +
         (adds_rows(gemm) ? 2.0 * sizeof(double) * double(span(gemm, Operand::d)) : 0);
}

Result<GpuChecker> GpuChecker::make(std::shared_ptr<const GpuTools> tools, const Gemm& gemm,
                                    std::uint64_t seed) {
  auto problem = Problem::of(gemm);
  if (!problem) return tl::unexpected(problem.error());
  if (Status room = tools->room_for(bytes_needed(gemm),
                                    fmt::format("operands and reference of '{}'", text(gemm)));
      !room)
    return tl::unexpected(room.error());
  return GpuChecker(
      std::make_unique<Impl>(Impl{std::move(tools), std::move(*problem), gemm, seed}));
}

Verdict GpuChecker::check(const RunOnGpu& run) {
  for (const Impl::Run& one : impl_->runs())
    if (Verdict verdict = impl_->run_one(run, one); !verdict) return verdict;
  return {};
}

Verdict GpuChecker::check_product(const RunOnGpu& run) {
  for (const GpuContents contents : {GpuContents::exact, GpuContents::uniform})
    if (Verdict verdict = impl_->run_one(run, {contents, 1.0, 0.0, false}); !verdict)
      return verdict;
  return {};
}

const Gemm& GpuChecker::gemm() const { return impl_->asked; }

}  // namespace kiln
