// The emulator by itself: small kernels written here, each of which does one thing right or wrong.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "generator/families/hip/common/instructions.h"
#include "generator/render/embedded.h"
#include "generator/render/emulated.h"
#include "runtime/compiler.h"
#include "runtime/emulator/fragments.h"
#include "runtime/emulator/kernel.h"
#include "runtime/emulator/layouts.h"
#include "runtime/emulator/shared_memory.h"
#include "runtime/emulator/warp_mma.h"
#include "runtime/emulator/warpgroup.h"

namespace kiln::emulator_test {

using testing::HasSubstr;

std::string file(std::string_view path) {
  for (const EmbeddedFile& f : embedded_templates())
    if (f.path == path) return fmt::format("\n// ---- {} ----\n{}", path, f.text);
  return {};
}

/// Runs `body` as a kernel of one block for NVIDIA; its memory is `data`. The report, or nothing.
std::string run(const std::string& body, int threads, std::vector<float>& data,
                std::uint64_t seed = 0, const char* arch = "sm_90a") {
  Source source;
  source.file_name = "probe.cu";
  source.text = "// A probe.\n" + file("cuda/common/abi.h") + file("cuda/common/types.h") +
                "\n// ---- parameters ----\nusing Acc = float;\n" +
                file("cuda/common/hopper_ptx.h") +
                fmt::format(
                    "\n// ---- probe ----\nextern \"C\" __global__ void kiln_gemm(const "
                    "KilnGpuArgs args) {{\n  extern __shared__ __align__(1024) unsigned "
                    "char shared_bytes[];\n  const u32 shared = "
                    "__cvta_generic_to_shared(shared_bytes);\n  float* data = "
                    "(float*)args.d;\n  const int thread = threadIdx.x;\n"
                    "  (void)shared, (void)data, (void)thread;\n{}\n}}\n",
                    body);
  GpuLaunch launch;
  GpuStep step;
  step.block.x = static_cast<unsigned>(threads);
  step.dynamic_shared_bytes = 4096;
  launch.steps.push_back(step);
  const auto exchanged = emulated(source, launch, Vendor::nvidia);
  if (!exchanged) return exchanged.error().message;
  const auto binary = host_compiler().value()->compile(*exchanged);
  if (!binary) return binary.error().message;
  const auto kernel = EmulatedKernel::load(binary->image, launch, caps_named(arch).value());
  if (!kernel) return kernel.error().message;
  KilnGpuArgs args{};
  args.d = data.data();
  const Status status = kernel->run(args, seed);
  return status ? "" : status.error().message;
}

std::string run(const std::string& body, int threads = 64) {
  std::vector<float> data(1024);
  return run(body, threads, data);
}

TEST(Emulator, LanesKnowWhoTheyAreAndMeetAtBarriers) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    std::vector<float> data(64, -1.0f);
    EXPECT_EQ(run("store_shared_word(shared + thread * 4, thread); __syncthreads();\n"
                  "data[thread] = float(load_shared_word(shared + (63 - thread) * 4));",
                  64, data, seed),
              "");
    for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(data[i], 63 - static_cast<int>(i));
  }
}

TEST(Emulator, SharedMemoryBeginsPoisoned) {
  std::vector<float> data(64, 1.0f);
  EXPECT_EQ(run("data[thread] = __uint_as_float(load_shared_word(shared + thread * 4));", 64, data),
            "");
  for (const float x : data) EXPECT_NE(x, x);
}

TEST(Emulator, StraysAreReportedWithTheirLane) {
  EXPECT_THAT(run("if (thread == 37) store_shared_word(shared + 4096, 1);"),
              HasSubstr("thread 37 (warp 1, lane 5): a store of 4 bytes at 0x1400, outside"));
  EXPECT_THAT(run("if (thread == 3) *(volatile int*)16 = 1;"),
              HasSubstr("thread 3 (warp 0, lane 3): memory at 0x10 is not the kernel's"));
  EXPECT_THAT(run("volatile int at = 9; int few[8] = {}; if (thread == 5) data[0] = few[at];"),
              HasSubstr("thread 5 (warp 0, lane 5): an index lies outside its array"));
  EXPECT_THAT(run("volatile int zero = 0; data[0] = thread / zero;"),
              HasSubstr("division by zero"));
  EXPECT_THAT(run("shared_bytes[thread == 9 ? 4096 + 4096 : 0] = 1;"),
              HasSubstr("thread 9 (warp 0, lane 9): an access lies outside shared memory"));
}

/// The processor would let them pass; NVIDIA's GPUs fault. Clang checks no volatile access, so
/// these are plain ones, as all of the templates' are.
TEST(Emulator, MisalignedAddressesAreReported) {
  constexpr const char* kWhat =
      "thread 5 (warp 0, lane 5): an index lies outside its array, or an address is misaligned";
  const auto stored = [](const char* type, int bytes) {
    return run(
        fmt::format("char* at = (char*)data + 4 * thread + {};\n"
                    "if (thread == 5) *({}*)at = 1;",
                    bytes, type));
  };
  EXPECT_THAT(stored("u32", 2), HasSubstr(kWhat));
  EXPECT_THAT(stored("u16", 1), HasSubstr(kWhat));
  EXPECT_THAT(stored("u64", 0), HasSubstr(kWhat));  // thread 5's word is the second of 8 bytes
  EXPECT_EQ(stored("u32", 4), "");
  EXPECT_EQ(stored("u16", 2), "");
  EXPECT_EQ(stored("u64", 4), "");
  EXPECT_THAT(run("if (thread == 5) data[0] = *(float*)((char*)data + 2);"), HasSubstr(kWhat));
  EXPECT_THAT(run("if (thread == 5) *(u32*)(shared_bytes + 2) = 1;"), HasSubstr(kWhat));
}

TEST(Emulator, BarriersThatNeverOpenAreReported) {
  EXPECT_THAT(
      run("if (thread < 32) __syncthreads();"),
      HasSubstr(
          "deadlock, no lane can continue: \n  block (0, 0, 0) thread 0 (warp 0, lane 0) waits for "
          "barrier 0 of 64 threads"));
  EXPECT_THAT(run("if (thread == 0) mbarrier_init(shared, 2);\n__syncthreads();\n"
                  "if (thread == 0) mbarrier_arrive(shared);\nmbarrier_wait(shared, 0);"),
              HasSubstr("waits for mbarrier 0x400, the end of a phase of parity 0"));
  EXPECT_THAT(run("named_barrier_sync(1, thread < 32 ? 64 : 32);"), HasSubstr("barrier 1 takes"));
}

TEST(Emulator, RunsWithoutEndAreReported) {
  std::vector<float> data(1);
  EXPECT_THAT(run("for (;;) __syncwarp();", 2, data), HasSubstr("no end in sight after 4194305"));
}

TEST(Emulator, MisusedBarriersAreReported) {
  EXPECT_THAT(run("mbarrier_wait(shared, 0);"), HasSubstr("where no mbarrier was initialised"));
  EXPECT_THAT(run("if (thread == 0) { mbarrier_init(shared, 1); store_shared_word(shared, 0);\n"
                  "__threadfence(); mbarrier_arrive(shared); }"),
              HasSubstr("was written over"));
  EXPECT_THAT(run("if (thread % 32 < 16) __syncwarp(); else __shfl_sync(~0u, thread, 0);"),
              HasSubstr("while other lanes of the warp are at"));
}

TEST(Emulator, PhasesEndWhenArrivalsAndBytesAreThere) {
  EXPECT_EQ(
      run("if (thread == 0) mbarrier_init(shared, 64);\n__syncthreads();\n"
          "for (int i = 0; i < 5; ++i) { mbarrier_arrive(shared); mbarrier_wait(shared, i & 1); "
          "}"),
      "");
}

TEST(Emulator, WarpsThatGiveNoRegistersStopOthers) {
  const auto take = [](int more) {
    return fmt::format("if (thread < 128) give_registers<{}>(); else take_registers<240>();", more);
  };
  EXPECT_EQ(run(take(24), 384), "");
  EXPECT_THAT(run("if (thread >= 128) take_registers<240>();", 384), HasSubstr("240 registers"));
}

TEST(Emulator, SumsAreOutOfReachUntilWaitedFor) {
  // No descriptor's memory is ever read: the products are never waited for.
  const std::string body = R"(
  float sums[4] = {};
  const KilnEmuWgmma w{"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16",
                       "%4, %5, p, 1, 1, 0, 0", sums, 4, 64ull | 1ull << 62, 64ull | 1ull << 62, 0};
)";
  EXPECT_THAT(run(body + "kiln_emu_ops->wgmma(&w);", 128), HasSubstr("no wgmma.fence"));
  EXPECT_THAT(run(body + "wgmma_fence(); kiln_emu_ops->wgmma(&w); wgmma_commit();", 128),
              HasSubstr("ended with products in flight"));
  std::vector<float> data(128);
  EXPECT_EQ(run(body + "wgmma_fence(); kiln_emu_ops->wgmma(&w); wgmma_commit();\n"
                       "data[thread] = sums[0]; wgmma_wait<0>();",
                128, data),
            "");
  for (const float x : data) EXPECT_NE(x, x);
}

TEST(Emulator, UnfencedStoresAreNotForTheMatrixUnits) {
  const std::string body = R"(
  float sums[4] = {};
  const u64 at = 64ull | 64ull << 32 | 1ull << 62;  // address 1024, 8 rows of 128 bytes
  const KilnEmuWgmma w{"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16",
                       "%4, %5, p, 1, 1, 0, 0", sums, 4, at & ~(0x3fffull << 32), at, 0};
  for (int i = thread; i < 1024; i += 128) store_shared_word(shared + i * 4, 0x3f803f80);
  FENCE
  __syncthreads();
  wgmma_fence(); kiln_emu_ops->wgmma(&w); wgmma_commit(); wgmma_wait<0>();
  data[thread] = sums[0];
)";
  const auto with = [&](const char* fence) {
    std::string text = body;
    return text.replace(text.find("FENCE"), 5, fence);
  };
  EXPECT_THAT(run(with(""), 128), HasSubstr("without a proxy fence"));
  std::vector<float> data(128);
  EXPECT_EQ(run(with("fence_async_shared();"), 128, data), "");
  for (const float x : data) EXPECT_EQ(x, 16.0f);
}

TEST(Emulator, MatricesComeBackAsTheyWereStored) {
  std::vector<float> data(64);
  EXPECT_EQ(run("const u32 row = shared + (thread & 15) * 16;\n"
                "stmatrix_x2(row, thread * 2 | (thread * 2 + 1) << 16, 0);\n__syncwarp();\n"
                "u32 r[2]; kiln_emu_ops->matrix_load(r, row, 2, 1);\n"
                "data[thread * 2] = r[0] & 0xffff; data[thread * 2 + 1] = r[0] >> 16;",
                32, data),
            "");
  for (int lane = 0; lane < 32; ++lane)
    for (int e = 0; e < 2; ++e) {
      const emu::Element at = emu::in_8x8(lane, e);
      // Transposed: what stood at (column, row), numbered along the rows.
      EXPECT_EQ(data[static_cast<std::size_t>(lane * 2 + e)], at.column * 8 + at.row);
    }
}

TEST(Emulator, OnlyRealInstructionsAreParsed) {
  emu::WgmmaShape s;
  EXPECT_TRUE(emu::parse_wgmma("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16",
                               "%128, %129, p, 1, 1, 0, 1", s));
  EXPECT_EQ(s.n, 256);
  EXPECT_TRUE(!s.a_across && s.b_across);
  EXPECT_TRUE(emu::parse_wgmma("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16",
                               "{%4, %5, %6, %7}, %8, p, 1, 1, 1", s));
  EXPECT_TRUE(s.a_registers && !s.a_across && s.b_across);
  for (const auto& [name, operands] : std::vector<std::pair<const char*, const char*>>{
           {"wgmma.mma_async.sync.aligned.m64n12k16.f32.bf16.bf16", "%6, %7, p, 1, 1, 0, 0"},
           {"wgmma.mma_async.sync.aligned.m64n8k8.f32.bf16.bf16", "%4, %5, p, 1, 1, 0, 0"},
           {"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16",
            "{%4, %5, %6, %7}, %8, p, 1, 1, 0, 0"},
           {"wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8", "%20, %21, p"},
           {"wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3", "%4, %5, p, 1, 1, 0, 0"}})
    EXPECT_FALSE(emu::parse_wgmma(name, operands, s)) << name;
}

TEST(Emulator, CopiesAreThereWhenTheirGroupIsWaitedFor) {
  const auto copied = [](const char* wait) {
    std::vector<float> data(64);
    for (std::size_t i = 0; i < 16; ++i) data[i] = 1.0f + float(i);
    EXPECT_EQ(run(fmt::format("if (thread == 0) {{ cp_async_16(shared, data, 16); "
                              "cp_async_commit(); cp_async_8(shared + 16, data + 4, 4); "
                              "cp_async_commit();\n{}\nu32 r[4]; load_shared_words(r, shared);\n"
                              "data[32] = __uint_as_float(r[0]); load_shared_words(r, shared + "
                              "16); data[33] = __uint_as_float(r[0]); data[34] = "
                              "__uint_as_float(r[1]); }}",
                              wait),
                  32, data),
              "");
    return std::array{data[32], data[33], data[34]};
  };
  const auto all = copied("cp_async_wait<0>();");
  EXPECT_EQ(all, (std::array{1.0f, 5.0f, 0.0f})) << "zeros behind what is valid";
  const auto first = copied("cp_async_wait<1>();");
  EXPECT_EQ(first[0], 1.0f);
  EXPECT_NE(first[1], first[1]) << "the second group may still be on its way";
  const auto none = copied(";");
  EXPECT_NE(none[0], none[0]);
}

TEST(Emulator, MisalignedCopiesAreReported) {
  EXPECT_THAT(run("cp_async_8(shared + 4, data, 8);"), HasSubstr("not aligned"));
  EXPECT_THAT(run("cp_async_8(shared, data + 1, 8);"), HasSubstr("not aligned"));
  EXPECT_THAT(run("cp_async_4(shared, data, 8);"), HasSubstr("reads 8 bytes"));
}

/// A warp multiplies A, whose element (row, k) is 16 row + k, by a B that picks one column of it.
TEST(Emulator, ProductsOfAWarpAreThoseOfTheFragments) {
  for (const auto& [arch, name] : std::vector<std::pair<const char*, const char*>>{
           {"sm_80", "m8n8k4"}, {"sm_90a", "m16n8k4"}}) {
    const int rows = name[1] == '8' ? 8 : 16, sums = rows / 4;
    std::vector<float> data(128);
    EXPECT_EQ(
        run(fmt::format("double a[2] = {{16.0 * (thread / 4) + thread % 4, 16.0 * (thread / "
                        "4 + 8) + thread % 4}}, b = thread % 4 == thread / 4 % 4;\n"
                        "double d[4] = {{1, 1, 1, 1}};\n"
                        "const KilnEmuMma m{{\"mma.sync.aligned.{}.row.col.f64.f64.f64.f64\", "
                        "a, &b, d, {}, 8, {}}};\nkiln_emu_ops->mma(&m);\n"
                        "for (int i = 0; i < {}; ++i) data[(thread / 4 + i / 2 * 8) * 8 + "
                        "thread % 4 * 2 + i % 2] = d[i];",
                        name, rows, sums * 8, sums),
            32, data, 3, arch),
        "");
    for (int row = 0; row < rows; ++row)
      for (int column = 0; column < 8; ++column)
        EXPECT_EQ(data[static_cast<std::size_t>(row * 8 + column)], 1 + 16 * row + column % 4)
            << name;
  }
}

TEST(Emulator, OnlyRealMatrixInstructionsOfWarpsAreParsed) {
  emu::MmaShape s;
  EXPECT_TRUE(emu::parse_mma("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", s));
  EXPECT_TRUE(s.m == 16 && s.k == 16 && s.sm == 80 && s.packed() == 2 && !s.integer());
  EXPECT_TRUE(emu::parse_mma("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32", s));
  EXPECT_TRUE(s.integer() && s.packed() == 4);
  for (const char* name : {"mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32",
                           "mma.sync.aligned.m16n8k16.row.row.f32.bf16.bf16.f32",
                           "mma.sync.aligned.m16n8k16.row.col.f32.bf16.f16.f32",
                           "mma.sync.m16n8k16.row.col.f32.bf16.bf16.f32"})
    EXPECT_FALSE(emu::parse_mma(name, s)) << name;
  EXPECT_THAT(run("float d[4] = {}; u32 a[4] = {}, b[2] = {};\n"
                  "const KilnEmuMma m{\"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32\", a, "
                  "b, d, 16, 8, 16}; kiln_emu_ops->mma(&m);",
                  32),
              "");
  EXPECT_THAT(run("float d[4] = {}; u32 a[4] = {}, b[2] = {};\n"
                  "const KilnEmuMma m{\"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32\", a, b, "
                  "d, 8, 8, 16}; kiln_emu_ops->mma(&m);",
                  32),
              HasSubstr("with operands of 8, 8 and 16 bytes"));
}

/// Every element of a matrix is held once.
template <typename Place>
void expect_covered(int rows, int columns, int lanes, int each, Place place) {
  std::vector<int> held(static_cast<std::size_t>(rows * columns));
  for (int lane = 0; lane < lanes; ++lane)
    for (int e = 0; e < each; ++e) {
      const emu::Element at = place(lane, e);
      ASSERT_TRUE(at.row >= 0 && at.row < rows && at.column >= 0 && at.column < columns);
      ++held[static_cast<std::size_t>(at.row * columns + at.column)];
    }
  for (const int n : held) EXPECT_EQ(n, 1);
}

TEST(Fragments, CoverTheirMatrices) {
  using namespace emu;
  expect_covered(8, 8, 32, 2, in_8x8);
  expect_covered(64, 128, 128, 64, in_wgmma_accumulators);
  expect_covered(16, 8, 32, 4, in_mma_accumulators);
  expect_covered(16, 16, 32, 8, [](int l, int e) { return in_mma_a(l, e, 2); });
  expect_covered(16, 8, 32, 4, [](int l, int e) { return in_mma_b(l, e, 2); });
  expect_covered(16, 32, 32, 16, [](int l, int e) { return in_mma_a(l, e, 4); });
  expect_covered(32, 8, 32, 8, [](int l, int e) { return in_mma_b(l, e, 4); });
  expect_covered(16, 8, 32, 4, [](int l, int e) { return in_mma_a(l, e, 1); });
  expect_covered(8, 8, 32, 2, [](int l, int e) { return in_mma_b(l, e, 1); });
  expect_covered(8, 4, 32, 1, [](int l, int) { return in_dmma_a(l); });
  expect_covered(4, 8, 32, 1, [](int l, int) { return in_dmma_b(l); });
  expect_covered(8, 8, 32, 2, in_dmma_accumulators);
}

TEST(Layouts, EveryTableIsWholeAndAgreesWithTheClosedForms) {
  int tables = 0;
  for (const auto& i : hip::kMfma) {
    if (i.sparse || i.scaled()) continue;
    for (const char* arch : {"gfx90a", "gfx942", "gfx950"}) {
      const std::string name = fmt::format("{}.v_{}", arch, i.mnemonic);
      if ((i.archs & hip::arch_set(arch)) == 0 || !emu::has_layout(name)) continue;
      const auto layout = emu::read_layout(name, i.mn, i.k, i.blocks);
      ASSERT_TRUE(layout) << layout.error().message;
      for (int b = 0; b < i.blocks; ++b)
        for (int row = 0; row < i.mn; ++row)
          for (int k = 0; k < i.k; ++k) {
            const auto& cell = layout->a[static_cast<std::size_t>((b * i.mn + row) * i.k + k)];
            const auto place = hip::operand_place(i, b, row, k);
            ASSERT_EQ(cell.lane, place.lane) << name;
            ASSERT_EQ(cell.bit, place.index * layout->a_bits) << name;
          }
      ++tables;
    }
  }
  EXPECT_GE(tables, 55);
}

TEST(Emulator, BytesSentToABlockCountAtItsBarrier) {
  const std::string start =
      "const u32 barrier = shared + 512;\n"
      "if (thread == 0) { mbarrier_init(barrier, 1); mbarrier_init_fence(); }\n__syncthreads();\n";
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    std::vector<float> data(64, -1.0f);
    EXPECT_EQ(run(start + "if (thread == 0) mbarrier_expect(barrier, 256);\n"
                          "send_largest(shared + thread * 4, float(thread), barrier, 0);\n"
                          "mbarrier_wait(barrier, 0);\n"
                          "data[thread] = load_largest(shared + (63 - thread) * 4);",
                  64, data, seed),
              "");
    for (int i = 0; i < 64; ++i) EXPECT_EQ(data[static_cast<std::size_t>(i)], 63 - i);
  }
  EXPECT_THAT(run(start + "send_largest(shared, 1, barrier, 1);"),
              HasSubstr("no block 1 in a cluster of 1"));
  EXPECT_THAT(run(start + "send_largest(shared + 2, 1, barrier, 0);"), HasSubstr("not aligned"));
  EXPECT_THAT(run(start + "send_largest(shared + 4096, 1, barrier, 0);"), HasSubstr("outside"));
  EXPECT_THAT(run("if (thread == 0) mbarrier_init(shared + 512, 1);\n__syncthreads();\n"
                  "send_largest(shared, 1, shared + 512, 0);"),
              HasSubstr("no fence has made visible"));
}

}  // namespace kiln::emulator_test
