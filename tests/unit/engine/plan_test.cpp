// The parts of the warm path: keys, table, overlap arithmetic, the kernel of last resort.
#include "engine/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <set>
#include <thread>

#include "cache/keys.h"
#include "engine/overlap.h"
#include "engine/plan_table.h"
#include "generator/problem/gate.h"
#include "generator/problem/gemm_types.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/packed_b.h"
#include "runtime/cpu/reference_kernel.h"
#include "support/fields.h"
#include "support/random_gemm.h"
#include "tuner/verify/verify.h"

namespace {

thread_local std::int64_t allocations = 0;

}  // namespace

// Out of line, or GCC warns of malloc's memory meeting delete.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace kiln::plan_test {

TEST(PlanKey, EveryFieldChangesIt) {
  const auto as_set = [](const PlanKey& key) {
    return std::vector<std::uint64_t>(std::begin(key.words), std::end(key.words));
  };
  std::set<std::vector<std::uint64_t>> keys;
  std::set<std::uint64_t> hashes;
  const auto expect_new = [&](const Gemm& gemm, int threads, std::string_view what) {
    EXPECT_TRUE(keys.insert(as_set(plan_key(gemm, threads))).second) << what;
    EXPECT_TRUE(hashes.insert(hash_of(plan_key(gemm, threads))).second) << what;
  };
  std::set<std::string_view> changed;
  for (const Gemm& base : test::bases_of_fields()) {
    expect_new(base, 1, "base");
    expect_new(base, 2, "threads");
    for (const GemmField& field : kGemmFields) {
      const auto other = test::with_next_value(base, field);
      // Kinds of groups of one base are another base.
      if (!other || field.name == "grouping" || field.name == "gather") continue;
      expect_new(*other, 1, field.name);
      changed.insert(field.name);
    }
  }
  EXPECT_EQ(changed.size(), kGemmFieldCount - 2);
}

TEST(PlanKey, WhatNoProblemCanSayChangesIt) {
  const Gemm base = Gemm::row_major(3, 5, 7);
  Gemm a_type = base, d_order = base, d_type = base, d_zero = base, a_zero = base, b_zero = base;
  a_type.a.q.type = bf16, d_order.d.q.order = ScaleOrder::blocks, d_type.d.q.type = bf16;
  d_zero.d.q.zero = Zero::integer, a_zero.a.q.zero = Zero::integer, b_zero.b.q.zero = Zero::line;
  for (const Gemm& unsaid : {a_type, d_order, d_type, d_zero, a_zero, b_zero}) {
    EXPECT_FALSE(plan_key(unsaid, 1) == plan_key(base, 1));
    EXPECT_FALSE(Problem::of(unsaid));
  }
  // A part that is there is not one that is absent, whatever it holds.
  const Gemm rows = base.grouped(2, Grouping::rows);
  const Gemm no_function = base.with_gate(Gate{}), no_way = rows.scattered(0, Scatter{});
  EXPECT_FALSE(plan_key(no_function, 1) == plan_key(base, 1));
  EXPECT_FALSE(plan_key(no_way, 1) == plan_key(rows, 1));
}

std::shared_ptr<Plan::Impl> plan_of(std::int64_t m, std::string config = "") {
  auto plan = bare_plan(Gemm::row_major(m, 2, 3), 1);
  plan->config = std::move(config);
  return plan;
}

TEST(PlanTable, FindsAllOfManyAndReplaces) {
  PlanTable table;
  for (std::int64_t m = 1; m <= 500; ++m) table.put(plan_of(m));
  for (std::int64_t m = 1; m <= 501; ++m) {
    const PlanKey key = plan_key(Gemm::row_major(m, 2, 3), 1);
    const Plan::Impl* found = table.find(key, hash_of(key));
    ASSERT_EQ(found != nullptr, m <= 500) << m;
    EXPECT_TRUE(found == nullptr || found->gemm.m == m);
  }
  const Plan::Impl* old = table.find(plan_of(7)->key, plan_of(7)->hash);
  table.put(plan_of(7, "better"));
  EXPECT_EQ(table.find(old->key, old->hash)->config, "better");
  EXPECT_EQ(old->config, "");  // still alive for whoever holds it
  EXPECT_EQ(table.all().size(), 500u);
}

TEST(PlanTable, AFullOneTakesNoOtherProblem) {
  PlanTable table(3);
  for (std::int64_t m = 1; m <= 3; ++m) table.put(plan_of(m));
  const auto found = [&](const Plan::Impl& plan) { return table.find(plan.key, plan.hash); };
  const auto left_out = plan_of(4), again = plan_of(2, "better");
  table.put(left_out);
  table.put(again);
  EXPECT_EQ(found(*left_out), nullptr);
  EXPECT_FALSE(left_out->in_table);
  EXPECT_EQ(left_out.use_count(), 1) << "it ends with its caller";
  EXPECT_EQ(found(*again), again.get());
  EXPECT_TRUE(again->in_table);
  EXPECT_EQ(table.all().size(), 3u);
}

TEST(PlanTable, ReadersNeverMissWhatWasPut) {
  PlanTable table;
  table.put(plan_of(1));
  std::atomic<bool> stop{false};
  std::atomic<int> missed{0};
  std::thread reader([&] {
    const auto wanted = plan_of(1);
    while (!stop) {
      const Plan::Impl* found = table.find(wanted->key, wanted->hash);
      missed += found == nullptr || found->gemm.m != 1;
    }
  });
  for (std::int64_t m = 2; m <= 400; ++m) {
    table.put(plan_of(m));
    table.put(plan_of(1, std::to_string(m)));
  }
  stop = true;
  reader.join();
  EXPECT_EQ(missed, 0);
}

TEST(WarmPath, AllocatesNothing) {
  PlanTable table;
  const Gemm gemm = Gemm::row_major(0, 4, 4);
  table.put(bare_plan(gemm, 1));
  float x[64] = {};
  const auto product = bare_plan(Gemm::row_major(4, 4, 4), 1);
  const std::int64_t before = allocations;
  for (int i = 0; i < 100; ++i) {
    const PlanKey key = plan_key(gemm, 1);
    const Plan::Impl* plan = table.find(key, hash_of(key));
    if (plan == nullptr || !run_plan(*plan, {})) std::abort();
    if (!check_operands(*product, {.a = x, .b = x + 16, .d = x + 32}, x + 16)) std::abort();
  }
  EXPECT_EQ(allocations, before);
}

/// The same question, byte by byte.
bool share_by_brute_force(const Bytes2d& x, const Bytes2d& y) {
  std::set<std::int64_t> bytes;
  const auto each = [](const Bytes2d& m, auto&& f) {
    for (std::int64_t b = 0; b < m.batch; ++b)
      for (std::int64_t i = 0; i < m.lines; ++i)
        for (std::int64_t w = 0; w < m.width; ++w) f(m.first + b * m.stride + i * m.pitch + w);
  };
  each(x, [&](std::int64_t at) { bytes.insert(at); });
  bool shared = false;
  each(y, [&](std::int64_t at) { shared = shared || bytes.contains(at); });
  return shared;
}

TEST(Overlap, IsWhatBytesSay) {
  test::RandomGemm random(5);
  int shared = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random.below(n)); };
    const auto matrix = [&] {
      Bytes2d m{.first = below(60), .width = 1 + below(6), .lines = 1 + below(4)};
      m.pitch = m.width + below(10);
      m.batch = 1 + below(3);
      m.stride = m.batch == 1 ? 0 : m.width + below(30);
      return m;
    };
    const Bytes2d x = matrix(), y = matrix();
    const bool expected = share_by_brute_force(x, y);
    shared += expected;
    ASSERT_EQ(share_bytes(x, y), expected) << i;
  }
  EXPECT_GT(shared, 500);
  EXPECT_LT(shared, 2900);
}

TEST(Overlap, HeadsSideBySideAreSettledAtOnce) {
  // 4096 tokens, 64 heads of 128 bytes, queries and keys in one buffer: 2^30 pairs of lines.
  const Bytes2d query{
      .first = 0, .width = 128, .lines = 4096, .pitch = 16384, .batch = 64, .stride = 128};
  Bytes2d key = query;
  key.first = 8192;
  EXPECT_FALSE(share_bytes(query, key));
}

class ReferenceKernel : public testing::TestWithParam<int> {};

constexpr std::string_view kCpus[] = {"portable", "avx2", "avx512", "avx512_bf16", "amx"};

TEST_P(ReferenceKernel, IsRightForEveryProblem) {
  test::RandomGemm random(static_cast<std::uint64_t>(GetParam()), 24);
  for (int i = 0; i < 12; ++i) {
    Gemm gemm = random.next();
    if (gemm.d.order == Order::row_major && !gated(gemm) && random.one_in(2)) gemm.b_packed = true;
    if (const Gemm with = gemm.with_amax_d(); validate(with) && random.one_in(3)) gemm = with;
    ASSERT_TRUE(validate(gemm)) << text(gemm);
    const Problem problem = Problem::of(gemm).value();
    const int threads = 1 + static_cast<int>(random.below(3));
    const auto device = cpu_caps_named(kCpus[random.below(std::size(kCpus))]).value();
    const PackedLayout layout = packed_layout(problem, device);
    const Verdict verdict = verify(gemm, [&](const Operands& operands) -> Status {
      HostArgs args = make_args(problem, operands);
      clear_amax(args);
      const PackedCopy packed = pack_b(layout, problem, args.b, threads).value();
      if (gemm.b_packed) args.b = packed.data.get();
      for (int t = 0; t < threads; ++t)
        run_reference(problem, args, gemm.b_packed ? &layout : nullptr, t, threads);
      return {};
    });
    EXPECT_TRUE(verdict) << text(gemm) << " on " << device.arch << ": " << verdict.error().detail;
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, ReferenceKernel, testing::Range(1, 9));

// On a CPU no address is refused; sanitizers see a load that expects more of one.
TEST(ReferenceKernel, TakesIntegersAtAnyAddress) {
  const Gemm gemm = parse_gemm("int8 N N 3 5 7 epilogue=residual").value();
  const Problem problem = Problem::of(gemm).value();
  ASSERT_EQ(gemm.d.dtype, DType::s32);
  const std::vector<std::int8_t> a(3 * 7, 2), b(7 * 5, -3);
  std::vector<std::byte> memory(3 * 5 * 4 + 3), d(memory.size());
  const auto put = [&](std::int32_t value) {
    for (std::size_t i = 0; i < 15; ++i)
      std::memcpy(memory.data() + 3 + 4 * i, &value, sizeof value);
  };
  put(100);
  const Operands operands{.a = a.data(),
                          .b = b.data(),
                          .c = memory.data() + 3,
                          .d = d.data() + 1,
                          .residual = memory.data() + 3,
                          .beta = 2};
  run_reference(problem, make_args(problem, operands), nullptr, 0, 1);
  for (std::size_t i = 0; i < 15; ++i) {
    std::int32_t got = 0;
    std::memcpy(&got, d.data() + 1 + 4 * i, sizeof got);
    EXPECT_EQ(got, 7 * 2 * -3 + 2 * 100 + 100) << i;
  }
}

TEST(ReferenceKernel, CoversEveryTypeRow) {
  for (const TypeRow& row : kTypeRows) {
    Gemm gemm = Gemm::row_major(9, 11, 13);
    gemm.a.dtype = row.a;
    gemm.b.dtype = row.b;
    gemm.accumulator = row.accumulator;
    gemm.c.dtype = gemm.d.dtype = row.usual_output();
    const auto plan = bare_plan(gemm, 1);
    const Verdict verdict =
        verify(gemm, [&](const Operands& operands) { return run_plan(*plan, operands); });
    EXPECT_TRUE(verdict) << row.word << ": " << verdict.error().detail;
  }
}

}  // namespace kiln::plan_test
