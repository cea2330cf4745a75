// Expressions beside groups: against plain loops over what docs/guide/grouped.md says of groups,
// and drawn ones by the tuner's verification, on CPUs and, lane by lane, on GPUs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/commands/random_expression.h"
#include "generator/problem/gemm_types.h"
#include "support/attempt.h"
#include "support/compiled.h"
#include "support/emulated.h"
#include "support/gpu_gemm.h"
#include "support/random_gemm.h"
#include "support/seed.h"
#include "support/space.h"

namespace kiln::grouped_expressions_test {

constexpr float kUntouched = -12345.0F;

/// One legal config of each family, the same for the same seed.
std::vector<Config> one_of_each(const Gemm& gemm, const DeviceCaps& device, std::uint64_t seed) {
  std::map<std::string_view, std::vector<Config>> by_family;
  const auto space = test::space_of(gemm, device);
  EXPECT_TRUE(space) << text(gemm) << ": " << space.error().message;
  if (!space) return {};
  for (const Config& config : space->legal) by_family[family_name(config)].push_back(config);
  std::mt19937_64 random(seed);
  std::vector<Config> chosen;
  for (const auto& [family, configs] : by_family)
    chosen.push_back(configs[random() % configs.size()]);
  return chosen;
}

/// A product of three or four groups, by loops: of each element of each group what it is made of.
struct Case {
  const char* grouped;
  const char* keys;
  std::vector<int> list;
};
constexpr int kM = 13, kN = 44, kK = 10, kRowsOfA = 9, kRowsOfD = 15;

class Oracle {
 public:
  explicit Oracle(const Case& problem) : case_(problem) {
    std::mt19937 random(7);
    const auto fill = [&](std::vector<float>& to, std::size_t count) {
      to.resize(count);
      for (float& x : to) x = float(int(random() % 7) - 3);
    };
    const std::size_t groups = case_.list.size();
    fill(a, groups * kM * kK), fill(b, groups * kK * kN), fill(t, groups * kN), fill(v, kN);
    fill(r, groups * kM * kN), fill(u, groups * kM), fill(weights, kM);
    for (int i = 0; i < kM; ++i) index_a.push_back(int(random() % kRowsOfA));
    for (int i = 0; i < kM; ++i) index_d.push_back((i * 7 + 2) % kRowsOfD);
    if (has("=add") || has("=weighted")) index_d = {3, 3, 1, -1, 0, 14, 3, 99, 5, 6, 6, 2, 0};
    for (std::vector<float>* to : {&d, &z}) to->assign(groups * kRowsOfD * kN, kUntouched);
    q.assign(groups * kM, kUntouched), s.assign(groups * kM * kN, kUntouched);
    if (has("=add") || has("=weighted")) std::fill_n(d.begin(), kRowsOfD * kN, 0.0F);
  }

  bool of(const char* grouped) const { return std::string_view(case_.grouped) == grouped; }
  bool has(const char* key) const {
    return std::string_view(case_.keys).find(key) != std::string_view::npos;
  }

  /// Calls element row by row: what belongs to a row is at `at` of those of all rows.
  void compute(bool reduces_blocks) {
    int first = 0;
    for (int group = 0; group < int(case_.list.size()); ++group) {
      const int most = of("k") ? kK : kM;
      const int end = std::clamp(case_.list[std::size_t(group)], 0, most);
      const int begin = of("masked") ? 0 : first;
      first = std::max(first, end);
      const int rows = of("k") ? kM : end;
      for (int row = of("k") ? 0 : begin; row < rows; ++row) {
        const int at = of("rows") ? row : group * kM + row;
        std::vector<float> acc;
        for (int n = 0; n < kN; ++n) acc.push_back(product(group, row, n, begin, end));
        store(group, row, at, acc, reduces_blocks);
      }
    }
  }

  std::vector<float> a, b, t, v, r, u, weights, d, z, q, s;
  std::vector<int> index_a, index_d;

 private:
  float product(int group, int row, int n, int begin, int end) const {
    float sum = 0;
    for (int k = of("k") ? begin : 0; k < (of("k") ? end : kK); ++k) {
      const int line = has("gather")  ? index_a[std::size_t(row)]
                       : of("masked") ? group * kM + row
                                      : row;
      const int of_b = of("k") ? k : group * kK + k;
      sum += a[std::size_t(line * kK + k)] * b[std::size_t(of_b * kN + n)];
    }
    return sum;
  }

  void store(int group, int row, int at, const std::vector<float>& acc, bool blocks) {
    const float largest = *std::ranges::max_element(acc);
    float sum = 0;
    for (int n = 0; n < kN; ++n) {
      const float x = acc[std::size_t(n)], tn = t[std::size_t(group * kN + n)];
      float value = x * tn + r[std::size_t(at * kN + n)] + float(row);
      if (blocks) {
        float block = 0;
        for (int i = n / 8 * 8; i < std::min(kN, n / 8 * 8 + 8); ++i)
          block = std::max(block, std::fabs(acc[std::size_t(i)]));
        s[std::size_t(at * 6 + n / 8)] = block + 1;
        value = x + (block + 1) * tn + float(row) - largest * u[std::size_t(at)];
      } else {
        z[std::size_t(at * kN + n)] = x + v[std::size_t(n)];
      }
      sum += x;
      put(row, at, n, value);
    }
    if (!blocks) q[std::size_t(at)] = sum;
  }

  void put(int row, int at, int n, float value) {
    if (has("=add") || has("=weighted")) {
      const int to = std::min(index_d[std::size_t(row)], kRowsOfD - 1);
      const float weight = has("=weighted") ? weights[std::size_t(row)] : 1.0F;
      if (to >= 0) d[std::size_t(to * kN + n)] += weight * value;
      return;
    }
    const int to = has("scatter") ? index_d[std::size_t(row)] : at;
    d[std::size_t(to * kN + n)] = value;
  }

  Case case_;
};

const std::vector<Case> kCases{
    {"rows", "", {5, 3, 9, 11}},                       // an empty group, rows of none
    {"rows", "", {-4, 0, 6, 40}},                      // beyond m
    {"rows", "gather=rows rows_of_a=9", {2, 2, 12}},   //
    {"rows", "scatter=rows rows_of_d=15", {4, 9, 7}},  // a list that falls
    {"rows", "gather=rows rows_of_a=9 scatter=rows rows_of_d=15", {1, 8, 13}},
    {"rows", "scatter=add rows_of_d=15", {4, 4, 12}},
    {"rows", "gather=rows rows_of_a=9 scatter=weighted rows_of_d=15", {3, 13, 13}},
    {"masked", "", {5, 0, 13, 90}},
    {"masked", "", {13, -1, 1}},
    {"k", "", {3, 3, 9}},
    {"k", "", {0, 4, 2, 30}},
};

std::string epilogue_of(const Case& problem, bool blocks) {
  std::string text = blocks
                         ? "s[m,n/8]=max(abs(acc))+1;d=acc+s[m,n/8]*t[batch,n]+m-max[m](acc)*u[m]"
                         : "d=acc*t[batch,n]+r[m,n]+m;z[m,n]=acc+v[n];q[m]=sum(acc)";
  if (std::string_view(problem.grouped) == "rows") return text;
  for (const char* name : {"s[", "r[", "z[", "q[", "u["})
    for (auto at = text.find(name); at != text.npos; at = text.find(name, at + 2))
      text.insert(at + 2, "batch,");
  return text;
}

/// Runs `call(operands)` and compares all that it may have written.
template <typename Call>
void expect_as_loops(const Case& problem, bool blocks, Call&& call) {
  Oracle want(problem), got(problem);
  want.compute(blocks);
  Operands operands{.a = got.a.data(), .b = got.b.data(), .d = got.d.data()};
  const std::vector<float> c(got.d.size(), 0.0F);
  operands.c = c.data();
  operands.groups = problem.list.data();
  if (got.has("gather")) operands.index_a = got.index_a.data();
  if (got.has("scatter")) operands.index_d = got.index_d.data();
  if (got.has("weighted")) operands.row_weights = got.weights.data();
  const std::map<std::string, std::vector<float>*> memory{
      {"t", &got.t}, {"r", &got.r}, {"v", &got.v}, {"u", &got.u},
      {"z", &got.z}, {"q", &got.q}, {"s", &got.s}};
  // With the names of the text.
  const Expression expression = Expression::parse(epilogue_of(problem, blocks)).value();
  for (std::size_t i = 0; i < expression.operands().size(); ++i)
    operands.extra[i] = memory.at(expression.operands()[i].name)->data();
  for (std::size_t i = 0; i < expression.outputs().size(); ++i)
    operands.outputs[i] = memory.at(expression.outputs()[i].target.name)->data();
  const Status ran = call(operands);
  ASSERT_TRUE(ran) << ran.error().message;
  for (const auto& [name, wanted, found] : {std::tuple{"d", &want.d, &got.d},
                                            {"z", &want.z, &got.z},
                                            {"q", &want.q, &got.q},
                                            {"s", &want.s, &got.s}})
    for (std::size_t i = 0; i < wanted->size(); ++i)
      ASSERT_NEAR((*found)[i], (*wanted)[i], 1e-4 * (1 + std::fabs((*wanted)[i])))
          << name << " at " << i;
}

Gemm problem_of(const Case& problem, bool blocks) {
  const auto gemm = parse_gemm(fmt::format("fp32 N N {} {} {} groups={} grouped={} {} epilogue={}",
                                           kM, kN, kK, problem.list.size(), problem.grouped,
                                           problem.keys, epilogue_of(problem, blocks)));
  EXPECT_TRUE(gemm) << gemm.error().message;
  return gemm.value();
}

TEST(OnCpusBesideGroups, AreAsLoopsSay) {
  const auto device = test::runnable("portable", 2).value();
  for (const Case& problem : kCases)
    for (const bool blocks : {false, true}) {
      const Gemm gemm = problem_of(problem, blocks);
      for (const Config& config : one_of_each(gemm, device, 3)) {
        SCOPED_TRACE(text(gemm) + " | " + text(config));
        auto kernel = test::compiled(gemm, device, config);
        ASSERT_TRUE(kernel) << kernel.error().message;
        expect_as_loops(problem, blocks,
                        [&](const Operands& operands) { return kernel->run(operands); });
      }
    }
}

/// Of two products of three groups, one behind the other in B's columns.
TEST(OnCpusBesideGroups, GatesAreAsLoopsSay) {
  constexpr int kGroups = 3;
  const std::vector<int> rows{4, 4, 11}, masked{4, 0, 9};
  std::mt19937 random(5);
  const auto drawn = [&](int count) {
    std::vector<float> all(static_cast<std::size_t>(count));
    for (float& x : all) x = float(int(random() % 7) - 3);
    return all;
  };
  const auto a = drawn(kGroups * kM * kK), b = drawn(kGroups * kK * 2 * kN),
             t = drawn(kGroups * kN);
  const auto device = test::runnable("portable", 2).value();
  for (const bool of_rows : {true, false}) {
    const auto gemm = parse_gemm(
        fmt::format("fp32 N N {} {} {} groups={} grouped={} epilogue=d=relu(acc0)*acc1+t[batch,n]",
                    kM, kN, kK, kGroups, of_rows ? "rows" : "masked"));
    ASSERT_TRUE(gemm) << gemm.error().message;
    std::vector<float> want(std::size_t(kGroups * kM * kN), kUntouched);
    for (int group = 0; group < kGroups; ++group) {
      const int first = of_rows && group > 0 ? rows[std::size_t(group - 1)] : 0;
      for (int row = first; row < (of_rows ? rows : masked)[std::size_t(group)]; ++row)
        for (int n = 0; n < kN; ++n) {
          const int line = of_rows ? row : group * kM + row;
          float first_sum = 0, second_sum = 0;
          for (int k = 0; k < kK; ++k) {
            const std::size_t at = std::size_t((group * kK + k) * 2 * kN + n);
            first_sum += a[std::size_t(line * kK + k)] * b[at];
            second_sum += a[std::size_t(line * kK + k)] * b[at + kN];
          }
          want[std::size_t(line * kN + n)] =
              std::max(first_sum, 0.0F) * second_sum + t[std::size_t(group * kN + n)];
        }
    }
    for (const Config& config : one_of_each(*gemm, device, 3)) {
      SCOPED_TRACE(text(*gemm) + " | " + text(config));
      auto kernel = test::compiled(*gemm, device, config);
      ASSERT_TRUE(kernel) << kernel.error().message;
      std::vector<float> d(want.size(), kUntouched);
      Operands operands{.a = a.data(), .b = b.data(), .c = d.data(), .d = d.data()};
      operands.groups = (of_rows ? rows : masked).data();
      operands.extra[0] = t.data();
      const Status ran = kernel->run(operands);
      ASSERT_TRUE(ran) << ran.error().message;
      for (std::size_t i = 0; i < d.size(); ++i)
        ASSERT_NEAR(d[i], want[i], 1e-4 * (1 + std::fabs(want[i]))) << i;
    }
  }
}

class OnGpusBesideGroups : public testing::TestWithParam<const char*> {};

TEST_P(OnGpusBesideGroups, AreAsLoopsSay) {
  DeviceCaps device = caps_named(GetParam()).value();
  device.compute_units = 3;
  for (const Case& problem : kCases)
    for (const bool blocks : {false, true}) {
      const bool indexed = std::string_view(problem.keys) != "";
      const bool masked = std::string_view(problem.grouped) == "masked";
      if (device.vendor == Vendor::amd && (indexed || masked)) continue;
      const Gemm gemm = problem_of(problem, blocks);
      for (const Config& config : one_of_each(gemm, device, 3)) {
        SCOPED_TRACE(text(gemm) + " | " + text(config));
        const auto kernel = test::emulated_kernel(gemm, device, config);
        ASSERT_TRUE(kernel) << kernel.error().message;
        const Problem canonical = Problem::of(gemm).value();
        expect_as_loops(problem, blocks, [&](const Operands& operands) {
          return kernel->call(canonical, operands, 0);
        });
      }
    }
}

/// A drawn expression as it may stand beside groups; nothing: the draw cannot.
std::optional<Gemm> expressed(Gemm gemm, cli::Draw& draw) {
  gemm.epilogue = {};
  gemm.amax_d = false;
  const bool gate = gemm.grouping() != Grouping::k && draw.one_in(4);
  if (gate)
    gemm = gemm.with_gate(Gate::expression,
                          draw.one_in(2) ? GateOrder::interleaved : GateOrder::stacked);
  std::string text = gate ? cli::random_gate(draw) : cli::random_expression(draw);
  const auto change = [&](std::string_view from, std::string_view to) {
    for (auto at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  };
  if (gemm.grouping() == Grouping::rows) {
    for (const char* const rows : {"m", "n,m", "m/"})
      change(fmt::format("[batch,{}", rows), fmt::format("[{}", rows));
  }
  if (gemm.grouping() != Grouping::k) {
    for (const char* const lines :
         {"t[n,m]:fp32", "k[n,m]", "k[batch,n,m]", "w[n,m]:bf16", "w[batch,n,m]:bf16"})
      change(lines, fmt::format("{}:ld=800", lines));
  }
  const auto parsed = Expression::parse(text);
  if (!parsed) return std::nullopt;
  const Gemm with = gemm.with_expression(*parsed);
  if (!validate(with)) return std::nullopt;
  return with;
}

/// Now and then with rows by index, and with a D of codes.
Gemm with_indices(Gemm gemm, cli::Draw& draw) {
  if (draw.one_in(4) && gemm.accumulator != fp64)
    gemm.c.dtype = gemm.d.dtype = draw.one_in(3) ? s8 : fp8_e4m3;
  if (gemm.grouping() != Grouping::rows) return gemm;
  const auto rows = [&] { return draw.between(gemm.m, 2 * gemm.m + 1); };
  if (draw.one_in(3)) {
    gemm.a.order = Order::row_major;
    gemm.a.transposed = false;
    gemm.a.ld = 0;
    gemm = gemm.gathered(rows());
  }
  constexpr Scatter kKinds[] = {Scatter::rows, Scatter::add, Scatter::weighted};
  return draw.one_in(3) ? gemm.scattered(rows(), kKinds[draw.below(3)]) : gemm;
}

/// Rows, masked rows and k in turn, of a problem with tight matrices.
Gemm grouped_copy(Gemm gemm, int number, cli::Draw& draw) {
  constexpr Grouping kKinds[] = {Grouping::rows, Grouping::rows, Grouping::masked, Grouping::k};
  gemm.b_packed = false;
  gemm.c.order = gemm.d.order = Order::row_major;
  gemm.epilogue = {};
  gemm.d.q.scale = Scale::none;
  gemm = gemm.grouped(1 + static_cast<std::int64_t>(draw.below(6)), kKinds[number % 4]);
  gemm.a.ld = gemm.b.ld = gemm.c.ld = gemm.d.ld = 0;
  gemm.a.batch_stride = gemm.b.batch_stride = gemm.c.batch_stride = gemm.d.batch_stride = 0;
  return with_indices(gemm, draw);
}

TEST(OnCpusBesideGroups, DrawnOnesAreRight) {
  test::Attempt attempt;
  const auto seed = test::seed_of_run();
  cli::Draw draw(seed + 3);
  test::RandomGemm random(seed + 60);
  const auto device = test::runnable("portable", 2).value();
  int checked = 0;
  for (int i = 0; checked < 24 * test::thorough() && i < 2000 * test::thorough(); ++i) {
    const auto& row = kCpuTypeRows[static_cast<std::size_t>(i / 4) % kCpuTypeRows.size()];
    const auto gemm = expressed(grouped_copy(random.next(row), i, draw), draw);
    if (!gemm || !test::space_of(*gemm, device)) continue;
    auto verifier = Verifier::make(*gemm, {.seed = seed + 9, .effort = Effort::full});
    ASSERT_TRUE(verifier) << text(*gemm) << ": " << verifier.error().message;
    for (const Config& config : one_of_each(*gemm, device, seed + static_cast<std::uint64_t>(i))) {
      const std::string what =
          fmt::format("KILN_SEED={}: {} | {}", seed, text(*gemm), text(config));
      attempt.at(what);
      const Verdict verdict =
          test::check_compiled(*verifier, device, config, fmt::format("seed {}, full", seed + 9));
      EXPECT_TRUE(verdict) << what << ": " << verdict.error().detail;
    }
    ++checked;
  }
  EXPECT_EQ(checked, 24 * test::thorough());
}

TEST_P(OnGpusBesideGroups, DrawnOnesAreRight) {
  DeviceCaps device = caps_named(GetParam()).value();
  device.compute_units = 4;
  const std::vector<TypeRow> rows{*type_row(bf16, bf16), *type_row(fp16, fp16), *type_row(s8, s8),
                                  *type_row(fp32, fp32)};
  const auto seed = test::seed_of_run();
  cli::Draw draw(seed + 4);
  test::RandomGpuGemm random(seed + 70, 100);
  int checked = 0;
  for (int i = 0; checked < 20 * test::thorough() && i < 2000 * test::thorough(); ++i) {
    const auto gemm = expressed(grouped_copy(random.next(rows), i, draw), draw);
    if (!gemm || !test::space_of(*gemm, device)) continue;
    for (const Config& config : one_of_each(*gemm, device, seed + static_cast<std::uint64_t>(i))) {
      const std::string what =
          fmt::format("KILN_SEED={}: {} | {}", seed, text(*gemm), text(config));
      const auto kernel = test::emulated_kernel(*gemm, device, config);
      ASSERT_TRUE(kernel) << what << ": " << kernel.error().message;
      const Verdict verdict = test::verify_emulated(*gemm, *kernel, 0);
      EXPECT_TRUE(verdict) << what << ": " << (verdict ? "" : verdict.error().detail);
    }
    ++checked;
  }
  EXPECT_EQ(checked, 20 * test::thorough());
}

INSTANTIATE_TEST_SUITE_P(Devices, OnGpusBesideGroups, testing::Values("sm_80", "sm_90a", "gfx942"));

}  // namespace kiln::grouped_expressions_test
