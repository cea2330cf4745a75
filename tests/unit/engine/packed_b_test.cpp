// A packed B: its layout element by element, and one copy for every m, thread count and engine.
#include "runtime/cpu/packed_b.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "engine/engine_impl.h"
#include "generator/space/launch_text.h"
#include "kiln/numeric.hpp"
#include "support/few.h"
#include "support/opened_engine.h"
#include "support/random_gemm.h"

namespace kiln::packed_b_test {

using test::Opened;
using test::why;
using testing::HasSubstr;

DeviceCaps cpu(std::string_view name) { return cpu_caps_named(name).value(); }

PackedLayout layout_of(std::string_view shape, std::string_view device) {
  return packed_layout(Problem::of(parse_gemm(shape).value()).value(), cpu(device));
}

TEST(PackedLayout, FollowsFromTypesAndDevice) {
  const auto text_of = [](std::string_view shape, std::string_view device) {
    return text(layout_of(shape, device));
  };
  EXPECT_EQ(text_of("fp32 N T 5 6 7", "avx512"),
            "as=f32;bytes=4;lanes=16;group=1;step=1;sums=0;pages=staggered");
  EXPECT_EQ(text_of("fp32 N T 5 6 7", "avx2"),
            "as=f32;bytes=4;lanes=8;group=1;step=1;sums=0;pages=staggered");
  EXPECT_EQ(text_of("fp64 N T 5 6 7", "portable"),
            "as=itself;bytes=8;lanes=2;group=1;step=1;sums=0;pages=staggered");
  EXPECT_EQ(text_of("bf16 N T 5 6 7", "avx512"),
            "as=f32;bytes=4;lanes=16;group=1;step=1;sums=0;pages=staggered");
  EXPECT_EQ(text_of("bf16 N T 5 6 7", "amx"),
            "as=itself;bytes=2;lanes=16;group=2;step=16;sums=0;pages=staggered");
  EXPECT_EQ(text_of("bf16 N T 5 6 7", "amx"), text_of("bf16 N N 900 6 7 batch=2", "avx512_bf16"));
  EXPECT_EQ(text_of("int8 N T 5 6 7", "avx512_bf16"),
            "as=itself;bytes=1;lanes=16;group=4;step=16;sums=1;pages=staggered");
  EXPECT_EQ(text_of("u8s8 N T 5 6 7", "avx512_bf16"), text_of("int8 N T 5 6 7", "amx"))
      << "whatever A is";
  EXPECT_EQ(text_of("s8u8 N T 5 6 7", "avx512_bf16"),
            "as=itself;bytes=1;lanes=16;group=4;step=16;sums=0;pages=staggered");
  EXPECT_EQ(text_of("int8 N T 5 6 7", "avx512"),
            "as=s16;bytes=2;lanes=16;group=2;step=1;sums=0;pages=staggered");
  EXPECT_EQ(text_of("int8 N T 5 6 7", "avx2"),
            "as=s16;bytes=2;lanes=8;group=2;step=1;sums=0;pages=staggered");
  EXPECT_EQ(text_of("int8 N T 5 6 7", "portable"),
            "as=s32;bytes=4;lanes=4;group=1;step=1;sums=0;pages=staggered");
  EXPECT_EQ(text_of("fp8 N T 5 6 7", "avx512"),
            "as=itself;bytes=1;lanes=1;group=1;step=1;sums=0;pages=staggered");
}

/// In rows of units of 64 bytes, 64 to a page.
TEST(PackedLayout, PanelsOfWholePagesLieApart) {
  const auto rows = [](std::string_view shape) {
    const Gemm gemm = parse_gemm(shape).value();
    return layout_of(shape, "amx").panel_bytes(gemm.k) / 64;
  };
  EXPECT_EQ(rows("fp32 N T 1 16 4096"), 4096 + 17);
  EXPECT_EQ(rows("fp32 N T 1 16 4093"), 4093 + 17);
  EXPECT_EQ(rows("fp32 N T 1 16 4100"), 4100 + 17);
  EXPECT_EQ(rows("fp32 N T 1 16 4120"), 4120) << "they are apart by themselves";
  EXPECT_EQ(rows("fp32 N T 1 16 960"), 960) << "16 pages at least";
  EXPECT_EQ(rows("int8 N T 1 16 4096"), 1024 + 1 + 17) << "a row of sums is a part of a panel";
}

/// Every config of both families reads the one layout, or is refused.
TEST(PackedLayout, IsAPartOfALaunch) {
  const Gemm gemm = parse_gemm("bf16 N T 64 512 1024").value();
  const DeviceCaps device = cpu("amx");
  for (const char* config :
       {"host_packed isa=avx512 mr=8 nv=3 kc=512 mc=64 nc=96 pack_a=1 pack_b=1 inner=columns "
        "parallel=none unroll=1 prefetch=0 stream_d=0 fetch_a=0 fetch_b=0",
        "host_amx isa=amx mt=2 nt=2 kc=1024 nc=512 swap=0 copy_left=0 parallel=none"}) {
    const Config parsed = parse_config(config).value();
    const std::string plain = launch_text(Problem::of(gemm).value(), device, parsed);
    EXPECT_EQ(plain.find("b="), plain.npos) << plain;
    EXPECT_EQ(launch_text(Problem::of(gemm.with_packed_b()).value(), device, parsed),
              plain + "b=as=itself;bytes=2;lanes=16;group=2;step=16;sums=0;pages=staggered;");
  }
  DeviceCaps without = device;  // vectors hold floats there, tiles pairs of bf16
  without.cpu.avx512_bf16 = false;
  const Config tiles =
      parse_config("host_amx isa=amx mt=2 nt=2 kc=1024 nc=512 swap=0 copy_left=0 parallel=none")
          .value();
  EXPECT_EQ(broken_rule(Problem::of(gemm).value(), without, tiles), "");
  EXPECT_THAT(std::string(broken_rule(Problem::of(gemm.with_packed_b()).value(), without, tiles)),
              HasSubstr("an AVX-512 instruction of the same units"));
}

/// The packed element (k, column), as a number.
double packed_element(const PackedLayout& l, const Gemm& g, const PackedCopy& copy,
                      std::int64_t batch, std::int64_t k, std::int64_t column) {
  const std::int64_t row = k / l.group;
  const std::byte* at = copy.data.get() + batch * l.bytes(g.n, g.k) +
                        column / l.lanes * l.panel_bytes(g.k) + row * l.row_bytes() +
                        (column % l.lanes * l.group + k % l.group) * l.element_bytes;
  const auto as = [&]<typename T>() {
    T value;
    std::memcpy(&value, at, sizeof value);
    return static_cast<double>(value);
  };
  switch (l.as) {
    case PackedAs::f32:
      return as.template operator()<float>();
    case PackedAs::s16:
      return as.template operator()<std::int16_t>();
    case PackedAs::s32:
      return as.template operator()<std::int32_t>();
    case PackedAs::itself:
      break;
  }
  return load_element(g.b.dtype, at, 0);
}

/// Small integers, which every type holds.
std::vector<std::byte> integers(DType type, std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(static_cast<std::size_t>(count * size_of(type)));
  const int least = type == u8 ? 0 : -4;
  for (std::int64_t i = 0; i < count; ++i)
    store_element(type, bytes.data(), i, least + static_cast<int>(random() % 8));
  return bytes;
}

TEST(PackB, PutsEveryElementInItsPlace) {
  test::RandomGemm random(7, 150);
  for (int i = 0; i < 150; ++i) {
    Gemm g = random.next();
    g.d.order = g.c.order = Order::row_major;
    g.epilogue.gate.reset();
    g.c.ld = g.d.ld = g.c.batch_stride = g.d.batch_stride = 0;
    g = g.with_packed_b();
    ASSERT_TRUE(validate(g)) << text(g);
    constexpr std::string_view kCpus[] = {"portable", "avx2", "avx512", "avx512_bf16", "amx"};
    const DeviceCaps device = cpu(kCpus[random.below(std::size(kCpus))]);
    const Problem problem = Problem::of(g).value();
    const PackedLayout l = packed_layout(problem, device);
    const Matrix& b = problem.gemm.b;
    const std::int64_t lines = problem.b_k_major ? g.n : g.k;
    const auto data = integers(b.dtype, (g.batch - 1) * b.batch_stride + lines * b.ld, 3);
    const PackedCopy copy = pack_b(l, problem, data.data(), 1 + i % 3).value();
    ASSERT_EQ(copy.bytes, g.batch * l.bytes(g.n, g.k));
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(copy.data.get()) % 64, 0u);
    for (std::int64_t batch = 0; batch < g.batch; ++batch)
      for (std::int64_t column = 0; column < l.panels(g.n) * l.lanes; ++column) {
        double sum = 0;
        for (std::int64_t k = 0; k < l.rows(g.k) * l.group; ++k) {
          const std::int64_t from = problem.b_k_major ? column * b.ld + k : k * b.ld + column;
          const double wanted =
              column < g.n && k < g.k
                  ? load_element(b.dtype, data.data(), batch * b.batch_stride + from)
                  : 0;
          ASSERT_EQ(packed_element(l, g, copy, batch, k, column), wanted)
              << text(g) << " on " << device.arch << ": k = " << k << ", column " << column;
          sum += wanted;
        }
        if (!l.column_sums) continue;
        std::int32_t stored = 0;
        std::memcpy(&stored,
                    copy.data.get() + batch * l.bytes(g.n, g.k) +
                        column / l.lanes * l.panel_bytes(g.k) + l.rows(g.k) * l.row_bytes() +
                        column % l.lanes * 4,
                    sizeof stored);
        ASSERT_EQ(stored, sum) << text(g) << ": column " << column;
      }
  }
}

TEST(PackedB, GivesTheSameResult) {
  Opened kiln;
  for (const Gemm& plain : {Gemm::row_major(37, 70, 51), Gemm::row_major(9, 33, 40).transpose_b(),
                            Gemm::row_major(9, 33, 40, bf16),
                            // Panels of whole pages, which lie apart.
                            Gemm::row_major(9, 70, 1024), Gemm::row_major(9, 70, 4093, bf16),
                            parse_gemm("int8 N T 9 70 4096").value()}) {
    const Gemm gemm = plain.with_packed_b();
    const auto run = [&](const Operands& operands) -> Status {
      const auto packed = kiln->pack_b(plain, operands.b);
      if (!packed) return tl::unexpected(packed.error());
      EXPECT_GT(packed->bytes(), 0u);
      Operands bound = operands;
      bound.b = nullptr;
      bound.packed_b = &*packed;
      return kiln->gemm(gemm, bound);
    };
    // vdpbf16ps, where the CPU has it, takes denormals for zero.
    const Verdict verdict = verify(gemm, run, {}, gemm.a.dtype == bf16 ? 0x1p-126 : 0);
    EXPECT_TRUE(verdict) << text(gemm) << ": " << why(verdict);
  }
}

/// Products of integers: every order of summation gives the same bits.
struct Data {
  explicit Data(const Gemm& largest)
      : gemm(largest),
        a(integers(largest.a.dtype, largest.m * largest.k, 1)),
        b(integers(largest.b.dtype, largest.n * largest.k, 2)) {}

  std::vector<std::byte> product(const Gemm& gemm, Engine& engine, const PackedB* packed,
                                 int threads) {
    std::vector<std::byte> d(static_cast<std::size_t>(gemm.m * gemm.n * size_of(gemm.d.dtype)));
    const Status ran = engine.gemm(packed != nullptr ? gemm.with_packed_b() : gemm,
                                   {.a = a.data(),
                                    .b = packed != nullptr ? nullptr : b.data(),
                                    .packed_b = packed,
                                    .d = d.data(),
                                    .threads = threads});
    EXPECT_TRUE(ran) << text(gemm) << ": " << ran.error().message;
    return d;
  }

  Gemm gemm;
  std::vector<std::byte> a, b;
};

Gemm with_rows(Gemm gemm, std::int64_t m) {
  gemm.m = m;
  return gemm;
}

class OneCopy : public testing::TestWithParam<const char*> {};

TEST_P(OneCopy, ServesEveryMAndThreadCount) {
  Opened kiln;
  const Gemm layer = parse_gemm(GetParam()).value();
  Data data(layer);
  const PackedB packed = kiln->pack_b(layer, data.b.data(), 2).value();
  // So that no other m is compiled for.
  for (const int threads : {1, 2})
    for (const std::int64_t m : {5, 64})
      for (const bool weights : {false, true}) {
        const Gemm tuned = with_rows(weights ? layer.with_packed_b() : layer, m);
        ASSERT_TRUE(kiln->tune(tuned, test::few(12, threads)));
      }
  for (const int threads : {1, 2})
    for (std::int64_t m = 1; m <= layer.m; m += 2) {
      const Gemm gemm = with_rows(layer, m);
      ASSERT_EQ(data.product(gemm, *kiln.engine, &packed, threads),
                data.product(gemm, *kiln.engine, nullptr, threads))
          << text(gemm) << " on " << threads
          << " threads: " << kiln->plan(gemm.with_packed_b(), threads)->config();
    }
}
INSTANTIATE_TEST_SUITE_P(Types, OneCopy,
                         testing::Values("fp32 N T 300 75 130", "bf16 N N 300 75 131",
                                         "bf16 N T 100 75 2048", "int8 N T 300 75 130",
                                         "u8s8 N N 301 75 131"));

TEST(PackedB, TheReferenceKernelReadsIt) {
  Opened kiln;
  const Gemm layer = parse_gemm("fp8 N T 20 33 50").value();
  Data data(layer);
  const PackedB packed = kiln->pack_b(layer, data.b.data()).value();
  for (std::int64_t m = 1; m <= 20; m += 3) {
    const Gemm gemm = with_rows(layer, m);
    EXPECT_EQ(kiln->plan(gemm.with_packed_b())->match(), Match::reference);
    EXPECT_EQ(data.product(gemm, *kiln.engine, &packed, 1),
              data.product(gemm, *kiln.engine, nullptr, 1));
  }
}

TEST(PackedB, OutlivesItsEngineAndServesOthers) {
  Opened kiln;
  const Gemm layer = Gemm::row_major(12, 33, 40);
  Data data(layer);
  const PackedB packed = kiln->pack_b(with_rows(layer, 0), data.b.data()).value();
  const auto wanted = data.product(layer, *kiln.engine, nullptr, 1);
  kiln.open();
  EXPECT_EQ(data.product(layer, *kiln.engine, &packed, 1), wanted);
  const Plan plan = kiln->plan(layer.with_packed_b()).value();
  kiln.engine.reset();
  std::vector<std::byte> d(wanted.size());
  ASSERT_TRUE(plan.run({.a = data.a.data(), .packed_b = &packed, .d = d.data()}));
  EXPECT_EQ(d, wanted);
}

TEST(PackedB, ServesOtherEpiloguesAndPitches) {
  Opened kiln;
  const Gemm layer = Gemm::row_major(4, 40, 24).transpose_b();
  Data data(layer);
  const PackedB packed = kiln->pack_b(layer, data.b.data()).value();
  Gemm other = layer.with_bias(Bias::per_column).with_activation(Activation::relu);
  other.a.ld = 24;
  other.b = {};  // how B was stored does not matter any more
  std::vector<float> d(160), bias(40, 1.0f);
  const auto plain = data.product(layer, *kiln.engine, nullptr, 1);
  ASSERT_TRUE(kiln->gemm(
      other.with_packed_b(),
      {.a = data.a.data(), .packed_b = &packed, .d = d.data(), .bias = bias.data(), .alpha = 2.0}));
  for (std::int64_t i = 0; i < 160; ++i)
    EXPECT_EQ(d[static_cast<std::size_t>(i)],
              std::max(0.0, 2.0 * load_element(fp32, plain.data(), i) + 1.0));
}

TEST(PackedB, IsNotTakenForAnother) {
  Opened kiln;
  std::vector<float> memory(200, 1.0f);
  float* const m = memory.data();
  const Gemm gemm = Gemm::row_major(4, 4, 4);
  const auto packed = kiln->pack_b(gemm, m);
  ASSERT_TRUE(packed);
  const Operands bound{.a = m, .packed_b = &*packed, .d = m + 64};
  EXPECT_TRUE(kiln->gemm(gemm.with_packed_b(), bound));
  EXPECT_EQ(memory[64], 4.0f);
  const auto refusal = [&](const Gemm& other) {
    const Status ran = kiln->gemm(other.with_packed_b(), bound);
    EXPECT_FALSE(ran) << text(other);
    return ran ? "" : ran.error().message;
  };
  EXPECT_THAT(refusal(Gemm::row_major(4, 4, 5)),
              HasSubstr("packed_b: packed for k = 4, not k = 5: fp32 N N 4 4 5"));
  EXPECT_THAT(refusal(Gemm::row_major(1, 3, 4)), HasSubstr("packed for n = 4, not n = 3"));
  EXPECT_THAT(refusal(Gemm::row_major(2, 4, 4).batched(2)),
              HasSubstr("packed for batch = 1, not batch = 2"));
  EXPECT_THAT(refusal(Gemm::row_major(4, 4, 4, bf16)),
              HasSubstr("packed for b.dtype = fp32, not bf16"));
  const Status missing = kiln->gemm(gemm.with_packed_b(), {.a = m, .d = m + 32});
  EXPECT_THAT(missing.error().message, HasSubstr("packed_b = null"));
  EXPECT_THAT(kiln->pack_b(gemm, nullptr).error().message, HasSubstr("b = null"));
  EXPECT_THAT(kiln->pack_b(gemm, m, 9999).error().message, HasSubstr("threads = 9999"));
  EXPECT_THAT(kiln->pack_b(Gemm::column_major(4, 4, 4), m).error().message,
              HasSubstr("b_packed = true"));
  // Tuning afterwards changes the kernel, not the layout.
  ASSERT_TRUE(kiln->tune(gemm.with_packed_b()));
  EXPECT_TRUE(kiln->gemm(gemm.with_packed_b(), bound));
  EXPECT_EQ(memory[64], 4.0f);
}

TEST(PackedB, OfAnotherDeviceIsRefused) {
  Opened kiln;
  std::vector<float> memory(100, 1.0f);
  const Gemm gemm = Gemm::row_major(4, 4, 4).with_packed_b();
  const auto packed = kiln->pack_b(gemm, memory.data());
  PackedB::Impl foreign = packed->impl();
  foreign.layout.lanes *= 2;
  const PackedB other(std::make_shared<const PackedB::Impl>(foreign));
  const Status ran =
      kiln->gemm(gemm, {.a = memory.data(), .packed_b = &other, .d = memory.data() + 32});
  ASSERT_FALSE(ran);
  EXPECT_THAT(ran.error().message, HasSubstr("packed for another device's kernels"));
}

}  // namespace kiln::packed_b_test
