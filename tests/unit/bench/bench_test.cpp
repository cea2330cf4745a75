// The benchmark around the peers: shape lists, operands and their check, the race, the reports.
#include "bench/bench.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <set>

#include "bench/demo.h"
#include "bench/environment.h"
#include "bench/ladder.h"
#include "bench/result_check.h"
#include "bench/self.h"
#include "bench/suites.h"
#include "cache/records/devices.h"
#include "cache/store.h"
#include "generator/problem/extent.h"
#include "generator/problem/problem.h"
#include "generator/space/family.h"
#include "generator/space/space.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/reductions.h"
#include "runtime/cpu/reference_expression.h"
#include "runtime/cpu/reference_kernel.h"
#include "tuner/measure/operand_sets.h"
#include "tuner/verify/reference.h"

namespace kiln::bench_test {

using testing::HasSubstr;

/// Ladders may be of families that this build leaves out; `kiln bench` then says so at each rung.
bool family_known(std::string_view config) {
  for (const Family& family : families())
    if (config.starts_with(std::string(family.name) + ' ')) return true;
  return false;
}

TEST(Ladders, EveryRungIsALegalPointOfItsOwnShape) {
  const DeviceCaps h200 = caps_named("sm_90a").value();
  ASSERT_FALSE(ladders().empty());
  for (const Ladder& ladder : ladders()) {
    const auto gemm = parse_gemm(ladder.shape);
    ASSERT_TRUE(gemm) << gemm.error().message;
    EXPECT_GE(ladder.rungs.size(), 6u);
    std::set<Config> seen;
    for (const Rung& rung : ladder.rungs) {
      if (!family_known(rung.config)) {
        EXPECT_NE(ladder.dtype, "fp32") << rung.name;
        continue;
      }
      const auto config = parse_config(rung.config);
      ASSERT_TRUE(config) << rung.name << ": " << config.error().message;
      EXPECT_EQ(text(*config), rung.config);
      EXPECT_EQ(broken_rule(Problem::of(*gemm).value(), h200, *config), "") << rung.name;
      EXPECT_TRUE(seen.insert(*config).second) << rung.name << " is not a step";
    }
    EXPECT_EQ(ladder_named(ladder.dtype)->shape, ladder.shape);
  }
  const auto none = ladder_named("fp13");
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("fp32"));
}

TEST(Suites, EveryListParsesAndNamesItsLayers) {
  EXPECT_THAT(suite_names(), testing::ElementsAre("bert-base", "cpu", "epilogues", "gpu",
                                                  "llama-3-8b", "qwen2.5-7b", "resnet-50"));
  for (const std::string& name : suite_names()) {
    const auto shapes = suite(name);
    ASSERT_TRUE(shapes) << shapes.error().message;
    EXPECT_GE(shapes->size(), 4u) << name;
    for (const ListedShape& shape : *shapes) {
      EXPECT_TRUE(validate(shape.gemm)) << shape.origin;
      if (name != "cpu" && name != "gpu") {
        EXPECT_FALSE(shape.comment.empty()) << shape.origin;
      }
    }
  }
}

TEST(Suites, TheGpuListHoldsEveryTypeOfIts) {
  const auto shapes = suite("gpu").value();
  EXPECT_EQ(shapes.size(), 163u);
  std::map<DType, int> types;
  for (const ListedShape& shape : shapes) ++types[shape.gemm.a.dtype];
  for (const DType type : {bf16, fp16, fp8_e4m3, s8, tf32, fp32, fp64})
    EXPECT_GT(types[type], 0) << name(type);
}

TEST(Suites, ASizeScalesTokensAndImages) {
  const auto llama = suite("llama-3-8b:16").value();
  for (const ListedShape& shape : llama) EXPECT_EQ(shape.gemm.m, 16) << shape.origin;
  const auto one = suite("resnet-50").value(), four = suite("resnet-50:4").value();
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(four[i].gemm.m, 4 * one[i].gemm.m);
    EXPECT_EQ(four[i].gemm.k, one[i].gemm.k);
  }
}

TEST(Suites, BadNamesSizesAndLinesAreNamed) {
  EXPECT_THAT(suite("llama-9").error().message, HasSubstr("\"llama-9\""));
  EXPECT_THAT(suite("llama-3-8b:none").error().message, HasSubstr("\"none\""));
  EXPECT_THAT(suite("llama-3-8b:0").error().message, HasSubstr("\"0\""));
  EXPECT_THAT(suite("llama-3-8b:").error().message, HasSubstr("\"\""));
  EXPECT_THAT(suite("cpu:4").error().message, HasSubstr("takes no size"));
  const auto bad = parse_shapes("# fine\nfp32 N N 8 8 8\n\nfp32 N X 8 8 8\n", "file.txt");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, ErrorCode::bad_input);
  EXPECT_THAT(bad.error().message, testing::StartsWith("file.txt:4: "));
  EXPECT_THAT(parse_shapes("fp32 N N -8 8 8", "f").error().message, testing::StartsWith("f:1: "));
}

TEST(Suites, LinesMayEndInAnyWay) {
  const auto shapes = parse_shapes("fp32 N N 8 9 10  # a comment \r\nbf16 N T 1 2 3", "f").value();
  ASSERT_EQ(shapes.size(), 2u);
  EXPECT_EQ(shapes[0].comment, "a comment");
  EXPECT_EQ(shapes[0].origin, "f:1");
  EXPECT_EQ(shapes[1].gemm, Gemm::row_major(1, 2, 3, bf16).transpose_b());
}

std::vector<Gemm> checked_problems() {
  Gemm spaced = Gemm::row_major(7, 11, 5).transpose_b();
  spaced.b.ld = 9;
  spaced.c.ld = spaced.d.ld = 16;
  return {Gemm::row_major(9, 7, 33),
          spaced,
          Gemm::column_major(6, 8, 4, fp64).transpose_a(),
          Gemm::row_major(5, 6, 40, bf16).with_bias(Bias::per_column).with_residual(),
          Gemm::row_major(5, 6, 40, s8).batched(3),
          Gemm::row_major(4, 4, 4, fp16).with_activation(Activation::silu)};
}

TEST(ResultCheck, AcceptsARightResultAndNamesAWrongOne) {
  const DeviceCaps device = detect_cpu(1).value();
  for (const Gemm& gemm : checked_problems()) {
    const auto sets = OperandSets::make(gemm, device, 3).value();
    const auto fault = [&] {
      return ResultCheck(gemm, sets[0], 3).fault_of(sets[0].d).value_or("");
    };
    poison_d(gemm, sets[0]);
    EXPECT_THAT(fault(), HasSubstr("never written")) << text(gemm);
    ASSERT_TRUE(reference_gemm(gemm, sets[0]));
    EXPECT_EQ(fault(), "") << text(gemm);
    // The first element's highest byte: sign and exponent.
    static_cast<std::byte*>(sets[0].d)[size_of(gemm.d.dtype) - 1] ^= std::byte{0x40};
    EXPECT_THAT(fault(), HasSubstr("D[0,0]")) << text(gemm);
  }
}

TEST(ResultCheck, SeesOneElementThatWasNeverWritten) {
  const Gemm gemm = Gemm::row_major(300, 200, 8);
  const auto sets = OperandSets::make(gemm, detect_cpu(1).value(), 3).value();
  ASSERT_TRUE(reference_gemm(gemm, sets[0]));
  auto* d = static_cast<float*>(sets[0].d);
  const std::vector<float> right(d, d + 300 * 200);
  poison_d(gemm, sets[0]);
  for (std::size_t i = 0; i < right.size(); ++i)
    if (i != 123 * 200 + 45) d[i] = right[i];
  EXPECT_THAT(ResultCheck(gemm, sets[0], 3).fault_of(sets[0].d).value_or(""),
              HasSubstr("D[123,45]"));
}

TEST(ResultCheck, ComparesWhatAnExpressionStores) {
  const DeviceCaps device = detect_cpu(1).value();
  for (const char* line : {"fp32 N T 9 7 33 epilogue=d=relu(acc);q[m]=sum(acc*acc)",
                           "fp32 N T 9 7 33 epilogue=l[n]=logsumexp(acc)",
                           "fp32 N T 9 7 33 epilogue=s[m]=max(abs(acc))/2;d=acc/s[m]",
                           "fp32 N T 9 7 33 epilogue=d=acc;z[n,m]:fp16=acc+1"}) {
    const Gemm gemm = parse_gemm(line).value();
    const Problem problem = Problem::of(gemm).value();
    const auto sets = OperandSets::make(gemm, device, 3).value();
    const ResultCheck check(gemm, sets[0], 3);
    const auto fault = [&] { return check.fault_of(sets[0].d).value_or(""); };
    poison_d(gemm, sets[0]);
    ASSERT_TRUE(reducing(
        make_args(problem, sets[0]),
        [&](const HostArgs& args) -> Status {
          run_reference(problem, args, nullptr, 0, 1);
          return {};
        },
        [&](const KilnArgs& args) { reduce_reference(problem, args, 1); }));
    EXPECT_EQ(fault(), "") << line;
    // The first element's highest byte: sign and exponent.
    static_cast<std::byte*>(sets[0].outputs[0])[size_of(dtype_of(gemm, Operand::y0)) - 1] ^=
        std::byte{0x40};
    EXPECT_THAT(fault(), HasSubstr("y0[0,0]")) << line;
  }
}

TEST(ResultCheck, ComparesTheLargestMagnitude) {
  const DeviceCaps device = detect_cpu(1).value();
  for (const Gemm& gemm :
       {Gemm::row_major(9, 7, 33).with_amax_d(), Gemm::row_major(200, 300, 40, bf16).with_amax_d(),
        Gemm::row_major(20, 30, 40, bf16).quantised(fp8_e4m3, Scale::tensor).with_amax_d()}) {
    const auto sets = OperandSets::make(gemm, device, 3).value();
    const ResultCheck check(gemm, sets[0], 3);
    const auto fault = [&] { return check.fault_of(sets[0].d).value_or(""); };
    poison_d(gemm, sets[0]);
    auto* const amax = static_cast<float*>(sets[0].amax_d);
    const float never = *amax;
    ASSERT_TRUE(reference_gemm(gemm, sets[0]));
    const float right = *amax;
    EXPECT_EQ(fault(), "") << text(gemm);
    *amax = never;
    EXPECT_THAT(fault(), HasSubstr("amax_d was never written")) << text(gemm);
    for (const float factor : {0.5F, 1.25F}) {
      *amax = right * factor;
      EXPECT_THAT(fault(), HasSubstr("amax_d is ")) << text(gemm) << " " << factor;
    }
  }
}

/// A peer that multiplies by kiln's reference and may then spoil one element.
class FakePeer final : public Peer {
 public:
  FakePeer(std::string name, bool honest) : name_(std::move(name)), honest_(honest) {}
  std::string name() const override { return name_; }
  std::string version() const override { return name_ + " 1.2"; }
  std::string note() const override { return "made for this test"; }
  bool supports(const Gemm&, int) const override { return true; }
  Result<std::unique_ptr<PeerKernel>> prepare(const Gemm& gemm, int) override {
    struct Kernel final : PeerKernel {
      Kernel(const Gemm& g, bool h) : gemm(g), honest(h) {}
      void run(const Operands& operands) override {
        EXPECT_TRUE(reference_gemm(gemm, operands));
        if (!honest) *static_cast<float*>(operands.d) += 1;
      }
      Gemm gemm;
      bool honest;
    };
    return std::make_unique<Kernel>(gemm, honest_);
  }

 private:
  std::string name_;
  bool honest_;
};

class WithEngine : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("kiln-bench-test-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  OpenOptions open() const {
    OpenOptions options;
    options.database = folder_ / "kiln.db";
    options.on_untuned = [](const std::string&) {};
    return options;
  }
  std::filesystem::path folder_;
};

using Contest = WithEngine;

TEST_F(Contest, AWrongPeerIsReportedAndLeftOut) {
  auto engine = Engine::open(open()).value();
  PeerSet peers;
  peers.present.push_back(std::make_unique<FakePeer>("honest", true));
  peers.present.push_back(std::make_unique<FakePeer>("liar", false));
  ContestOptions options;
  options.samples = 3;
  options.budget_ns = 50e6;
  const auto row =
      contest(engine, *host_track(std::move(peers)), Gemm::row_major(24, 20, 16), 1, options);
  ASSERT_TRUE(row) << row.error().message;
  EXPECT_TRUE(row->verified) << row->fault;
  EXPECT_GT(row->kiln.median_ns, 0);
  EXPECT_GE(row->peak_flops, row->gemm.flops() / row->kiln.median_ns * 1e9);
  EXPECT_GE(row->peak_flops, row->gemm.flops() / row->peers.at("honest").median_ns * 1e9);
  EXPECT_EQ(row->best_peer(), "honest");
  EXPECT_GT(row->ratio(), 0);
  ASSERT_EQ(row->excluded.size(), 1u);
  EXPECT_EQ(row->excluded[0].peer, "liar");
  EXPECT_THAT(row->excluded[0].reason, HasSubstr("D[0,0]"));
}

TEST_F(Contest, RefusesProblemsWithNothingToTime) {
  auto engine = Engine::open(open()).value();
  const auto row = contest(engine, *host_track({}), Gemm::row_major(0, 8, 8), 1, {});
  ASSERT_FALSE(row);
  EXPECT_EQ(row.error().code, ErrorCode::bad_input);
  EXPECT_THAT(row.error().message, HasSubstr("fp32 N N 0 8 8"));
}

TEST_F(Contest, BenchRacesInstalledPeersAtEachThreadCount) {
  BenchOptions options;
  options.gemms = {Gemm::row_major(32, 32, 32), Gemm::row_major(0, 1, 1)};
  options.threads = {1};
  options.open = open();
  options.contest.samples = 3;
  options.contest.budget_ns = 50e6;
  int rows = 0, failures = 0, machines = 0;
  options.on_row = [&](const ContestResult&) { ++rows; };
  options.on_failure = [&](const ShapeFailure&) { ++failures; };
  options.on_machine = [&](const MachineLine&) { ++machines; };
  const auto report = run_bench(options);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(rows, 1);
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(machines, 1);
  EXPECT_TRUE(report->rows[0].verified);
  EXPECT_TRUE(report->rows[0].excluded.empty()) << report->rows[0].excluded[0].reason;
  std::size_t present = 0;
  for (const auto& peer : load_peers().present) present += peer->supports(options.gemms[0], 1);
  EXPECT_EQ(report->rows[0].peers.size(), present);
  const auto store = Store::open({.database = options.open.database});
  ASSERT_TRUE(store);
  const auto limits = (*store)->devices().limits(report->machine[0].limits.device);
  ASSERT_TRUE(limits) << "they are stored";
  EXPECT_EQ(limits->dram_read, report->machine[0].limits.dram_read);
}

TEST_F(Contest, AnUnknownPeerIsNamed) {
  BenchOptions options;
  options.open = open();
  options.peers = {"mkl"};
  const auto report = run_bench(options);
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("\"mkl\""));
}

ContestResult made_row(const Gemm& gemm, int threads, double kiln, double fast, double slow) {
  ContestResult row;
  row.gemm = gemm;
  row.threads = threads;
  row.kiln = {kiln, kiln, kiln, 9};
  row.peers["fast"] = {fast, fast, fast, 9};
  row.peers["slow"] = {slow, slow, slow, 9};
  row.config = "host_small mr=8";
  row.match = Match::exact;
  row.verified = true;
  return row;
}

BenchReport made_report() {
  BenchReport report;
  report.machine.push_back({1, {.fp32_flops = 100e9, .fp64_flops = 50e9}});
  report.rows.push_back(made_row(Gemm::row_major(8, 8, 8), 1, 100, 200, 400));
  // 2 * 1024^3 operations in 42.9 ms: half of the made-up peak.
  const double half_peak = 2 * 1073741824.0 / 50.0;
  report.rows.push_back(
      made_row(Gemm::row_major(1024, 1024, 1024), 1, half_peak, half_peak / 2, half_peak));
  report.rows[1].peers.erase("slow");
  report.failures.push_back({Gemm::row_major(3, 3, 3), 2, {ErrorCode::device, "no memory"}});
  return report;
}

TEST(Report, SummaryIsGeometricAndNamesTheWorst) {
  const BenchSummary s = summarise(made_report());
  EXPECT_EQ(s.shapes, 2);
  EXPECT_EQ(s.compared, 2);
  EXPECT_EQ(s.failed, 1);
  EXPECT_EQ(s.verified, 2);
  EXPECT_NEAR(s.ratio, 1.0, 1e-12);  // sqrt(2 * 0.5)
  EXPECT_NEAR(s.worst_ratio, 0.5, 1e-12);
  EXPECT_EQ(s.worst_shape, "fp32 N N 1024 1024 1024, 1 thread");
  EXPECT_EQ(s.peers.at("slow").shapes, 1);
  EXPECT_NEAR(s.peers.at("slow").ratio, 4.0, 1e-12);
  EXPECT_EQ(s.peers.at("fast").shapes, 2);
  EXPECT_NEAR(s.peak_share.at("fp32, 1 threads").least, 0.5, 1e-12);
}

// A peak that was probed once and too low: 142 % of it were printed.
TEST(Report, ARowThatBeatsTheProbeRaisesTheMachinesLine) {
  BenchReport report = made_report();
  ContestResult fast = made_row(Gemm::row_major(2048, 2048, 2048), 1, 1, 2, 3);
  fast.kiln.median_ns = fast.gemm.flops() / 142.0;  // 142 GFLOP/s beside a line of 100
  fast.peak_flops = 150e9;                          // what the probe beside it said
  add_row(report, fast);
  EXPECT_EQ(report.machine[0].limits.fp32_flops, 150e9);
  EXPECT_EQ(report.machine[0].limits.fp64_flops, 50e9);
  const BenchSummary s = summarise(report);
  EXPECT_NEAR(s.peak_share.at("fp32, 1 threads").least, 1.0 / 3, 1e-12);
  EXPECT_THAT(table(report), testing::AllOf(HasSubstr("95 %"), HasSubstr("33 %")));
  EXPECT_EQ(to_json(fast, "cpu")["peak_flops"], 150e9);
  EXPECT_DOUBLE_EQ(to_json(report.rows.back(), "cpu")["roof_ns"], fast.gemm.flops() / 150.0);
}

TEST(Report, AWrongResultHasNoShareOfThePeak) {
  BenchReport report = made_report();
  report.rows[1].verified = false;
  EXPECT_TRUE(summarise(report).peak_share.empty());
  EXPECT_THAT(table(report), testing::Not(HasSubstr("50 %")));
}

TEST(Report, JsonLineKeepsItsFixedFields) {
  const BenchReport report = made_report();
  const OrderedJson row = to_json(report.rows[0], "cpu");
  std::vector<std::string> names;
  for (const auto& [name, value] : row.items()) names.push_back(name);
  names.resize(16);
  EXPECT_THAT(names, testing::ElementsAre("dtype", "ta", "tb", "m", "n", "k", "threads", "device",
                                          "kiln_ns", "peers", "best_peer", "ratio", "verified",
                                          "config", "policy", "match"));
  EXPECT_EQ(row["dtype"], "fp32");
  EXPECT_EQ(row["best_peer"], "fast");
  EXPECT_EQ(row["ratio"], 2.0);
  EXPECT_EQ(row["peers"]["slow"], 400.0);
  ContestResult alone = report.rows[0];
  alone.peers.clear();
  EXPECT_TRUE(to_json(alone, "cpu")["best_peer"].is_null());
  EXPECT_TRUE(to_json(alone, "cpu")["ratio"].is_null());
  EXPECT_EQ(to_json(report.failures[0], "cpu")["error"]["message"], "no memory");
  EXPECT_EQ(to_json(summarise(report))["summary"]["worst_ratio"], 0.5);
}

TEST(Report, RowsUnderLoadHaveJoulesAndTheWinnerOfTheCoolRace) {
  BenchReport report = made_report();
  ContestResult& row = report.rows[0];
  EXPECT_FALSE(to_json(row, "cuda:0").contains("kiln_joules"));
  EXPECT_THAT(table(report), testing::Not(HasSubstr("under load")));
  row.kiln.joules = 0.02;
  row.kiln.sm_mhz = 1620;
  row.peers["fast"].joules = 0.03;
  row.cool = Timing{.median_ns = 110, .low_ns = 110, .high_ns = 110, .samples = 9};
  row.cool_config = "host_small mr=4";
  const OrderedJson json = to_json(row, "cuda:0");
  EXPECT_EQ(json["kiln_joules"], 0.02);
  EXPECT_EQ(json["peer_joules"], OrderedJson::parse(R"({"fast": 0.03})"));
  EXPECT_EQ(json["cool_ns"], 110);
  EXPECT_EQ(json["cool_config"], "host_small mr=4");
  EXPECT_FALSE(json.contains("cool_joules"));
  const std::string shown = table(report);
  EXPECT_THAT(shown, HasSubstr("under load: kiln 20 mJ a call, SM clock 1620 MHz; fast 30 mJ"));
  EXPECT_THAT(shown, HasSubstr("the winner of the cool race 110 ns, 1.100 of kiln's time\n"));
}

TEST(Report, TableAndCsvHoldEveryRow) {
  BenchReport report = made_report();
  report.rows[0].verified = false;
  report.rows[0].fault = "D[1,2] is 3";
  report.rows[0].excluded.push_back({"liar", "D[0,0] is 1"});
  const std::string shown = table(report);
  EXPECT_THAT(shown, HasSubstr("WRONG"));
  EXPECT_THAT(shown, HasSubstr("D[1,2] is 3"));
  EXPECT_THAT(shown, HasSubstr("liar left out"));
  EXPECT_THAT(shown, HasSubstr("not raced: no memory"));
  EXPECT_THAT(shown, HasSubstr("50 %"));
  const std::string lines = csv(report);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 1 + 3 + 2);
  EXPECT_THAT(lines, HasSubstr("\"fp32 N N 8 8 8\",fp32,N,N,8,8,8,1,cpu,slow,400.0,"));
}

TEST(Demo, TunesEveryLayerThatFitsItsBudget) {
  const auto shapes = demo_shapes({1, 16}).value();
  ASSERT_EQ(shapes.size(), 4u + 4u + 4u);
  EXPECT_EQ(shapes[4].gemm.m, 16);
  for (const ListedShape& shape : shapes) EXPECT_NE(shape.gemm.n, 128256) << shape.origin;
}

TEST(Self, AChildRunsInTheEnvironmentItIsGiven) {
  PeerEnvironment environment;
  environment.set["GTEST_COLOR"] = "no";
  const auto listed = run_self({"--gtest_list_tests"}, apply(environment), true);
  ASSERT_TRUE(listed) << listed.error().message;
  EXPECT_EQ(listed->exit_code, 0);
  EXPECT_THAT(listed->output, HasSubstr("AChildRunsInTheEnvironmentItIsGiven"));
  environment.set["GTEST_FILTER"] = "Self.NoSuchTest";
  const auto none = run_self({}, apply(environment), true);
  EXPECT_THAT(none->output, HasSubstr("Self.NoSuchTest"));
}

}  // namespace kiln::bench_test
