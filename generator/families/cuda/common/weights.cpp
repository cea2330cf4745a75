#include "generator/families/cuda/common/weights.h"

#include "generator/families/cuda/common/cuda.h"
#include "generator/problem/extent.h"
#include "generator/problem/gemm_types.h"

namespace kiln::cuda {

void add_weights(Parameters& to, const Gemm& g) {
  const auto use = [&](const char* name, std::string_view type, const char* gloss) {
    to.constants.push_back({"using", name, std::string(type), gloss});
  };
  use("TypeScale", g.b.q.scale == Scale::mx_32 ? "E8m0" : c_type(g.b.q.type), "scales of B");
  if (g.b.q.zero != Zero::none)
    use("TypeZero", c_type(dtype_of(g, Operand::zero_b)), "zero points of B");
  const int bits = bits_of(g.b.dtype), along = scale_block(g.b.q.scale).along;
  to.constants.push_back(number("kCodeBits", bits, "bits of an element of B"));
  if (along > 0)
    to.constants.push_back(number("kGroupK", along, "elements along k that share a scale"));
  const int columns = scale_block(g.b.q.scale).lines;
  if (columns > 1)
    to.constants.push_back(number("kGroupColumns", columns, "columns of B that share a scale"));
  const CodeFormat& format = *code_format(g.b.dtype);
  if (format.has_zero_points())
    to.constants.push_back(flag("kSignedCodes", format.has_sign(), "codes are two's complement"));
  auto& v = to.values;
  v["line_scale_b"] = "0";
  v["mx_scales"] = value_of(g.b.q.scale == Scale::mx_32);
  v["zeros"] = value_of(g.b.q.zero != Zero::none);
  v["zero"] = name(g.b.q.zero);
  v["type_a"] = name(g.a.dtype);
  v["code_bits"] = std::to_string(bits);
  v["codes"] = format.kind;
  v["squares"] = value_of(columns > 1);
  v["whole_column"] = value_of(along == 0);
  v["round_weights"] = value_of(false);
}

double word_instructions(const Gemm& g) {
  if (g.b.dtype == fp4_e2m1) return 19;
  if (g.b.dtype == fp8_e4m3) return 14;
  return bits_of(g.b.dtype) == 4 ? 11 : g.a.dtype == bf16 ? 8 : 5;
}

double pair_instructions(const Gemm& g) {
  if (g.b.dtype == fp4_e2m1) return 6;
  if (g.b.dtype == fp8_e4m3) return 7;
  return g.a.dtype == bf16 ? 4 : 3;
}

}  // namespace kiln::cuda
