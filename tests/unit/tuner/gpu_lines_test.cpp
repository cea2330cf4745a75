// The kernels that check expressions on NVIDIA GPUs, on the emulator: of expressions that read what
// they reduce, lines and blocks, they accept what plain loops make, and count what is wrong.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "generator/families/cuda/common/check.h"
#include "generator/render/emulated.h"
#include "runtime/compiler.h"
#include "runtime/emulator/kernel.h"
#include "runtime/gpu/kernel.h"
#include "support/block_expressions.h"
#include "support/line_expressions.h"
#include "tuner/verify/data_set.h"
#include "tuner/verify/gpu_check_args.h"
#include "tuner/verify/known_lines.h"

namespace kiln::gpu_lines_test {

using namespace check_args;
using intervals::Interval;
using test::BlockExpression;
using test::LineExpression;
using test::PlainOperand;
using test::PlainProduct;
using test::PlainStore;
using test::Slip;

/// What check.cu uses of CUDA beyond what other kernels do.
constexpr const char* kBeyondKernels = R"(
static inline void atomicAdd(u64* to, u64 x) { __atomic_fetch_add(to, x, __ATOMIC_RELAXED); }
static inline void atomicMin(u64* to, u64 x) {
  for (u64 seen = *to; x < seen && !__atomic_compare_exchange_n(to, &seen, x, true, 0, 0);) {
  }
}
static inline void atomicMax(u64* to, u64 x) {
  for (u64 seen = *to; x > seen && !__atomic_compare_exchange_n(to, &seen, x, true, 0, 0);) {
  }
}
static inline long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
static inline bool isfinite(double x) { return x - x == 0; }
static inline float ldexpf(float x, int n) { return __builtin_ldexpf(x, n); }
static inline int ilogbf(float x) { return __builtin_ilogbf(x); }
static inline float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
static inline float rintf(float x) { return __builtin_rintf(x); }
static inline double fmin(double x, double y) { return x < y ? x : y; }
static inline double fmax(double x, double y) { return x > y ? x : y; }
)";

/// An entry that takes the parameters of a launch: one pointer to each.
constexpr const char* kEntry = R"(
extern "C" __attribute__((visibility("default"))) void kiln_emu_{0}(const void* parameters,
                                                                    const void*) {{
  void* const* const p = (void* const*)parameters;
  {0}(*(KilnGpuArgs*)p[0], *(Types*)p[1], *(Allowance*)p[2], *(const double**)p[3],
      *(const float**)p[4], *(const void**)p[5], *(u64**)p[6], *(const CheckedExpression**)p[7]);
}}
)";

constexpr const char* kJudge = "check_judge_expression";
constexpr const char* kReduce = "check_reduction";
constexpr const char* kPutBlocks = "check_put_blocks";

const std::vector<std::byte>& image() {
  static const std::vector<std::byte> made = [] {
    Source source = gpu_check_source(caps_named("sm_90a").value());
    const auto insert_behind = [&](std::string_view place, std::string_view more) {
      const auto at = source.text.find(place);
      EXPECT_NE(at, std::string::npos) << place;
      source.text.insert(source.text.find('\n', at) + 1, more);
    };
    insert_behind("kCheckThreads =", "using Acc = float;  // which the wrappers name\n");
    insert_behind("// ---- cuda/check/check.cu ----", kBeyondKernels);
    Source other = emulated(source, {}, Vendor::nvidia).value();
    for (const char* const entry : {kJudge, kReduce, kPutBlocks})
      other.text += fmt::format(fmt::runtime(kEntry), entry);
    other.text += fmt::format(
        "static_assert(sizeof(CheckedExpression) == {} && sizeof(Types) == {} && "
        "sizeof(Allowance) == {} && sizeof(Interval) == {});\n",
        sizeof(CheckedExpression), sizeof(Types), sizeof(DeviceAllowance), sizeof(Interval));
    const auto binary = host_compiler().value()->compile(other);
    if (!binary) ADD_FAILURE() << binary.error().message;
    return binary ? binary->image : std::vector<std::byte>();
  }();
  return made;
}

/// One product, its sums and what the checks leave.
class Bed {
 public:
  Bed(const Gemm& gemm, const DataRecipe& recipe)
      : gemm_(gemm),
        problem_(Problem::of(gemm).value()),
        set_(DataSet::make(gemm, recipe).value()),
        d_(static_cast<std::size_t>(span_bytes(gemm, Operand::d))) {
    set_.bind(call_);
    if (!gemm.epilogue.expression.outputs().empty())
      line_.resize(static_cast<std::size_t>(span_bytes(gemm, Operand::y0)));
    call_.d = d_.data(), call_.outputs[0] = line_.data();
    call_.alpha = 0.5, call_.beta = -1.5;
    args_ = gpu::gpu_args(problem_, call_);
    const Gemm& g = problem_.gemm;
    for (std::int64_t batch = 0; batch < g.batch; ++batch)
      for (std::int64_t i = 0; i < g.m; ++i) {
        const Products row = products(g, args_.a, args_.b, {Lines::Along::rows, batch, {i}});
        sums_.insert(sums_.end(), row.sum.begin(), row.sum.end());
        magnitudes_.insert(magnitudes_.end(), row.magnitude.begin(), row.magnitude.end());
      }
    reduce();
  }

  Bed(const Gemm& gemm, Data data) : Bed(gemm, DataRecipe{.data = data, .seed = 3}) {}

  /// How many elements of D and of the output are wrong.
  std::array<std::uint64_t, 2> wrong(const PlainStore& stored) {
    return wrong_of([&] { test::store_plainly(gemm_, call_, stored); });
  }
  std::array<std::uint64_t, 2> wrong(const BlockExpression& e, Slip slip) {
    return wrong_of([&] { test::store_blocks(gemm_, call_, e, slip); });
  }
  /// The same where one value of D is another; its own is returned.
  std::pair<std::uint64_t, double> wrong_with(const BlockExpression& e, std::int64_t at,
                                              double value) {
    double own = 0;
    const auto wrong = wrong_of([&] {
      test::store_blocks(gemm_, call_, e, Slip::none);
      own = load_element(gemm_.d.dtype, d_.data(), at);
      store_element(gemm_.d.dtype, d_.data(), at, value);
    });
    return {wrong[0], own};
  }
  bool differs(const BlockExpression& e, int output, Slip slip) const {
    return test::differs(e, gemm_, call_, output, slip);
  }

  template <typename Store>
  std::array<std::uint64_t, 2> wrong_of(Store&& store) {
    poison(gemm_.d.dtype, d_);
    if (!line_.empty()) poison(dtype_of(gemm_, Operand::y0), line_);
    store();
    std::array<std::uint64_t, 2> all{};
    for (int output = kValueOfD; output < (line_.empty() ? 0 : 1); ++output)
      all.at(output == kValueOfD ? 0 : 1) =
          launched(compared(problem_.gemm, args_, reduced_, output));
    return all;
  }

  std::size_t outputs() const { return gemm_.epilogue.expression.outputs().size(); }
  /// How many of the lines may be anything.
  std::size_t unknown() const {
    std::size_t all = 0;
    for (const auto& lines : memory_)
      for (const Interval& each : lines) all += std::isinf(each.high - each.low);
    return all;
  }

 private:
  void reduce() {
    for (const expression::Value& value : problem_.gemm.epilogue.expression.program()->values) {
      if (value.op != expression::Op::reduced) continue;
      const auto line = value.line;
      const auto bytes = static_cast<std::size_t>(bytes_of_lines(problem_.gemm, line));
      memory_.emplace_back(bytes / sizeof(Interval), Interval{-INFINITY, INFINITY, true});
      const Extra place = place_of_lines(problem_.gemm, line, memory_.back().data());
      EXPECT_EQ(launched(put(problem_.gemm, args_, value, reduced_, place)), 0u);
      reduced_.push_back(place);
    }
  }

  std::uint64_t launched(const CheckedExpression& expression) {
    GpuLaunch launch;
    launch.steps.push_back({.entry = expression.entry(), .grid = {2}, .block = {kCheckThreads}});
    const auto kernel = EmulatedKernel::load(image(), launch, caps_named("sm_90a").value()).value();
    const Scaling scaling{call_.alpha, call_.beta, set_.recipe().data == Data::exact};
    Types types = types_of(problem_);
    DeviceAllowance allow = device_allowance(problem_.gemm, scaling);
    std::uint64_t counters[2] = {0, ~std::uint64_t{0}};
    const double* sums = sums_.data();
    const float* magnitudes = magnitudes_.data();
    const void* c = call_.c;
    std::uint64_t* out = counters;
    const CheckedExpression* given = &expression;
    void* parameters[] = {&args_, &types, &allow, &sums, &magnitudes, &c, &out, &given};
    const Status ran = kernel.run(*reinterpret_cast<const KilnGpuArgs*>(parameters), 0);
    EXPECT_TRUE(ran) << ran.error().message;
    return counters[0];
  }

  Gemm gemm_;
  Problem problem_;
  DataSet set_;
  std::vector<std::byte> d_, line_;
  Operands call_;
  KilnGpuArgs args_ = {};
  std::vector<double> sums_;
  std::vector<float> magnitudes_;
  std::vector<std::vector<Interval>> memory_;
  std::vector<Extra> reduced_;
};

class GpuLines : public testing::TestWithParam<LineExpression> {};

TEST_P(GpuLines, AreJudgedAsPlainLoopsMakeThem) {
  if (!host_compiler()) return;
  const LineExpression& e = GetParam();
  const PlainStore right = right_store(e);
  for (const Order order : {Order::row_major, Order::column_major})
    for (const Data data : {Data::exact, Data::uniform}) {
      const Gemm plain =
          order == Order::row_major ? Gemm::row_major(20, 24, 18) : Gemm::column_major(20, 24, 18);
      Bed bed(plain.batched(2).with_expression(Expression::parse(e.text).value()), data);
      EXPECT_EQ(bed.unknown(), 0u);
      using Wrong = std::array<std::uint64_t, 2>;
      EXPECT_EQ(bed.wrong(right), (Wrong{0, 0}));
      const auto planted = [&](int output, auto&& other) {
        bool spoilt = false;
        const Wrong wrong = bed.wrong([&](const PlainProduct& acc, const PlainOperand& g, int to,
                                          std::int64_t i, std::int64_t j) {
          const double own = *right(acc, g, to, i, j);
          if (to != output || spoilt || i + 1 >= acc.m || j + 1 >= acc.n) return std::optional(own);
          const std::optional<double> x = other(acc, g, i, j, own);
          spoilt = !x || std::fabs(*x - own) > 0.005 * std::fabs(own) + (to == 0 ? 0 : 1e-4);
          return spoilt ? x : std::optional(own);
        });
        EXPECT_EQ(wrong[output == kValueOfD ? 0 : 1], spoilt) << e.text << " output " << output;
        EXPECT_EQ(wrong[output == kValueOfD ? 1 : 0], 0u) << e.text;
        return spoilt;
      };
      using A = const PlainProduct&;
      using G = const PlainOperand&;
      using I = std::int64_t;
      const auto more = [](A, G, I, I, double x) { return std::optional(1.01 * x); };
      const auto none = [](A, G, I, I, double) { return std::optional<double>(); };
      EXPECT_TRUE(planted(kValueOfD, more));
      EXPECT_TRUE(planted(kValueOfD, none));
      EXPECT_EQ(planted(kValueOfD,
                        [&](A acc, G g, I i, I j, double) {
                          return std::optional(e.d(acc, g, i, j, i + 1, j + 1));
                        }),
                e.reads_lines());
      if (e.line == nullptr) continue;
      EXPECT_TRUE(planted(0, more));
      EXPECT_TRUE(planted(0, none));
    }
}

INSTANTIATE_TEST_SUITE_P(Expressions, GpuLines, testing::ValuesIn(test::line_expressions()));

class GpuBlocks : public testing::TestWithParam<BlockExpression> {};

TEST_P(GpuBlocks, AreJudgedAsPlainLoopsMakeThem) {
  if (!host_compiler()) return;
  const BlockExpression& e = GetParam();
  std::vector<bool> planted(e.slips.size());
  for (const Data data : {Data::exact, Data::uniform}) {
    Bed bed(problem_of(e), data);
    EXPECT_EQ(bed.unknown(), 0u);
    using Wrong = std::array<std::uint64_t, 2>;
    EXPECT_EQ(bed.wrong(e, Slip::none), (Wrong{0, 0})) << e.text;
    for (std::size_t i = 0; i < e.slips.size(); ++i) {
      const Wrong wrong = bed.wrong(e, e.slips[i]);
      for (int output = kValueOfD; output < static_cast<int>(bed.outputs()); ++output) {
        if (!bed.differs(e, output, e.slips[i])) continue;
        EXPECT_GT(wrong.at(output == kValueOfD ? 0 : 1), 0u)
            << e.text << " output " << output << " slip " << int(e.slips[i]);
        planted[i] = true;
      }
    }
  }
  EXPECT_EQ(planted, std::vector<bool>(e.slips.size(), true)) << e.text;
}

TEST_P(GpuBlocks, KeepNaNInTheirOwn) {
  if (!host_compiler()) return;
  const BlockExpression& e = GetParam();
  Bed bed(problem_of(e), {.data = Data::uniform, .seed = 3, .nonfinite = true});
  EXPECT_EQ(bed.wrong(e, Slip::none), (std::array<std::uint64_t, 2>{0, 0})) << e.text;
  int numbers = 0;
  for (std::int64_t at = 0; at < 2 * e.m * e.n; at += 23) {
    const auto [wrong, own] = bed.wrong_with(e, at, std::nan(""));
    if (std::isinf(own)) continue;
    EXPECT_EQ(wrong > 0, !std::isnan(own)) << e.text << " element " << at;
    numbers += !std::isnan(own);
  }
  EXPECT_GT(numbers, 3) << e.text;
}

INSTANTIATE_TEST_SUITE_P(Expressions, GpuBlocks, testing::ValuesIn(test::block_expressions()));

/// A block is counted once, by its first element.
TEST(GpuBlocksTogether, AreCountedEach) {
  if (!host_compiler()) return;
  const BlockExpression& e = test::block_expressions()[0];
  Bed bed(problem_of(e), Data::uniform);
  EXPECT_EQ(bed.wrong(e, Slip::last_unwritten)[1], 2u * static_cast<std::uint64_t>(e.m));
}

}  // namespace kiln::gpu_lines_test
