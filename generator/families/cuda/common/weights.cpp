#include "generator/families/cuda/common/weights.h"

#include "generator/families/cuda/common/cuda.h"
#include "generator/problem/extent.h"

namespace kiln::cuda {

void add_weights(Parameters& to, const Gemm& g) {
  const auto use = [&](const char* name, DType type, const char* gloss) {
    to.constants.push_back({"using", name, std::string(c_type(type)), gloss});
  };
  use("TypeScale", g.scale_type, "scales of B");
  if (g.zero != Zero::none) use("TypeZero", dtype_of(g, Operand::zero_b), "zero points of B");
  const int bits = bits_of(g.b.dtype), along = scale_block(g.scale_b).along;
  to.constants.push_back(number("kCodeBits", bits, "bits of an element of B"));
  if (along > 0)
    to.constants.push_back(number("kGroupK", along, "elements along k that share a scale"));
  to.constants.push_back(flag("kSignedCodes", g.b.dtype != u4, "codes are two's complement"));
  auto& v = to.values;
  v["line_scale_b"] = "0";
  v["zeros"] = value_of(g.zero != Zero::none);
  v["zero"] = name(g.zero);
  v["type_a"] = name(g.a.dtype);
  v["code_bits"] = std::to_string(bits);
  v["whole_column"] = value_of(along == 0);
}

}  // namespace kiln::cuda
