// What the CUDA families share: names of types, epilogue values, tensor maps and small arithmetic.
#pragma once

#include <cstdint>
#include <string>

#include "generator/family.h"

namespace kiln::cuda {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t to) { return ceil_div(a, to) * to; }

/// The values and constants that templates/cuda/convert.h and epilogue.h expect.
/// Scales of whole lines, or none: what any epilogue can apply.
bool only_line_scales(const Gemm& gemm);

void add_common(Parameters& to, const Canonical& problem, const DeviceCaps& device);

Constant number(std::string name, std::int64_t value, std::string gloss);
Constant flag(std::string name, bool value, std::string gloss);
std::string value_of(bool b);

/// Sums are integers and D takes them as they are, unless alpha or beta say otherwise.
bool integer_d(const Canonical& problem);

/// Legal for every valid problem on every NVIDIA device.
Config simt_fallback(const Canonical& problem);

/// Where a repacked operand lies in the workspace: lines `pitch` bytes apart, batches `stride`
/// bytes apart.
struct Packed {
  std::int64_t offset = 0, pitch = 0, stride = 0, bytes = 0;
};
Packed packed(std::int64_t length, std::int64_t lines, std::int64_t batch, DType type,
              std::int64_t offset);

/// One operand as the copy engine is to see it: `length` neighbouring elements a line.
struct MapLines {
  MapOperand operand;
  std::int64_t offset;  // bytes
  DType type;
  std::int64_t length, lines, batch;
  std::int64_t pitch, stride;  // bytes
  int box_length, box_lines;
};
TensorMapSpec tensor_map(const MapLines& lines);

}  // namespace kiln::cuda
