#include "runtime/cpu/peak_loops.h"

#include <array>
#include <cstddef>

#include "runtime/cpu/cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kiln {
namespace {

// Two FMA units of latency 4 need 8 chains; 12, a factor and a summand fit 16 registers. Chains
// start apart, or the compiler would run one for all; their sum keeps it from dropping them.
constexpr int kChains = 12;

/// A value that the compiler cannot know: with it, a chain that starts at its fixed point is
/// constant.
template <typename T>
T hidden(double value) {
  const volatile T seen = static_cast<T>(value);
  return seen;
}

// The bodies differ in their target alone: vector types are lowered to instructions within the
// function that names them, so one body inlined in three would use the narrowest.
template <typename T>
[[gnu::noinline]] double fma_portable(std::int64_t rounds) {
  typedef T Vector __attribute__((vector_size(16)));
  Vector sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = Vector{} + T(i);
  const Vector factor = Vector{} + hidden<T>(0.999), summand = Vector{} + hidden<T>(0.001);
  for (std::int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = sums[i] * factor + summand;
  for (int i = 1; i < kChains; ++i) sums[0] += sums[i];
  return static_cast<double>(sums[0][0]);
}

#if defined(__x86_64__)
template <typename T>
[[gnu::noinline, gnu::target("avx2,fma")]] double fma_avx2(std::int64_t rounds) {
  typedef T Vector __attribute__((vector_size(32)));
  Vector sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = Vector{} + T(i);
  const Vector factor = Vector{} + hidden<T>(0.999), summand = Vector{} + hidden<T>(0.001);
  for (std::int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = sums[i] * factor + summand;
  for (int i = 1; i < kChains; ++i) sums[0] += sums[i];
  return static_cast<double>(sums[0][0]);
}

template <typename T>
[[gnu::noinline, gnu::target("avx512f")]] double fma_avx512(std::int64_t rounds) {
  typedef T Vector __attribute__((vector_size(64)));
  Vector sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = Vector{} + T(i);
  const Vector factor = Vector{} + hidden<T>(0.999), summand = Vector{} + hidden<T>(0.001);
  for (std::int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = sums[i] * factor + summand;
  for (int i = 1; i < kChains; ++i) sums[0] += sums[i];
  return static_cast<double>(sums[0][0]);
}

[[gnu::noinline, gnu::target("avx512f,avx512bf16")]] double dot_bf16(std::int64_t rounds) {
  __m512 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_ps(float(i));
  const int small = hidden<int>(0x3a003a00);  // a pair of bf16
  const auto factor = reinterpret_cast<__m512bh>(_mm512_set1_epi32(small));
  for (std::int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_dpbf16_ps(sums[i], factor, factor);
  for (int i = 1; i < kChains; ++i) sums[0] = _mm512_add_ps(sums[0], sums[i]);
  return _mm512_cvtss_f32(sums[0]);
}

[[gnu::noinline, gnu::target("avx512f,avx512vnni")]] double dot_bytes(std::int64_t rounds) {
  __m512i sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_epi32(i);
  const __m512i factor = _mm512_set1_epi32(hidden<int>(0x01010101));
  for (std::int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_dpbusd_epi32(sums[i], factor, factor);
  for (int i = 1; i < kChains; ++i) sums[0] = _mm512_add_epi32(sums[0], sums[i]);
  return double(_mm512_cvtsi512_si32(sums[0]));
}

constexpr int kTileRows = 16, kTileRowBytes = 64, kTileBytes = kTileRows * kTileRowBytes;

/// Memory image that ldtilecfg reads; see Intel's SDM, "TILECFG".
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

/// All eight tiles are 16 rows of 64 bytes.
constexpr TileConfig whole_tiles() {
  TileConfig config;
  for (int t = 0; t < 8; ++t) {
    config.row_bytes[t] = kTileRowBytes;
    config.rows[t] = kTileRows;
  }
  return config;
}

/// Two operands of dense data, which draw more power than zeros: as bytes, anything; as bf16, of
/// either sign in [0.5, 2), so that their sums stay finite.
struct alignas(64) TileOperands {
  std::array<std::uint8_t, 2 * kTileBytes> bytes{};
};

constexpr TileOperands dense_operands(bool floats) {
  TileOperands operands;
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < operands.bytes.size(); ++i) {
    state = state * 1664525 + 1013904223;
    const auto drawn = static_cast<std::uint8_t>(state >> 24);
    operands.bytes[i] = floats && i % 2 == 1 ? (drawn & 0x80) | 0x3f : drawn;
  }
  return operands;
}

// Constants in memory: GCC's intrinsics do not say what they read of it.
constexpr TileConfig kWholeTiles = whole_tiles();
constexpr TileOperands kDenseFloats = dense_operands(true), kDenseBytes = dense_operands(false);

// A product takes 16 cycles and its accumulator is ready after 52: four chains would do, and eight
// registers hold six and two operands. Intrinsics take tile numbers as literals alone.
constexpr int kTileChains = 6, kTileCycles = 16;

[[gnu::noinline, gnu::target("amx-tile,amx-bf16")]] double tiles_bf16(std::int64_t rounds) {
  _tile_loadconfig(&kWholeTiles);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_loadd(6, kDenseFloats.bytes.data(), kTileRowBytes);
  _tile_loadd(7, kDenseFloats.bytes.data() + kTileBytes, kTileRowBytes);
  for (std::int64_t r = 0; r < rounds; ++r) {
    _tile_dpbf16ps(0, 6, 7);
    _tile_dpbf16ps(1, 6, 7);
    _tile_dpbf16ps(2, 6, 7);
    _tile_dpbf16ps(3, 6, 7);
    _tile_dpbf16ps(4, 6, 7);
    _tile_dpbf16ps(5, 6, 7);
  }
  _tile_release();
  return 0;
}

[[gnu::noinline, gnu::target("amx-tile,amx-int8")]] double tiles_bytes(std::int64_t rounds) {
  _tile_loadconfig(&kWholeTiles);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_loadd(6, kDenseBytes.bytes.data(), kTileRowBytes);
  _tile_loadd(7, kDenseBytes.bytes.data() + kTileBytes, kTileRowBytes);
  for (std::int64_t r = 0; r < rounds; ++r) {
    _tile_dpbssd(0, 6, 7);
    _tile_dpbssd(1, 6, 7);
    _tile_dpbssd(2, 6, 7);
    _tile_dpbssd(3, 6, 7);
    _tile_dpbssd(4, 6, 7);
    _tile_dpbssd(5, 6, 7);
  }
  _tile_release();
  return 0;
}
#endif

/// `products`: of one instruction.
PeakLoop vector_loop(double (*run)(std::int64_t), int products) {
  return {run, products * kChains, kChains / 2};
}

template <typename T>
PeakLoop widest_fma() {
#if defined(__x86_64__)
  if (cpu_features().avx512) return vector_loop(fma_avx512<T>, 64 / int(sizeof(T)));
  if (cpu_features().avx2_fma) return vector_loop(fma_avx2<T>, 32 / int(sizeof(T)));
#endif
  return vector_loop(fma_portable<T>, 16 / int(sizeof(T)));
}

#if defined(__x86_64__)
/// Each of the 16 × 16 accumulators takes a row of one operand, `depth` elements.
PeakLoop tile_loop(double (*run)(std::int64_t), int depth) {
  return {run, kTileRows * kTileRows * depth * kTileChains, kTileCycles * kTileChains};
}
#endif

}  // namespace

PeakLoop peak_loop(DType type) {
  if (type == fp64) return widest_fma<double>();
  if (type == fp32 || type == fp16) return widest_fma<float>();
#if defined(__x86_64__)
  if (type == bf16 && cpu_features().amx_bf16) return tile_loop(tiles_bf16, 32);
  if (type == bf16 && cpu_features().avx512_bf16) return vector_loop(dot_bf16, 32);
#endif
  if (type == bf16) return widest_fma<float>();
#if defined(__x86_64__)
  const bool bytes = type == s8 || type == u8;
  if (bytes && cpu_features().amx_int8) return tile_loop(tiles_bytes, 64);
  if (bytes && cpu_features().avx512_vnni) return vector_loop(dot_bytes, 64);
#endif
  return {};
}

}  // namespace kiln
