#include "generator/families/hip/common/hip.h"

#include <fmt/format.h>

#include <utility>

#include "generator/expression/code.h"
#include "generator/problem/epilogue.h"
#include "generator/problem/extent.h"
#include "generator/problem/fields.h"
#include "generator/problem/gate.h"
#include "generator/problem/groups.h"
#include "generator/problem/product_list.h"

namespace kiln::hip {
namespace {

bool is_fp8(DType t) {
  return t == fp8_e4m3 || t == fp8_e5m2 || t == fp8_e4m3fnuz || t == fp8_e5m2fnuz;
}

/// Of the element (row, column), which exists.
constexpr expression::Dialect kDialect = [] {
  expression::Dialect all = expression::dialect_of_gpus(c_type);
  all.along_m = "to_real(out.{x}[{row}])";
  all.along_n = "to_real(out.{x}[{column}])";
  all.rows = "to_real(out.{x}[{row} * out.{ld} + {column}])";
  all.columns = "to_real(out.{x}[{column} * out.{ld} + {row}])";
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
      return "u8";
    case DType::s32:
      return "i32";
    case DType::fp8_e4m3:
      return "Float8<3, false>";
    case DType::fp8_e5m2:
      return "Float8<2, false>";
    case DType::fp8_e4m3fnuz:
      return "Float8<3, true>";
    case DType::fp8_e5m2fnuz:
      return "Float8<2, true>";
    case DType::fp6_e2m3:
    case DType::fp6_e3m2:
    case DType::fp4_e2m1:
    case DType::s4:
    case DType::u4:
      return "u8";  // what holds them: several share one
  }
  return "";
}

void add_common(Parameters& to, const Problem& problem, const DeviceCaps& device) {
  const Gemm& g = problem.gemm;
  const auto use = [&](const char* name, std::string_view type, const char* gloss) {
    to.constants.push_back({"using", name, std::string(type), gloss});
  };
  use("TypeA", c_type(g.a.dtype), "elements of A");
  use("TypeB", c_type(g.b.dtype), "elements of B");
  use("TypeD", c_type(g.d.dtype), "elements of C and D");
  use("Acc", c_type(g.accumulator), "accumulators");
  use("Real", g.accumulator == fp64 ? "double" : "float", "what the epilogue computes in");
  auto& v = to.values;
  v["has_fp8"] = value_of(is_fp8(g.a.dtype) || is_fp8(g.b.dtype));
  v["fp8_d"] = value_of(g.d.dtype == fp8_e4m3);
  v["has_bf16_cvt"] = value_of(device.arch == "gfx950");
  add_epilogue(v, g);
  to.texts = expression::code_of(epilogue_of(g), types_of_epilogue(g), dialect_of(g));
  v["exponential"] = value_of(expression::uses_exponential(epilogue_of(g)));
  v["no_shuffles"] = "1";
  v["overlaps"] = "0";
  v["together"] = "0";
  v["integer"] = value_of(g.accumulator == s32);
  v["double"] = value_of(g.accumulator == fp64);
  v["scales"] = value_of(g.a.q.scale != Scale::none || g.b.q.scale != Scale::none);
  v["zeros"] = "0";
  v["groups"] = value_of(grouped(g));
  v["row_groups"] = value_of(g.grouping() == Grouping::rows || g.grouping() == Grouping::masked);
  v["k_groups"] = value_of(g.grouping() == Grouping::k);
  v["lists"] = value_of(g.grouping() == Grouping::list);
  v["list_maps"] = "0";  // of no family
  v["masked"] = value_of(g.grouping() == Grouping::masked);
  // Of sums of integers; those of other operands are multiplied with their elements.
  for (const auto& [side, scale] : {std::pair{"a", g.a.q.scale}, {"b", g.b.q.scale}}) {
    const bool of_sums = g.accumulator == s32 && scale != Scale::none;
    v[fmt::format("line_scale_{}", side)] = value_of(of_sums);
    v[fmt::format("tensor_scale_{}", side)] = value_of(of_sums && scale == Scale::tensor);
  }
  v["scale_d"] = "none";  // of no family
  v["zero_a"] = EnumNames<Zero>::names[static_cast<std::size_t>(g.a.q.zero)];
  v["indexed"] = v["gather"] = v["scatter"] = v["amax"] = value_of(false);  // of no family
}

/// HIP fuses products with additions unless a pragma forbids it, as
/// -ffp-contract=fast-honor-pragmas says, which older hipRTC do not know by name.
std::vector<std::string> flags(const DeviceCaps& device) {
  return {"--offload-arch=" + device.arch, "-std=c++17", "-O3"};
}

GpuLaunch one_step(std::int64_t blocks, int threads) {
  GpuLaunch launch;
  if (blocks == 0) return launch;
  GpuStep step;
  step.grid.x = static_cast<unsigned>(blocks);
  step.block.x = static_cast<unsigned>(threads);
  launch.steps.push_back(step);
  return launch;
}

std::int64_t bytes_of_tile_counts(const Gemm& gemm) {
  return lists_products(gemm) ? gemm.batch * std::int64_t{sizeof(std::uint32_t)} : 0;
}

}  // namespace kiln::hip
