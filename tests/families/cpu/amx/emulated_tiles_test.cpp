// host_amx on machines without AMX: its rendered code, with the tile registers in memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "generator/problem/gemm_types.h"
#include "generator/render/render.h"
#include "generator/space/space.h"
#include "runtime/cpu/cpu.h"
#include "support/host_compiler.h"
#include "support/random_gemm.h"
#include "tuner/measure/bound_kernel.h"
#include "tuner/verify/verify.h"

namespace kiln::emulated_tiles_test {

/// What stands in place of templates/cpu/amx/amx.h. `LeftByte` and `RightByte` are its operands'
/// signs.
constexpr std::string_view kTiles = R"(
constexpr int kTileRows = 16;
constexpr int kTileBytes = 64;
static thread_local unsigned char g_tiles[8][kTileRows][kTileBytes];
struct TileSession {
  ~TileSession() {}
};
template <int T>
KILN_INLINE void tile_zero() {
  __builtin_memset(g_tiles[T], 0, sizeof g_tiles[T]);
}
template <int T>
KILN_INLINE void tile_load(const void* from, i64 row_bytes) {
  for (int r = 0; r < kTileRows; ++r)
    __builtin_memcpy(g_tiles[T][r], static_cast<const char*>(from) + r * row_bytes, kTileBytes);
}
template <int T>
KILN_INLINE void tile_store(void* to, i64 row_bytes) {
  for (int r = 0; r < kTileRows; ++r)
    __builtin_memcpy(static_cast<char*>(to) + r * row_bytes, g_tiles[T][r], kTileBytes);
}
template <typename T>
KILN_INLINE T element(const unsigned char* tile_row, int index) {
  T value;
  __builtin_memcpy(&value, tile_row + index * int(sizeof value), sizeof value);
  return value;
}
KILN_INLINE Acc product(const unsigned char* left, const unsigned char* right) {
  if constexpr (kGroup == 4) {
    Acc sum = 0;
    for (int i = 0; i < 4; ++i)
      sum += Acc(element<LeftByte>(left, i)) * Acc(element<RightByte>(right, i));
    return sum;
  } else {
    Acc sum = 0;
    for (int i = 0; i < 2; ++i)
      sum += bits_of<float>(u32(element<u16>(left, i)) << 16) *
             bits_of<float>(u32(element<u16>(right, i)) << 16);
    return sum;
  }
}
template <int Sum, int Left, int Right>
KILN_INLINE void tile_dot() {
  for (int m = 0; m < kTileRows; ++m)
    for (int n = 0; n < kTileBytes / 4; ++n) {
      Acc sum = element<Acc>(g_tiles[Sum][m], n);
      for (int k = 0; k < kTileBytes / 4; ++k)
        sum += product(g_tiles[Left][m] + 4 * k, g_tiles[Right][k] + 4 * n);
      __builtin_memcpy(g_tiles[Sum][m] + 4 * n, &sum, sizeof sum);
    }
}
)";

Result<Source> emulated(const Gemm& gemm, const DeviceCaps& device, const HostAmx& config) {
  auto source = render(gemm, device, config);
  if (!source) return source;
  const auto begin = source->text.find("// ---- cpu/amx/amx.h ----");
  const auto end = source->text.find("// ---- cpu/amx/tile.h ----");
  if (begin == std::string::npos || end == std::string::npos)
    return fail(ErrorCode::internal, "no section of amx.h");
  const Gemm canonical = canonicalise(gemm).gemm;
  const auto byte = [](DType type) { return type == u8 ? "u8" : "i8"; };
  const DType left = config.swap ? canonical.b.dtype : canonical.a.dtype;
  const DType right = config.swap ? canonical.a.dtype : canonical.b.dtype;
  source->text.replace(begin, end - begin,
                       std::string("using LeftByte = ") + byte(left) +
                           ";\nusing RightByte = " + byte(right) + ";\n" + std::string(kTiles));
  return source;
}

/// Some configs of the family, drawn.
std::vector<HostAmx> configs(const Gemm& gemm, const DeviceCaps& device, test::RandomGemm& random,
                             std::size_t count) {
  std::vector<HostAmx> all, drawn;
  const auto space = space_for(gemm, device);
  if (!space) return {};
  for (const Config& config : space->legal)
    if (const auto* amx = std::get_if<HostAmx>(&config)) all.push_back(*amx);
  while (!all.empty() && drawn.size() < count) drawn.push_back(all[random.below(all.size())]);
  return drawn;
}

class EmulatedTiles : public testing::TestWithParam<int> {};

TEST_P(EmulatedTiles, AreRightForEveryProblem) {
  const CpuFeatures here = detect_cpu().value().cpu;
  if (!here.avx512 || !here.avx512_bf16 || !here.avx512_vnni)
    GTEST_SKIP() << "the rest of the code needs AVX-512 with BF16 and VNNI";
  DeviceCaps device = cpu_caps_named("amx").value();
  test::RandomGemm random(static_cast<std::uint64_t>(GetParam()), 150);
  int kernels = 0;
  for (const TypeRow& row : kCpuTypeRows) {
    Gemm gemm = random.next(row);
    if (gemm.d.order == Order::row_major && random.one_in(2)) gemm.b_packed = true;
    device.compute_units = 1 + static_cast<int>(random.below(2));
    for (const HostAmx& config : configs(gemm, device, random, 2)) {
      const std::string what = text(gemm) + ", " + text(Config(config));
      const auto source = emulated(gemm, device, config);
      ASSERT_TRUE(source) << what << ": " << source.error().message;
      const auto binary = test::compiler().compile(*source);
      ASSERT_TRUE(binary) << what << ": " << binary.error().message;
      BoundKernel kernel(HostKernel::load(binary->image).value(), config, gemm, device);
      const Verdict verdict = verify(
          gemm, [&](const Operands& operands) { return kernel.run(operands); }, {},
          flushed_by(gemm, device, config));
      EXPECT_TRUE(verdict) << what << ": " << verdict.error().detail;
      ++kernels;
    }
  }
  EXPECT_GE(kernels, 4);
}
INSTANTIATE_TEST_SUITE_P(Seeds, EmulatedTiles, testing::Range(1, 6));

}  // namespace kiln::emulated_tiles_test
