#include "generator/families/cuda/common/cuda.h"

#include <fmt/format.h>

#include <bit>
#include <utility>

#include "generator/expression/code.h"
#include "generator/expression/halves.h"
#include "generator/problem/epilogue.h"
#include "generator/problem/extent.h"
#include "generator/problem/fields.h"
#include "generator/problem/groups.h"
#include "generator/problem/indices.h"
#include "generator/problem/quantised_d.h"

namespace kiln::cuda {
namespace {

MapElement map_element(DType t) {
  switch (t) {
    case DType::fp16:
      return MapElement::f16;
    case DType::bf16:
      return MapElement::bf16;
    case DType::tf32:
      return MapElement::tf32;
    case DType::fp32:
      return MapElement::f32;
    case DType::fp64:
      return MapElement::f64;
    case DType::s32:
      return MapElement::s32;
    default:
      return MapElement::u8;
  }
}

MapSwizzle swizzle_of(int row_bytes) {
  switch (row_bytes) {
    case 128:
      return MapSwizzle::b128;
    case 64:
      return MapSwizzle::b64;
    case 32:
      return MapSwizzle::b32;
    default:
      return MapSwizzle::none;
  }
}

/// Of the element (row, column): templates/cuda/common/functions.h.
constexpr expression::Dialect kDialect = [] {
  expression::Dialect all = expression::dialect_of_gpus(c_type);
  all.along_m = "in_row ? to_real(out.{x}[{row}]) : Value(0)";
  all.along_n = "in_column ? to_real(out.{x}[{column}]) : Value(0)";
  all.rows = "real_if(out.{x} + {row} * out.{ld} + {column}, in_row && in_column)";
  all.columns = "real_if(out.{x} + {column} * out.{ld} + {row}, in_row && in_column)";
  all.product = "product";
  all.quotient = "divided";
  all.place_along_m = "out.{x} + {row}";
  all.place_along_n = "out.{x} + {column}";
  all.place_of_row = "out.{x} + {row} * out.{ld} + {column}";
  all.place_of_column = "out.{x} + {column} * out.{ld} + {row}";
  all.store_pair_of_row = "store_pair(out.{x} + row * out.{ld} + column, {value}, y.{x});";
  all.store_pair_of_column = "store_pair(out.{x} + column * out.{ld} + row, {value}, y.{x});";
  all.in_words = "in_words({x}, {ld})";
  return all;
}();
constexpr expression::Dialect kDialectOfGroups = expression::of_rows_in_groups(kDialect);

expression::Dialect dialect_of(const Gemm& gemm) {
  expression::Dialect all = gemm.grouping() == Grouping::rows ? kDialectOfGroups : kDialect;
  all.arguments = arguments_of_epilogue(gemm);
  return all;
}

}  // namespace

std::string_view c_type(DType t) {
  switch (t) {
    case DType::fp32:
    case DType::tf32:
      return "float";
    case DType::fp64:
      return "double";
    case DType::fp16:
      return "Half";
    case DType::bf16:
      return "Bfloat";
    case DType::s8:
      return "i8";
    case DType::u8:
    case DType::s4:  // two codes to a byte
    case DType::u4:
      return "u8";
    case DType::s32:
      return "i32";
    case DType::fp8_e4m3:
      return "Float8E4";
    case DType::fp8_e5m2:
      return "Float8E5";
    case DType::fp8_e4m3fnuz:
    case DType::fp8_e5m2fnuz:
    case DType::fp6_e2m3:
    case DType::fp6_e3m2:
    case DType::fp4_e2m1:
      break;  // no NVIDIA GPU computes them
  }
  return "";
}

void add_common(Parameters& to, const Problem& problem, const DeviceCaps& device) {
  const Gemm& g = problem.gemm;
  const auto use = [&](const char* name, std::string_view type, const char* gloss) {
    to.constants.push_back({"using", name, std::string(type), gloss});
  };
  use("TypeA", c_type(g.a.dtype), "elements of A");
  // Weights are bytes to all but what decodes them.
  const bool weights = has_weights(g);
  use("TypeB", weights && g.b.dtype != s8 ? "u8" : c_type(g.b.dtype), "elements of B");
  const bool kept = expression::keeps_in_d(g.epilogue.expression);
  if (kept) use("TypeC", c_type(g.c.dtype), "elements of C, and of D in the end");
  use("TypeD", c_type(g.d.dtype),
      kept ? "values that kernels leave in the workspace" : "elements of C and D");
  use("Acc", c_type(g.accumulator), "accumulators");
  use("Real", g.accumulator == fp64 ? "double" : "float", "what the epilogue computes in");
  auto& v = to.values;
  const auto is_fp8 = [](DType t) { return t == fp8_e4m3 || t == fp8_e5m2; };
  add_epilogue(v, g);
  // Targets without instructions for them have no operands of such types, but may have a D of one.
  // C's type is that of the caller's D.
  const bool makes_fp8 = g.c.dtype == fp8_e4m3 || v["uses_fp8_e4m3"] == "1";
  const bool soft_fp8 = makes_fp8 && device.gpu.sm < 89;
  v["has_fp8"] =
      value_of(is_fp8(g.a.dtype) || (is_fp8(g.b.dtype) && !weights) || (makes_fp8 && !soft_fp8));
  v["soft_fp8"] = value_of(soft_fp8);
  v["has_bf16_cvt"] = value_of(device.gpu.sm >= 80);
  to.texts = expression::code_of(epilogue_of(g), types_of_epilogue(g), dialect_of(g));
  v["halves"] = "0";
  v["no_shuffles"] = "0";
  v["overlaps"] = "0";
  v["together"] = "0";
  v["rolled"] = "0";
  v["bring"] = "0";
  v["integer"] = value_of(g.accumulator == s32);
  v["mx_scales"] = "0";
  v["scales"] = value_of(g.a.q.scale != Scale::none || g.b.q.scale != Scale::none);
  v["zeros"] = "0";
  v["groups"] = value_of(grouped(g));
  v["row_groups"] = value_of(g.grouping() == Grouping::rows || g.grouping() == Grouping::masked);
  v["k_groups"] = value_of(g.grouping() == Grouping::k);
  v["k_group_edges"] = "0";
  v["lists"] = value_of(g.grouping() == Grouping::list);
  v["list_maps"] = "0";  // of a family that copies by tensor maps
  v["masked"] = value_of(g.grouping() == Grouping::masked);
  v["gather"] = value_of(gathers(g));
  v["scatter"] = value_of(scattered_rows(g) != nullptr);
  v["indexed"] = value_of(indexed(g));
  v["amax"] = value_of(g.amax_d);
  v["scale_d"] = EnumNames<Scale>::names[static_cast<std::size_t>(g.d.q.scale)];
  v["zero_a"] = EnumNames<Zero>::names[static_cast<std::size_t>(g.a.q.zero)];
  if (g.d.q.scale != Scale::none)
    to.constants.push_back({"float", "kLargestD", fmt::format("{:.1f}f", largest_code(g.d.dtype)),
                            "the largest number of D's type"});
  for (const auto& [side, scale] : {std::pair{"a", g.a.q.scale}, {"b", g.b.q.scale}}) {
    v[fmt::format("line_scale_{}", side)] =
        value_of(scale == Scale::line || scale == Scale::tensor);
    v[fmt::format("tensor_scale_{}", side)] = value_of(scale == Scale::tensor);
  }
}

void add_pairs(Parameters& to, const Gemm& gemm, Index along, bool brings) {
  to.texts.merge(expression::pairs_of(epilogue_of(gemm), types_of_epilogue(gemm), along, brings,
                                      dialect_of(gemm)));
}

void add_tile_scheduler(TemplateValues& to, const Gemm& gemm, Sharing sharing, Along along,
                        int cluster_blocks) {
  to["groups_right"] = value_of(false);
  // The same split-K, whichever launch reduces it.
  to["sharing"] = name(sharing == Sharing::summed ? Sharing::split : sharing);
  to["summed"] = value_of(sharing == Sharing::summed);
  to["group_along"] = name(along);
  to["cluster"] = value_of(cluster_blocks > 1);
  // Groups of k have as many tiles each, as batches do.
  to["batched"] = value_of(gemm.batch > 1 && (!grouped(gemm) || gemm.grouping() == Grouping::k));
}

Packed packed(std::int64_t length, std::int64_t lines, std::int64_t batch, DType type,
              std::int64_t offset) {
  Packed p;
  p.offset = round_up(offset, 256);
  p.pitch = round_up(length * size_of(type), 128);
  p.stride = p.pitch * lines;
  p.bytes = p.stride * batch;
  return p;
}

TensorMapSpec tensor_map(const MapLines& lines) {
  TensorMapSpec map;
  map.operand = lines.operand;
  map.offset = lines.offset;
  map.element = map_element(lines.type);
  map.rank = 3;
  const auto pitch = static_cast<std::uint64_t>(lines.pitch);
  // A single batch has no stride that matters, but the driver wants a multiple of 16.
  const auto stride = lines.batch > 1 ? static_cast<std::uint64_t>(lines.stride)
                                      : pitch * static_cast<std::uint64_t>(lines.lines);
  map.dims = {static_cast<std::uint64_t>(lines.length), static_cast<std::uint64_t>(lines.lines),
              static_cast<std::uint64_t>(lines.batch)};
  map.strides = {pitch, stride};
  map.box = {static_cast<std::uint32_t>(lines.box_length),
             static_cast<std::uint32_t>(lines.box_lines), 1};
  map.swizzle = swizzle_of(lines.box_length * size_of(lines.type));
  return map;
}

}  // namespace kiln::cuda
