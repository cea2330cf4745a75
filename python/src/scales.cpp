#include "scales.h"

#include <fmt/format.h>

#include <utility>

namespace kiln::python {
namespace {

constexpr std::int64_t kBlock = 128, kMxBlock = 32;

std::int64_t blocks(std::int64_t n, std::int64_t block) { return (n + block - 1) / block; }

}  // namespace

Scale kind_of_scales(const ScaleShape& shape, DType type, std::int64_t lines, std::int64_t k) {
  const std::int64_t along = blocks(k, kBlock);
  if (type == DType::u8)
    return shape.sizes == std::array{lines, blocks(k, kMxBlock)} ? Scale::mx_32 : Scale::none;
  if (type != DType::fp32) return Scale::none;
  if (shape.dims == 1 && shape.sizes[0] == lines) return Scale::line;
  if (shape.dims == 0 || (shape.dims == 1 && shape.sizes[0] == 1)) return Scale::tensor;
  if (shape.sizes == std::array{lines, along}) return Scale::line_128;
  return shape.sizes == std::array{blocks(lines, kBlock), along} ? Scale::square_128 : Scale::none;
}

std::string scales_known(std::int64_t lines, std::int64_t k) {
  const std::int64_t along = blocks(k, kBlock);
  return fmt::format("float32 of shape (), ({},), ({}, {}) or ({}, {}), or uint8 of shape ({}, {})",
                     lines, lines, along, blocks(lines, kBlock), along, lines, blocks(k, kMxBlock));
}

Scale kind_of_groups(const ScaleShape& shape, DType type, std::int64_t lines, std::int64_t k) {
  if (type == DType::u8)
    return k % kMxBlock == 0 && shape.sizes == std::array{lines, k / kMxBlock} ? Scale::mx_32
                                                                               : Scale::none;
  if (type != DType::fp32 && type != DType::bf16 && type != DType::fp16) return Scale::none;
  if (shape.dims == 1) return shape.sizes[0] == lines ? Scale::line : Scale::none;
  if (shape.dims != 2) return Scale::none;
  constexpr std::pair<std::int64_t, Scale> kGroups[] = {
      {32, Scale::line_32}, {64, Scale::line_64}, {kBlock, Scale::line_128}};
  for (const auto& [along, kind] : kGroups)
    if (k % along == 0 && shape.sizes == std::array{lines, k / along}) return kind;
  const bool square =
      k % kBlock == 0 && shape.sizes == std::array{blocks(lines, kBlock), k / kBlock};
  return square ? Scale::square_128 : Scale::none;
}

std::string groups_known(std::int64_t lines, std::int64_t k) {
  return fmt::format(
      "float32, bfloat16 or float16 of shape ({},), ({}, {}), ({}, {}), ({}, {}) or ({}, {}), or "
      "uint8 of shape ({}, {})",
      lines, lines, k / 32, lines, k / 64, lines, k / kBlock, blocks(lines, kBlock), k / kBlock,
      lines, k / kMxBlock);
}

}  // namespace kiln::python
