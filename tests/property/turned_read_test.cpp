// ds_read_b64_tr_b16 and _b8 on the emulator, against what public compilers and simulators for
// gfx950 say of them: in 16 lanes, element n of lane l comes from the lane that brought line n of
// column l.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "generator/render/embedded.h"
#include "generator/render/emulated.h"
#include "generator/render/template.h"
#include "runtime/compiler.h"
#include "runtime/emulator/kernel.h"

namespace kiln::turned_read_test {

std::string file(std::string_view path, const TemplateValues& values) {
  for (const EmbeddedFile& f : embedded_templates())
    if (f.path == path)
      return fmt::format("\n// ---- {} ----\n{}", path, expand(f.text, values).value());
  return {};
}

/// Lane l stores 8 bytes of A at 8 · l and reads from `address`; D gets what it read.
std::string run(const char* arch, const char* instruction, const char* address,
                const std::vector<unsigned char>& in, std::vector<unsigned char>& out) {
  const TemplateValues values{{"direct", "0"},    {"priority", "0"},   {"fence", "0"},
                              {"split", "0"},     {"scales", "0"},     {"zeros", "0"},
                              {"groups", "0"},    {"row_groups", "0"}, {"scale_d", "none"},
                              {"zero_a", "none"}, {"indexed", "0"},    {"amax", "0"},
                              {"expression", ""}, {"expressed", "0"}};
  Source source;
  source.file_name = "probe.hip";
  source.text =
      "// A probe.\n" + file("cuda/common/abi.h", values) + file("hip/common/types.h", values) +
      "\n// ---- parameters ----\nconstexpr int kSharedBytes = 1024;\n" +
      file("hip/common/device.h", values) + file("hip/common/memory_gcn.h", values) +
      fmt::format(
          "\n// ---- probe ----\nextern \"C\" void kiln_gemm(KilnGpuArgs args) {{\n"
          "  const u32 lane = thread_index();\n"
          "  __builtin_memcpy(shared_bytes + lane * 8, (const u8*)args.a + lane * 8, 8);\n"
          "  block_barrier();\n"
          "  const U32x2 value = {}({});\n"
          "  __builtin_memcpy((u8*)args.d + lane * 8, &value, 8);\n}}\n",
          instruction, address);
  GpuLaunch launch;
  GpuStep step;
  step.block.x = 64;
  launch.steps.push_back(step);
  const auto exchanged = emulated(source, launch, Vendor::amd);
  if (!exchanged) return exchanged.error().message;
  const auto binary = host_compiler().value()->compile(*exchanged);
  if (!binary) return binary.error().message;
  const auto kernel = EmulatedKernel::load(binary->image, launch, caps_named(arch).value());
  if (!kernel) return kernel.error().message;
  KilnGpuArgs args{};
  args.a = in.data();
  args.d = out.data();
  const Status status = kernel->run(args, 0);
  return status ? "" : status.error().message;
}

std::vector<unsigned char> numbered() {
  std::vector<unsigned char> bytes(512);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<unsigned char>(i * 7 + i / 256 * 3);
  return bytes;
}

TEST(TurnedReads, HalfwordsComeFromEveryFourthLane) {
  const auto in = numbered();
  std::vector<unsigned char> out(512);
  ASSERT_EQ(run("gfx950", "ds_read_b64_tr_b16", "lane * 8", in, out), "");
  for (std::size_t lane = 0; lane < 64; ++lane)
    for (std::size_t n = 0; n < 4; ++n) {
      const std::size_t from = ((lane & ~std::size_t{15}) | (lane >> 2 & 3)) + 4 * n;
      EXPECT_EQ(0, std::memcmp(&out[lane * 8 + n * 2], &in[from * 8 + (lane & 3) * 2], 2))
          << lane << " " << n;
    }
}

TEST(TurnedReads, BytesComeFromEverySecondLane) {
  const auto in = numbered();
  std::vector<unsigned char> out(512);
  ASSERT_EQ(run("gfx950", "ds_read_b64_tr_b8", "lane * 8", in, out), "");
  for (std::size_t lane = 0; lane < 64; ++lane)
    for (std::size_t n = 0; n < 8; ++n) {
      const std::size_t from = ((lane & ~std::size_t{15}) | (lane >> 3 & 1)) + 2 * n;
      EXPECT_EQ(out[lane * 8 + n], in[from * 8 + (lane & 7)]) << lane << " " << n;
    }
}

TEST(TurnedReads, AreRefusedWhereTheyAreWrong) {
  const auto in = numbered();
  std::vector<unsigned char> out(512);
  EXPECT_NE(run("gfx942", "ds_read_b64_tr_b8", "lane * 8", in, out).find("gfx942 has no"),
            std::string::npos);
  EXPECT_NE(run("gfx950", "ds_read_b64_tr_b16", "lane * 8 + 4", in, out).find("not aligned"),
            std::string::npos);
  EXPECT_NE(run("gfx950", "ds_read_b64_tr_b16", "lane * 8 + 1024", in, out).find("outside"),
            std::string::npos);
}

}  // namespace kiln::turned_read_test
