// What a config of cuda_wgmma_weights becomes in its source: cuda_wgmma's constants, macros and
// choices, and what codes and scales add.
#include "generator/families/cuda/wgmma_weights/sizes.h"
#include "generator/problem/extent.h"

namespace kiln::cuda {

Parameters wgmma_weights_parameters(const Canonical& p, const DeviceCaps& d,
                                    const CudaWgmmaWeights& c, const WgmmaWeightsSizes& w) {
  const Gemm& g = p.gemm;
  Parameters out = wgmma_parameters(w.numbers, d, w.wgmma_config, w.wgmma);
  const auto use = [&](const char* name, DType type, const char* gloss) {
    out.constants.push_back({"using", name, std::string(c_type(type)), gloss});
  };
  const auto add = [&](const char* name, std::int64_t value, const char* gloss) {
    out.constants.push_back(number(name, value, gloss));
  };
  use("TypeScale", g.scale_type, "scales of B");
  if (g.zero != Zero::none) use("TypeZero", dtype_of(g, Operand::zero_b), "zero points of B");
  add("kCodeBits", w.code_bits, "bits of an element of B");
  add("kCodePitch", w.code_pitch, "bytes of a column's codes in a stage");
  if (w.along > 0) add("kGroupK", w.along, "elements along k that share a scale");
  add("kDecodeK", c.block_k, "k whose scales are fetched together");
  add("kTilesM", 1, "16 columns each, of a warp");
  out.constants.push_back(flag("kSignedCodes", g.b.dtype != u4, "codes are two's complement"));
  auto& v = out.values;
  v["weights"] = "1";
  // Each stage has scales of its own; those of whole columns are no business of the epilogue
  // either.
  v["block_scales"] = "1";
  v["line_scale_b"] = "0";
  v["zeros"] = value_of(g.zero != Zero::none);
  v["zero"] = name(g.zero);
  v["type_a"] = name(g.a.dtype);
  v["code_bits"] = std::to_string(w.code_bits);
  v["whole_column"] = value_of(w.along == 0);
  return out;
}

}  // namespace kiln::cuda
