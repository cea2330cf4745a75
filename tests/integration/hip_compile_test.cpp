// Generated HIP kernels through the compilers: what is made, what it needs, how failures look. No
// GPU.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "generator/families/hip/mfma/config.h"
#include "generator/families/hip/mfma/sizes.h"
#include "generator/families/hip/mx/config.h"
#include "generator/families/hip/simt/config.h"
#include "generator/render/code_key.h"
#include "runtime/hip/code_object.h"
#include "runtime/hip/compilers.h"
#include "runtime/hip/isa_counts.h"
#include "support/hip.h"
#include "support/host_compiler.h"
#include "support/proofs.h"

namespace kiln::hip::hip_compile_test {

using test::problem;
using test::ranked;
using testing::HasSubstr;

Compiler& clang() {
  const auto opened = clang_compiler();
  if (!opened) {
    ADD_FAILURE() << opened.error().message;
    std::abort();
  }
  return **opened;
}

Source rendered(const Gemm& gemm, const DeviceCaps& device, const Config& config) {
  const auto source = render(Problem::of(gemm).value(), device, config);
  EXPECT_TRUE(source) << source.error().message;
  return source.value_or(Source{});
}

/// What is wrong with a compiled kernel.
class Complaints {
 public:
  template <typename... T>
  void add(fmt::format_string<T...> what, T&&... values) {
    text_ += fmt::format(what, std::forward<T>(values)...) + "; ";
  }
  template <typename... T>
  void check(bool right, fmt::format_string<T...> what, T&&... values) {
    if (!right) add(what, std::forward<T>(values)...);
  }
  void check_resources(const ResourceReport& needs) {
    check(needs.spills == 0 && needs.stack_bytes == 0, "{} bytes spilled, {} bytes of stack",
          needs.spills, needs.stack_bytes);
  }
  /// The loop of products: nothing spilled, fewer than `most` other instructions for each, and
  /// `instruction` somewhere in the code.
  void check_main_loop(const Source& source, double most, std::string_view instruction) {
    const auto assembly = clang().assembly(source);
    if (!assembly) return add("{}", assembly.error().message);
    check(assembly->find(instruction) != std::string::npos, "no {}", instruction);
    const auto loops = count_loops(*assembly);
    const LoopCounts* loop = main_loop(loops);
    if (loop == nullptr) return add("no main loop");
    check(loop->counts.others_per_matrix() < most, "{:.2f} other instructions a product",
          loop->counts.others_per_matrix());
    check(loop->counts.spills == 0, "{} spills in the main loop", loop->counts.spills);
  }
  /// Every access of memory is one of global or of shared memory. A generic one (FLAT) is counted
  /// as both, so that a wait for either waits for it.
  void check_no_flat(const Source& source) {
    const auto assembly = clang().assembly(source);
    if (!assembly) return add("{}", assembly.error().message);
    for (const std::string_view access : {"flat_load", "flat_store", "flat_atomic"})
      check(assembly->find(access) == std::string::npos, "{}", access);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// What `check` has to say of the code that `source` becomes; kept by its tokens.
std::string proof_of(const Source& source, const std::function<void(Complaints&)>& check) {
  return test::proof(code_key(source) + clang().version(), [&] {
    Complaints wrong;
    check(wrong);
    return wrong.text();
  });
}

struct Favourite {
  const char* device;
  const char* line;
};
std::ostream& operator<<(std::ostream& out, const Favourite& f) {
  return out << f.device << ": " << f.line;
}

class ModelsFavourites : public testing::TestWithParam<Favourite> {};

/// What an untried device would run first must not spill, and its main loop must be mostly
/// products.
TEST_P(ModelsFavourites, DoNotSpill) {
  const DeviceCaps device = hip_caps_named(GetParam().device).value();
  const Gemm gemm = problem(GetParam().line);
  const auto configs = ranked<HipMfma>(gemm, device);
  ASSERT_GE(configs.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const Source source = rendered(gemm, device, configs[i]);
    const auto& c = configs[i].as<HipMfma>();
    // While a 16-cycle product runs, two other instructions of the same wave can issue.
    const double most = mfma_sizes(Problem::of(gemm).value(), device, c).instruction->cycles / 8;
    const auto check = [&](Complaints& wrong) {
      const auto binary = clang().compile(source);
      if (!binary) return wrong.add("{}", binary.error().message);
      const auto object = read_code_object(binary->image);
      if (!object) return wrong.add("{}", object.error().message);
      if (object->kernels.size() != 1) return wrong.add("{} kernels", object->kernels.size());
      wrong.check(object->kernels[0].name == "kiln_gemm", "{}", object->kernels[0].name);
      wrong.check(object->target.find(device.arch) != std::string::npos, "{}", object->target);
      wrong.check(occupancy(object->kernels[0], device, 64 * c.waves_m * c.waves_n) >= 1,
                  "no block fits");
      wrong.check_resources(binary->resources);
      wrong.check_main_loop(source, most, "");
    };
    EXPECT_EQ(proof_of(source, check), "") << text(configs[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Squares, ModelsFavourites,
                         testing::Values(Favourite{"gfx90a", "bf16 N T 8192 8192 8192 align=16"},
                                         Favourite{"gfx942", "bf16 N T 8192 8192 8192 align=16"},
                                         Favourite{"gfx942", "fp8fnuz N T 8192 8192 8192 align=16"},
                                         Favourite{"gfx950", "bf16 N T 8192 8192 8192 align=16"},
                                         Favourite{"gfx950", "fp8 N T 8192 8192 8192 align=16"}));

class ListFavourites : public testing::TestWithParam<Favourite> {};

/// Loads of single elements, where lines end anywhere, must not cost the main loop its registers.
TEST_P(ListFavourites, DoNotSpill) {
  const DeviceCaps device = hip_caps_named(GetParam().device).value();
  const Gemm gemm = problem(GetParam().line);
  const auto configs = ranked<HipMfma>(gemm, device);
  ASSERT_GE(configs.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const Source source = rendered(gemm, device, configs[i]);
    const std::size_t kernels = gemm.grouping() == Grouping::list ? 2 : 1;
    const auto check = [&](Complaints& wrong) {
      const auto binary = clang().compile(source);
      if (!binary) return wrong.add("{}", binary.error().message);
      const auto object = read_code_object(binary->image);
      if (!object) return wrong.add("{}", object.error().message);
      wrong.check(object->kernels.size() == kernels, "{} kernels", object->kernels.size());
      for (const KernelResources& kernel : object->kernels)
        wrong.check(kernel.vector_spills == 0 && kernel.private_bytes == 0,
                    "{}: {} vector registers spilled, {} private bytes", kernel.name,
                    kernel.vector_spills, kernel.private_bytes);
      wrong.check_no_flat(source);
    };
    EXPECT_EQ(proof_of(source, check), "") << text(configs[i]);
  }
}

/// The pointers of a list come from memory: of those the compiler must be told what they point to.
TEST(HipCompile, KernelsOfListsAccessGlobalMemory) {
  for (const char* const arch : {"gfx90a", "gfx942", "gfx950"})
    for (const char* const line :
         {"fp32 N T 64 96 128 groups=4 grouped=list epilogue=bias_col+residual",
          "bf16 N N 64 96 128 groups=4 grouped=list epilogue=bias_row",
          "int8 N T 64 96 128 groups=4 grouped=list out=fp32 scale=line",
          "fp8 N T 64 96 128 groups=4 grouped=list scale=1x128:128x128"}) {
      const DeviceCaps device = hip_caps_named(arch).value();
      const Gemm gemm = problem(line);
      std::vector<Config> configs = ranked<HipSimt>(gemm, device);
      if (configs.size() > 1) configs.resize(1);
      if (const auto matrix = ranked<HipMfma>(gemm, device); !matrix.empty())
        configs.push_back(matrix.front());
      ASSERT_FALSE(configs.empty()) << arch << ": " << line;
      for (const Config& config : configs) {
        const Source source = rendered(gemm, device, config);
        const auto check = [&](Complaints& wrong) { wrong.check_no_flat(source); };
        EXPECT_EQ(proof_of(source, check), "") << arch << ": " << line << ": " << text(config);
      }
    }
}
INSTANTIATE_TEST_SUITE_P(
    Parts, ListFavourites,
    testing::Values(Favourite{"gfx90a", "bf16 N T 2048 4096 7168 groups=16 grouped=list align=16"},
                    Favourite{"gfx942", "bf16 N T 2048 4096 7168 groups=16 grouped=list align=16"},
                    Favourite{"gfx942", "bf16 T N 2048 4096 7168 groups=16 grouped=list align=16"},
                    Favourite{"gfx950", "bf16 T N 2048 4096 7168 groups=16 grouped=list align=16"},
                    Favourite{"gfx950", "fp8 N T 2048 4096 7168 groups=16 grouped=list align=16"},
                    Favourite{"gfx942", "bf16 T N 7168 2048 32768 groups=32 grouped=k align=16"},
                    Favourite{"gfx942", "bf16 N T 7168 2048 32768 groups=32 grouped=k align=16"}));

class MxFavourites : public testing::TestWithParam<const char*> {};

/// The same of kernels on microscaled blocks.
TEST_P(MxFavourites, DoNotSpill) {
  const DeviceCaps device = hip_caps_named("gfx950").value();
  const Gemm gemm = problem(GetParam());
  const auto configs = ranked<HipMx>(gemm, device);
  ASSERT_GE(configs.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const Source source = rendered(gemm, device, configs[i]);
    // A product of the larger instruction runs for 64 cycles, of the smaller for half of that.
    const double most = configs[i].as<HipMx>().rows == 16 ? 8 : 12;
    const auto check = [&](Complaints& wrong) {
      const auto binary = clang().compile(source);
      if (!binary) return wrong.add("{}", binary.error().message);
      wrong.check_resources(binary->resources);
      wrong.check_main_loop(source, most, "v_mfma_scale_f32_");
    };
    EXPECT_EQ(proof_of(source, check), "") << text(configs[i]);
  }
}
INSTANTIATE_TEST_SUITE_P(Squares, MxFavourites,
                         testing::Values("fp8 N T 8192 8192 8192 align=16 scale=mx32",
                                         "fp6 N T 8192 8192 8192 align=16 scale=mx32",
                                         "fp4 N T 8192 8192 8192 align=16 scale=mx32",
                                         "e4m3e2m1 N T 8192 8192 8192 align=16 scale=mx32"));

/// Configs drawn from the space, over types, layouts, raggedness and epilogues: all compile.
TEST(HipCompile, SampledConfigsCompile) {
  std::mt19937 random(20241);
  const char* lines[] = {"bf16 N N 512 512 512 align=16",
                         "bf16 T N 300 200 100 epilogue=bias_col+gelu+residual align=8",
                         "fp16 T T 1023 777 555 epilogue=bias_row+silu",
                         "fp32 N T 256 256 256 batch=3 align=16",
                         "fp64 T N 200 120 64 epilogue=gelu_erf",
                         "int8 N T 512 512 512 out=s32 align=16",
                         "int8 T N 129 65 33 out=s8 epilogue=bias_col+relu",
                         "tf32 N N 256 512 1024 align=16",
                         "fp8 N T 512 512 512 align=16",
                         "e4m3e5m2 N N 384 256 512 epilogue=gelu_erf align=16",
                         "fp8fnuz N T 512 512 512 align=16",
                         "e5m2e4m3fnuz T T 100 120 140",
                         "u8s8 N N 100 100 100",
                         "bf16 N T 64 64 16384 align=16",
                         "bf16 T N 300 200 100 groups=3 grouped=list align=16",
                         "int8 N T 512 512 512 groups=4 grouped=k out=s32 align=16"};
  int compiled = 0;
  for (const char* name : {"gfx90a", "gfx942", "gfx950"})
    for (const char* line : lines) {
      const DeviceCaps device = hip_caps_named(name).value();
      const Gemm gemm = problem(line);
      const auto space = space_for(Problem::of(gemm).value(), device);
      ASSERT_TRUE(space) << space.error().message;
      const Config& config = space->legal[random() % space->legal.size()];
      const Source source = rendered(gemm, device, config);
      const auto check = [&](Complaints& wrong) {
        const auto binary = clang().compile(source);
        if (!binary) return wrong.add("{}", binary.error().message);
        wrong.check(binary->log.empty(), "{}", binary->log);
      };
      EXPECT_EQ(proof_of(source, check), "") << name << " " << line << "\n" << text(config);
      ++compiled;
    }
  EXPECT_EQ(compiled, 48);
}

TEST(HipCompile, PlainKernelsCompileForRdnaToo) {
  for (const char* name : {"gfx1100", "gfx1200"}) {
    const DeviceCaps device = hip_caps_named(name).value();
    for (const char* line : {"fp32 N N 200 200 200", "bf16 T N 99 98 97", "int8 N N 64 64 64",
                             "fp16 N T 50 60 70 epilogue=silu", "fp64 T T 31 33 35",
                             "fp8 N N 40 50 60", "e5m2e4m3fnuz T N 20 30 40"}) {
      const auto binary = clang().compile(rendered(problem(line), device, HipSimt{}));
      ASSERT_TRUE(binary) << name << " " << line << ": " << binary.error().message;
      EXPECT_EQ(binary->resources.spills, 0) << name << " " << line;
    }
  }
}

TEST(HipCompile, ErrorsComeBackAsText) {
  Source source;
  source.text = "extern \"C\" __attribute__((global)) void k() { nonsense(); }";
  source.file_name = "broken.hip";
  source.flags = {"--offload-arch=gfx942", "-O3"};
  const auto binary = clang().compile(source);
  ASSERT_FALSE(binary);
  EXPECT_EQ(binary.error().code, ErrorCode::compiler);
  EXPECT_THAT(binary.error().message, HasSubstr("nonsense"));
  source.text =
      "extern \"C\" __attribute__((device)) void gone();"
      "extern \"C\" __attribute__((global)) void k() { gone(); }";
  const auto unlinked = clang().compile(source);
  ASSERT_FALSE(unlinked);
  EXPECT_THAT(unlinked.error().message, HasSubstr("gone"));
  source.flags[0] = "--offload-arch=gfx12345";
  EXPECT_FALSE(clang().compile(source));
  test::expect_still_works(41);
}

TEST(CodeObject, RubbishIsNamed) {
  for (const std::size_t size : {0, 10, 64, 4096}) {
    const std::vector<std::byte> bytes(size, std::byte{0x7f});
    const auto object = read_code_object(bytes);
    ASSERT_FALSE(object);
    EXPECT_EQ(object.error().code, ErrorCode::compiler);
  }
  auto image = clang()
                   .compile(rendered(problem("fp32 N N 64 64 64"), hip_caps_named("gfx942").value(),
                                     HipSimt{}))
                   .value()
                   .image;
  // Cut or changed anywhere: a value or an error, never a read beyond the end.
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    auto copy = image;
    if (i % 2 == 0) copy.resize(random() % copy.size());
    for (int flips = 0; flips < 4 && !copy.empty(); ++flips)
      copy[random() % std::min<std::size_t>(copy.size(), i % 3 == 0 ? 64 : copy.size())] =
          std::byte(random() & 0xff);
    static_cast<void>(read_code_object(copy));
  }
  image[18] = std::byte{62};  // another machine
  EXPECT_THAT(read_code_object(image).error().message, HasSubstr("machine = 62"));
}

TEST(CodeObject, OccupancyFollowsTheScarcestResource) {
  const DeviceCaps device = hip_caps_named("gfx942").value();
  KernelResources k;
  k.vector_registers = 64;
  EXPECT_EQ(occupancy(k, device, 256), 8);
  k.vector_registers = 128;
  EXPECT_EQ(occupancy(k, device, 256), 4);
  k.vector_registers = 257;
  EXPECT_EQ(occupancy(k, device, 256), 1);
  EXPECT_EQ(occupancy(k, device, 512), 0) << "two waves of a block need half the file each";
  k.vector_registers = 64;
  k.shared_bytes = 33 << 10;
  EXPECT_EQ(occupancy(k, device, 256), 1);
  EXPECT_EQ(resident_blocks(k, device, 128), 1) << "which leaves two SIMDs idle";
  EXPECT_EQ(occupancy(k, device, 128), 1);
  k.shared_bytes = 16 << 10;
  EXPECT_EQ(occupancy(k, device, 256), 4);
  EXPECT_EQ(resident_blocks(k, device, 256), 4);
}

TEST(IsaCounts, LoopsAreCountedFromLabelToBranch) {
  const char* text =
      "\t.text\nk:                ; @k\n\ts_load_dwordx4 s[0:3], s[0:1], 0x0\n.LBB0_1: ; loop\n"
      "\tds_read_b128 v[0:3], v4\n\tds_write_b128 v4, v[0:3]\n"
      "\tv_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3]\n"
      "\tbuffer_load_dwordx4 v[0:3], v1, s[0:3], 0 offen\n\ts_waitcnt vmcnt(0)\n\ts_barrier\n"
      "\tv_add_u32_e32 v1, 1, v1\n\ts_cmp_eq_u32 s0, 0\n\ts_cbranch_scc0 .LBB0_1\n; %bb.2:\n"
      "\tglobal_store_dword v0, v1, s[0:1]\n\ts_endpgm\n";
  const auto loops = count_loops(text);
  ASSERT_EQ(loops.size(), 1u);
  EXPECT_EQ(loops[0].label, ".LBB0_1");
  const InstructionCounts expected{.total = 9,
                                   .matrix = 1,
                                   .shared_reads = 1,
                                   .shared_writes = 1,
                                   .memory_loads = 1,
                                   .vector = 1,
                                   .scalar = 2,
                                   .waits = 1,
                                   .barriers = 1};
  EXPECT_EQ(loops[0].counts, expected);
  EXPECT_EQ(main_loop(loops), &loops[0]);
  EXPECT_EQ(loops[0].counts.others_per_matrix(), 8);
  EXPECT_EQ(main_loop({}), nullptr);
}

class Hiprtc : public testing::Test {
 protected:
  void SetUp() override {
    const auto opened = hiprtc_compiler();
    ASSERT_TRUE(opened) << opened.error().message;
    compiler = *opened;
  }
  Compiler* compiler = nullptr;
};

TEST_F(Hiprtc, CompilesForATargetItKnows) {
  EXPECT_THAT(compiler->version(), HasSubstr("hipRTC "));
  const DeviceCaps device = hip_caps_named("gfx90a").value();
  for (const char* line : {"bf16 N T 512 512 512 align=16", "fp16 T N 100 90 80 epilogue=gelu_erf",
                           "int8 N T 256 256 256 align=16", "fp64 N N 128 128 128",
                           "bf16 N T 512 512 512 groups=3 grouped=list align=16"}) {
    const Gemm gemm = problem(line);
    const auto configs = ranked<HipMfma>(gemm, device);
    ASSERT_FALSE(configs.empty());
    for (const Config& config : {configs[0], Config(HipSimt{})}) {
      const auto binary = compiler->compile(rendered(gemm, device, config));
      ASSERT_TRUE(binary) << text(config) << "\n" << binary.error().message;
      EXPECT_GT(binary->resources.registers, 0);
      EXPECT_GT(binary->resources.code_bytes, 500);
    }
  }
}

TEST_F(Hiprtc, TargetsItDoesNotKnowCostNoProcess) {
  const DeviceCaps device = hip_caps_named("gfx950").value();
  const auto binary = compiler->compile(rendered(problem("fp32 N N 64 64 64"), device, HipSimt{}));
  if (binary) return;  // a newer hipRTC
  EXPECT_EQ(binary.error().code, ErrorCode::compiler);
  EXPECT_FALSE(binary.error().message.empty());
}

TEST_F(Hiprtc, DiagnosticsComeBack) {
  Source source;
  source.text = "extern \"C\" __global__ void k() { nonsense(); }";
  source.file_name = "broken.hip";
  source.flags = {"--offload-arch=gfx90a"};
  const auto binary = compiler->compile(source);
  ASSERT_FALSE(binary);
  EXPECT_THAT(binary.error().message, HasSubstr("nonsense"));
  EXPECT_FALSE(compiler->assembly(source));
}

}  // namespace kiln::hip::hip_compile_test
