// The multiply-accumulate instructions that host kernels are built on, one row each. A new
// instruction set is a new row here and a `//% if` in templates/cpu/common/vector.h.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "generator/families/cpu/common/choices.h"
#include "generator/problem/device_caps.h"
#include "kiln/dtype.hpp"

namespace kiln {

/// What one lane of a packed panel holds; `Unit` of templates/cpu/common/vector.h.
enum class Kind : std::uint8_t { f32, f64, bf16, vnni, s16, s32 };

struct DotInstruction {
  Isa isa;
  Kind kind;
  std::string_view name;     // the instruction, as its manual calls it
  int vector_bytes;          // of the accumulator
  int acc_bytes;             // of one accumulated element
  int group;                 // k covered by one lane
  int input_bytes;           // of one element of a lane's unit
  bool CpuFeatures::*needs;  // null: part of the instruction set itself
  /// Takes denormal inputs for zero and returns zero for denormal results, whatever MXCSR says
  /// (Intel's manual, VDPBF16PS and TDPBF16PS). All other rows keep denormals. vcvtneps2bf16
  /// flushes as well; kernels do not use it, they convert by integer arithmetic.
  bool flushes = false;
};

inline constexpr std::array<DotInstruction, 13> kDotInstructions{{
    {Isa::amx, Kind::bf16, "tdpbf16ps", 64, 4, 2, 2, &CpuFeatures::amx_bf16, true},
    {Isa::amx, Kind::vnni, "tdpbssd", 64, 4, 4, 1, &CpuFeatures::amx_int8},
    {Isa::avx512, Kind::bf16, "vdpbf16ps", 64, 4, 2, 2, &CpuFeatures::avx512_bf16, true},
    {Isa::avx512, Kind::vnni, "vpdpbusd", 64, 4, 4, 1, &CpuFeatures::avx512_vnni},
    {Isa::avx512, Kind::s16, "vpmaddwd", 64, 4, 2, 2, nullptr},
    {Isa::avx512, Kind::f32, "vfmadd231ps", 64, 4, 1, 4, nullptr},
    {Isa::avx512, Kind::f64, "vfmadd231pd", 64, 8, 1, 8, nullptr},
    {Isa::avx2, Kind::s16, "vpmaddwd", 32, 4, 2, 2, nullptr},
    {Isa::avx2, Kind::f32, "vfmadd231ps", 32, 4, 1, 4, nullptr},
    {Isa::avx2, Kind::f64, "vfmadd231pd", 32, 8, 1, 8, nullptr},
    {Isa::portable, Kind::s32, "multiply, add", 16, 4, 1, 4, nullptr},
    {Isa::portable, Kind::f32, "multiply, add", 16, 4, 1, 4, nullptr},
    {Isa::portable, Kind::f64, "multiply, add", 16, 8, 1, 8, nullptr},
}};

/// Types that host kernels read as fp32.
constexpr bool widens_to_f32(DType t) { return t == fp32 || t == fp16 || t == bf16; }

constexpr bool computes(Kind kind, DType a, DType b) {
  const auto byte = [](DType t) { return t == s8 || t == u8; };
  const bool bytes = byte(a) && byte(b);
  switch (kind) {
    case Kind::f32:
      return widens_to_f32(a) && widens_to_f32(b);
    case Kind::f64:
      return a == fp64 && b == fp64;
    case Kind::bf16:
      return a == bf16 && b == bf16;
    case Kind::vnni:
    case Kind::s16:
    case Kind::s32:
      return bytes;
  }
  return false;
}

/// The row that computes a·b with `isa` on `cpu`: the first, since rows stand best first.
constexpr const DotInstruction* dot_instruction(Isa isa, const CpuFeatures& cpu, DType a, DType b) {
  for (const auto& row : kDotInstructions)
    if (row.isa == isa && computes(row.kind, a, b) && (row.needs == nullptr || cpu.*(row.needs)))
      return &row;
  return nullptr;
}

/// The row that computes a·b as fp32 with `isa`: of bf16 the alternative to instructions that take
/// pairs. Null where the types are no smaller floats.
constexpr const DotInstruction* widening_instruction(Isa isa, DType a, DType b) {
  for (const auto& row : kDotInstructions)
    if (row.isa == isa && row.kind == Kind::f32 && computes(row.kind, a, b)) return &row;
  return nullptr;
}

// The table checks itself: a lane's unit and its accumulator have one width.
static_assert([] {
  for (const auto& row : kDotInstructions)
    if (row.group * row.input_bytes != row.acc_bytes || row.vector_bytes % row.acc_bytes != 0)
      return false;
  return true;
}());

constexpr std::string_view name(Kind kind) {
  switch (kind) {
    case Kind::f32:
      return "f32";
    case Kind::f64:
      return "f64";
    case Kind::bf16:
      return "bf16";
    case Kind::vnni:
      return "vnni";
    case Kind::s16:
      return "s16";
    case Kind::s32:
      return "s32";
  }
  return "";
}

}  // namespace kiln
