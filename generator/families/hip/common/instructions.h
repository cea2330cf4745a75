// The matrix instructions of CDNA, one row each, and where their operands lie in the lanes of a
// wave. The table checks itself here; a test checks it against layouts that were taken from AMD's
// calculator and from hardware tests. Knows no kernels.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "kiln/dtype.hpp"

namespace kiln::hip {

/// What an instruction reads or adds up. fp8 and bf8 are E4M3 and E5M2, on gfx942 the FNUZ ones;
/// f8f6f4 stands for any of the five OCP formats, chosen by a field of the instruction.
enum class Element : std::uint8_t { f64, f32, xf32, f16, bf16, i8, i32, fp8, bf8, f8f6f4 };

using ArchSet = std::uint8_t;
inline constexpr ArchSet kGfx90a = 1, kGfx942 = 2, kGfx950 = 4;

/// The set that holds one target, 0 for a target without these instructions.
constexpr ArchSet arch_set(std::string_view arch) {
  if (arch == "gfx90a") return kGfx90a;
  if (arch == "gfx942") return kGfx942;
  if (arch == "gfx950") return kGfx950;
  return 0;
}

/// Bits of one element as an operand; of f8f6f4 the widest.
constexpr int bits_of(Element e) {
  switch (e) {
    case Element::f64:
      return 64;
    case Element::f32:
    case Element::xf32:
    case Element::i32:
      return 32;
    case Element::f16:
    case Element::bf16:
      return 16;
    default:
      return 8;
  }
}

/// `blocks` independent products of a mn × k by a k × mn matrix.
struct MfmaInstruction {
  std::string_view mnemonic;  // as the assembler of its first target prints it, after "v_"
  std::string_view builtin;   // after "__builtin_amdgcn_"
  ArchSet archs;
  Element a, b, sum;
  int mn, k, blocks;
  int cycles;           // from issue to the next one of its kind; of f8f6f4 with an 8-bit operand
  bool sparse = false;  // A holds 2 of every 4 elements along k, chosen by an index register

  constexpr int stored_k() const { return sparse ? k / 2 : k; }  // of A
  /// Elements of one lane.
  constexpr int a_per_lane() const { return mn * stored_k() * blocks / 64; }
  constexpr int b_per_lane() const { return mn * k * blocks / 64; }
  constexpr int accumulators_per_lane() const { return mn * mn * blocks / 64; }
  /// 32-bit registers of one lane.
  constexpr int a_registers() const { return (a_per_lane() * bits_of(a) + 31) / 32; }
  constexpr int b_registers() const { return (b_per_lane() * bits_of(b) + 31) / 32; }
  constexpr int accumulator_registers() const {
    return accumulators_per_lane() * bits_of(sum) / 32;
  }
  constexpr double flops() const { return 2.0 * mn * mn * k * blocks; }
  constexpr bool scaled() const { return a == Element::f8f6f4; }
  /// With operands of which the wider has so many bits: below 8, f8f6f4 takes half as long.
  constexpr int cycles_of(int bits) const { return scaled() && bits < 8 ? cycles / 2 : cycles; }
};

namespace rows {
using E = Element;
inline constexpr MfmaInstruction kMfma[] = {
    {"mfma_f32_32x32x1f32", "mfma_f32_32x32x1f32", kGfx90a, E::f32, E::f32, E::f32, 32, 1, 2, 64},
    {"mfma_f32_16x16x1f32", "mfma_f32_16x16x1f32", kGfx90a, E::f32, E::f32, E::f32, 16, 1, 4, 32},
    {"mfma_f32_4x4x1f32", "mfma_f32_4x4x1f32", kGfx90a, E::f32, E::f32, E::f32, 4, 1, 16, 8},
    {"mfma_f32_32x32x2f32", "mfma_f32_32x32x2f32", kGfx90a, E::f32, E::f32, E::f32, 32, 2, 1, 64},
    {"mfma_f32_16x16x4f32", "mfma_f32_16x16x4f32", kGfx90a, E::f32, E::f32, E::f32, 16, 4, 1, 32},
    {"mfma_f32_32x32x4f16", "mfma_f32_32x32x4f16", kGfx90a, E::f16, E::f16, E::f32, 32, 4, 2, 64},
    {"mfma_f32_16x16x4f16", "mfma_f32_16x16x4f16", kGfx90a, E::f16, E::f16, E::f32, 16, 4, 4, 32},
    {"mfma_f32_4x4x4f16", "mfma_f32_4x4x4f16", kGfx90a, E::f16, E::f16, E::f32, 4, 4, 16, 8},
    {"mfma_f32_32x32x8f16", "mfma_f32_32x32x8f16", kGfx90a, E::f16, E::f16, E::f32, 32, 8, 1, 64},
    {"mfma_f32_16x16x16f16", "mfma_f32_16x16x16f16", kGfx90a, E::f16, E::f16, E::f32, 16, 16, 1,
     32},
    {"mfma_i32_32x32x4i8", "mfma_i32_32x32x4i8", kGfx90a, E::i8, E::i8, E::i32, 32, 4, 2, 64},
    {"mfma_i32_16x16x4i8", "mfma_i32_16x16x4i8", kGfx90a, E::i8, E::i8, E::i32, 16, 4, 4, 32},
    {"mfma_i32_4x4x4i8", "mfma_i32_4x4x4i8", kGfx90a, E::i8, E::i8, E::i32, 4, 4, 16, 8},
    {"mfma_i32_32x32x8i8", "mfma_i32_32x32x8i8", kGfx90a, E::i8, E::i8, E::i32, 32, 8, 1, 64},
    {"mfma_i32_16x16x16i8", "mfma_i32_16x16x16i8", kGfx90a, E::i8, E::i8, E::i32, 16, 16, 1, 32},
    {"mfma_f32_32x32x4bf16_1k", "mfma_f32_32x32x4bf16_1k", kGfx90a, E::bf16, E::bf16, E::f32, 32, 4,
     2, 64},
    {"mfma_f32_16x16x4bf16_1k", "mfma_f32_16x16x4bf16_1k", kGfx90a, E::bf16, E::bf16, E::f32, 16, 4,
     4, 32},
    {"mfma_f32_4x4x4bf16_1k", "mfma_f32_4x4x4bf16_1k", kGfx90a, E::bf16, E::bf16, E::f32, 4, 4, 16,
     8},
    {"mfma_f32_32x32x8bf16_1k", "mfma_f32_32x32x8bf16_1k", kGfx90a, E::bf16, E::bf16, E::f32, 32, 8,
     1, 64},
    {"mfma_f32_16x16x16bf16_1k", "mfma_f32_16x16x16bf16_1k", kGfx90a, E::bf16, E::bf16, E::f32, 16,
     16, 1, 32},
    {"mfma_f32_32x32x2bf16", "mfma_f32_32x32x2bf16", kGfx90a, E::bf16, E::bf16, E::f32, 32, 2, 2,
     64},
    {"mfma_f32_16x16x2bf16", "mfma_f32_16x16x2bf16", kGfx90a, E::bf16, E::bf16, E::f32, 16, 2, 4,
     32},
    {"mfma_f32_4x4x2bf16", "mfma_f32_4x4x2bf16", kGfx90a, E::bf16, E::bf16, E::f32, 4, 2, 16, 8},
    {"mfma_f32_32x32x4bf16", "mfma_f32_32x32x4bf16", kGfx90a, E::bf16, E::bf16, E::f32, 32, 4, 1,
     64},
    {"mfma_f32_16x16x8bf16", "mfma_f32_16x16x8bf16", kGfx90a, E::bf16, E::bf16, E::f32, 16, 8, 1,
     32},
    {"mfma_f64_16x16x4f64", "mfma_f64_16x16x4f64", kGfx90a, E::f64, E::f64, E::f64, 16, 4, 1, 32},
    {"mfma_f64_4x4x4f64", "mfma_f64_4x4x4f64", kGfx90a, E::f64, E::f64, E::f64, 4, 4, 4, 16},
    {"mfma_f32_16x16x8_xf32", "mfma_f32_16x16x8_xf32", kGfx942, E::xf32, E::xf32, E::f32, 16, 8, 1,
     16},
    {"mfma_f32_32x32x4_xf32", "mfma_f32_32x32x4_xf32", kGfx942, E::xf32, E::xf32, E::f32, 32, 4, 1,
     32},
    {"mfma_f32_32x32x1_2b_f32", "mfma_f32_32x32x1f32", kGfx942 | kGfx950, E::f32, E::f32, E::f32,
     32, 1, 2, 64},
    {"mfma_f32_16x16x1_4b_f32", "mfma_f32_16x16x1f32", kGfx942 | kGfx950, E::f32, E::f32, E::f32,
     16, 1, 4, 32},
    {"mfma_f32_4x4x1_16b_f32", "mfma_f32_4x4x1f32", kGfx942 | kGfx950, E::f32, E::f32, E::f32, 4, 1,
     16, 8},
    {"mfma_f32_32x32x2_f32", "mfma_f32_32x32x2f32", kGfx942 | kGfx950, E::f32, E::f32, E::f32, 32,
     2, 1, 64},
    {"mfma_f32_16x16x4_f32", "mfma_f32_16x16x4f32", kGfx942 | kGfx950, E::f32, E::f32, E::f32, 16,
     4, 1, 32},
    {"mfma_f32_32x32x4_2b_f16", "mfma_f32_32x32x4f16", kGfx942 | kGfx950, E::f16, E::f16, E::f32,
     32, 4, 2, 64},
    {"mfma_f32_16x16x4_4b_f16", "mfma_f32_16x16x4f16", kGfx942 | kGfx950, E::f16, E::f16, E::f32,
     16, 4, 4, 32},
    {"mfma_f32_4x4x4_16b_f16", "mfma_f32_4x4x4f16", kGfx942 | kGfx950, E::f16, E::f16, E::f32, 4, 4,
     16, 8},
    {"mfma_f32_32x32x8_f16", "mfma_f32_32x32x8f16", kGfx942 | kGfx950, E::f16, E::f16, E::f32, 32,
     8, 1, 32},
    {"mfma_f32_16x16x16_f16", "mfma_f32_16x16x16f16", kGfx942 | kGfx950, E::f16, E::f16, E::f32, 16,
     16, 1, 16},
    {"mfma_i32_32x32x4_2b_i8", "mfma_i32_32x32x4i8", kGfx942 | kGfx950, E::i8, E::i8, E::i32, 32, 4,
     2, 64},
    {"mfma_i32_16x16x4_4b_i8", "mfma_i32_16x16x4i8", kGfx942 | kGfx950, E::i8, E::i8, E::i32, 16, 4,
     4, 32},
    {"mfma_i32_4x4x4_16b_i8", "mfma_i32_4x4x4i8", kGfx942 | kGfx950, E::i8, E::i8, E::i32, 4, 4, 16,
     8},
    {"mfma_i32_32x32x16_i8", "mfma_i32_32x32x16_i8", kGfx942 | kGfx950, E::i8, E::i8, E::i32, 32,
     16, 1, 32},
    {"mfma_i32_16x16x32_i8", "mfma_i32_16x16x32_i8", kGfx942 | kGfx950, E::i8, E::i8, E::i32, 16,
     32, 1, 16},
    {"mfma_f32_32x32x4_2b_bf16", "mfma_f32_32x32x4bf16_1k", kGfx942 | kGfx950, E::bf16, E::bf16,
     E::f32, 32, 4, 2, 64},
    {"mfma_f32_16x16x4_4b_bf16", "mfma_f32_16x16x4bf16_1k", kGfx942 | kGfx950, E::bf16, E::bf16,
     E::f32, 16, 4, 4, 32},
    {"mfma_f32_4x4x4_16b_bf16", "mfma_f32_4x4x4bf16_1k", kGfx942 | kGfx950, E::bf16, E::bf16,
     E::f32, 4, 4, 16, 8},
    {"mfma_f32_32x32x8_bf16", "mfma_f32_32x32x8bf16_1k", kGfx942 | kGfx950, E::bf16, E::bf16,
     E::f32, 32, 8, 1, 32},
    {"mfma_f32_16x16x16_bf16", "mfma_f32_16x16x16bf16_1k", kGfx942 | kGfx950, E::bf16, E::bf16,
     E::f32, 16, 16, 1, 16},
    {"smfmac_f32_16x16x32_f16", "smfmac_f32_16x16x32_f16", kGfx942 | kGfx950, E::f16, E::f16,
     E::f32, 16, 32, 1, 16, true},
    {"smfmac_f32_32x32x16_f16", "smfmac_f32_32x32x16_f16", kGfx942 | kGfx950, E::f16, E::f16,
     E::f32, 32, 16, 1, 32, true},
    {"smfmac_f32_16x16x32_bf16", "smfmac_f32_16x16x32_bf16", kGfx942 | kGfx950, E::bf16, E::bf16,
     E::f32, 16, 32, 1, 16, true},
    {"smfmac_f32_32x32x16_bf16", "smfmac_f32_32x32x16_bf16", kGfx942 | kGfx950, E::bf16, E::bf16,
     E::f32, 32, 16, 1, 32, true},
    {"smfmac_i32_16x16x64_i8", "smfmac_i32_16x16x64_i8", kGfx942 | kGfx950, E::i8, E::i8, E::i32,
     16, 64, 1, 16, true},
    {"smfmac_i32_32x32x32_i8", "smfmac_i32_32x32x32_i8", kGfx942 | kGfx950, E::i8, E::i8, E::i32,
     32, 32, 1, 32, true},
    {"mfma_f64_16x16x4_f64", "mfma_f64_16x16x4f64", kGfx942, E::f64, E::f64, E::f64, 16, 4, 1, 32},
    {"mfma_f64_4x4x4_4b_f64", "mfma_f64_4x4x4f64", kGfx942, E::f64, E::f64, E::f64, 4, 4, 4, 16},
    {"mfma_f32_16x16x32_bf8_bf8", "mfma_f32_16x16x32_bf8_bf8", kGfx942 | kGfx950, E::bf8, E::bf8,
     E::f32, 16, 32, 1, 16},
    {"mfma_f32_16x16x32_bf8_fp8", "mfma_f32_16x16x32_bf8_fp8", kGfx942 | kGfx950, E::bf8, E::fp8,
     E::f32, 16, 32, 1, 16},
    {"mfma_f32_16x16x32_fp8_bf8", "mfma_f32_16x16x32_fp8_bf8", kGfx942 | kGfx950, E::fp8, E::bf8,
     E::f32, 16, 32, 1, 16},
    {"mfma_f32_16x16x32_fp8_fp8", "mfma_f32_16x16x32_fp8_fp8", kGfx942 | kGfx950, E::fp8, E::fp8,
     E::f32, 16, 32, 1, 16},
    {"mfma_f32_32x32x16_bf8_bf8", "mfma_f32_32x32x16_bf8_bf8", kGfx942 | kGfx950, E::bf8, E::bf8,
     E::f32, 32, 16, 1, 32},
    {"mfma_f32_32x32x16_bf8_fp8", "mfma_f32_32x32x16_bf8_fp8", kGfx942 | kGfx950, E::bf8, E::fp8,
     E::f32, 32, 16, 1, 32},
    {"mfma_f32_32x32x16_fp8_bf8", "mfma_f32_32x32x16_fp8_bf8", kGfx942 | kGfx950, E::fp8, E::bf8,
     E::f32, 32, 16, 1, 32},
    {"mfma_f32_32x32x16_fp8_fp8", "mfma_f32_32x32x16_fp8_fp8", kGfx942 | kGfx950, E::fp8, E::fp8,
     E::f32, 32, 16, 1, 32},
    {"smfmac_f32_16x16x64_bf8_bf8", "smfmac_f32_16x16x64_bf8_bf8", kGfx942 | kGfx950, E::bf8,
     E::bf8, E::f32, 16, 64, 1, 16, true},
    {"smfmac_f32_16x16x64_bf8_fp8", "smfmac_f32_16x16x64_bf8_fp8", kGfx942 | kGfx950, E::bf8,
     E::fp8, E::f32, 16, 64, 1, 16, true},
    {"smfmac_f32_16x16x64_fp8_bf8", "smfmac_f32_16x16x64_fp8_bf8", kGfx942 | kGfx950, E::fp8,
     E::bf8, E::f32, 16, 64, 1, 16, true},
    {"smfmac_f32_16x16x64_fp8_fp8", "smfmac_f32_16x16x64_fp8_fp8", kGfx942 | kGfx950, E::fp8,
     E::fp8, E::f32, 16, 64, 1, 16, true},
    {"smfmac_f32_32x32x32_bf8_bf8", "smfmac_f32_32x32x32_bf8_bf8", kGfx942 | kGfx950, E::bf8,
     E::bf8, E::f32, 32, 32, 1, 32, true},
    {"smfmac_f32_32x32x32_bf8_fp8", "smfmac_f32_32x32x32_bf8_fp8", kGfx942 | kGfx950, E::bf8,
     E::fp8, E::f32, 32, 32, 1, 32, true},
    {"smfmac_f32_32x32x32_fp8_bf8", "smfmac_f32_32x32x32_fp8_bf8", kGfx942 | kGfx950, E::fp8,
     E::bf8, E::f32, 32, 32, 1, 32, true},
    {"smfmac_f32_32x32x32_fp8_fp8", "smfmac_f32_32x32x32_fp8_fp8", kGfx942 | kGfx950, E::fp8,
     E::fp8, E::f32, 32, 32, 1, 32, true},
    {"mfma_f32_16x16x32_f16", "mfma_f32_16x16x32_f16", kGfx950, E::f16, E::f16, E::f32, 16, 32, 1,
     16},
    {"mfma_f32_32x32x16_f16", "mfma_f32_32x32x16_f16", kGfx950, E::f16, E::f16, E::f32, 32, 16, 1,
     32},
    {"mfma_f32_16x16x32_bf16", "mfma_f32_16x16x32_bf16", kGfx950, E::bf16, E::bf16, E::f32, 16, 32,
     1, 16},
    {"mfma_f32_32x32x16_bf16", "mfma_f32_32x32x16_bf16", kGfx950, E::bf16, E::bf16, E::f32, 32, 16,
     1, 32},
    {"mfma_i32_16x16x64_i8", "mfma_i32_16x16x64_i8", kGfx950, E::i8, E::i8, E::i32, 16, 64, 1, 16},
    {"mfma_i32_32x32x32_i8", "mfma_i32_32x32x32_i8", kGfx950, E::i8, E::i8, E::i32, 32, 32, 1, 32},
    {"mfma_f64_16x16x4_f64", "mfma_f64_16x16x4f64", kGfx950, E::f64, E::f64, E::f64, 16, 4, 1, 64},
    {"mfma_scale_f32_16x16x128_f8f6f4", "mfma_scale_f32_16x16x128_f8f6f4", kGfx950, E::f8f6f4,
     E::f8f6f4, E::f32, 16, 128, 1, 32},
    {"mfma_scale_f32_32x32x64_f8f6f4", "mfma_scale_f32_32x32x64_f8f6f4", kGfx950, E::f8f6f4,
     E::f8f6f4, E::f32, 32, 64, 1, 64},
};
}  // namespace rows
using rows::kMfma;

/// Where an element lies: which lane, and which of the elements of that lane.
struct Place {
  int lane, index;
  constexpr bool operator==(const Place&) const = default;
};

/// Element (row, k) of A's block; with rows for columns also of B. In 8-bit f8f6f4 each lane holds
/// two runs of 16 k; everywhere else one run.
constexpr Place operand_place(const MfmaInstruction& i, int block, int row, int k) {
  const int groups = 64 / (i.mn * i.blocks), run = i.scaled() ? 16 : i.b_per_lane();
  const int group = k / run % groups;
  return {row + i.mn * (block + i.blocks * group), k / (run * groups) * run + k % run};
}

/// Element (row, column) of the accumulators.
constexpr Place sum_place(const MfmaInstruction& i, int block, int row, int column) {
  if (i.sum == Element::f64) {
    const int groups = 64 / (i.mn * i.blocks);  // neighbouring rows lie in neighbouring groups
    return {column + i.mn * (block + i.blocks * (row % groups)), row / groups};
  }
  if (i.mn == 4) return {column + 4 * block, row};
  const int groups = 64 / i.mn, of_block = i.accumulators_per_lane() / i.blocks;
  const int quad = row / 4;
  return {column + i.mn * (quad % groups), block * of_block + quad / groups * 4 + row % 4};
}

// The table checks itself: lanes and registers hold exactly the matrices, and the arithmetic that
// an instruction does in a cycle is one of the rates that the compute units have.
static_assert([] {
  for (const auto& i : kMfma) {
    if (i.mn != 4 && i.mn != 16 && i.mn != 32) return false;
    if (i.b_per_lane() * 64 != i.mn * i.k * i.blocks || i.accumulators_per_lane() < 1) return false;
    if (i.a_registers() > 8 || i.accumulator_registers() > 32 || i.cycles % 4 != 0) return false;
    const double rate = i.flops() / i.cycles;
    if (rate < 32 || rate > 2048 || i.archs == 0) return false;
    if ((i.sum == Element::i32) != (i.a == Element::i8)) return false;
  }
  return true;
}());

/// The element that a type is on a target; false when the target cannot read it.
constexpr bool element_for(ArchSet arch, DType type, Element& out) {
  switch (type) {
    case DType::fp64:
      out = Element::f64;
      return true;
    case DType::fp32:
      out = Element::f32;
      return true;
    case DType::tf32:
      out = Element::xf32;
      return arch == kGfx942;
    case DType::fp16:
      out = Element::f16;
      return true;
    case DType::bf16:
      out = Element::bf16;
      return true;
    case DType::s8:
      out = Element::i8;
      return true;
    case DType::fp8_e4m3fnuz:
      out = Element::fp8;
      return arch == kGfx942;
    case DType::fp8_e5m2fnuz:
      out = Element::bf8;
      return arch == kGfx942;
    case DType::fp8_e4m3:
      out = Element::fp8;
      return arch == kGfx950;
    case DType::fp8_e5m2:
      out = Element::bf8;
      return arch == kGfx950;
    default:
      return false;
  }
}

/// True when the instruction reads A of this element: f8f6f4 reads both 8-bit ones.
constexpr bool reads(Element operand, Element wanted) {
  return operand == wanted ||
         (operand == Element::f8f6f4 && (wanted == Element::fp8 || wanted == Element::bf8));
}

/// The dense instruction of one block that multiplies a by b with mn rows and this k.
constexpr const MfmaInstruction* mfma_for(std::string_view arch, DType a, DType b, int mn, int k) {
  const ArchSet set = arch_set(arch);
  Element ea{}, eb{};
  if (set == 0 || !element_for(set, a, ea) || !element_for(set, b, eb)) return nullptr;
  for (const auto& i : kMfma)
    if ((i.archs & set) != 0 && reads(i.a, ea) && reads(i.b, eb) && i.mn == mn && i.k == k &&
        i.blocks == 1 && !i.sparse)
      return &i;
  return nullptr;
}

}  // namespace kiln::hip
