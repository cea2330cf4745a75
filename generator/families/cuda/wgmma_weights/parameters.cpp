// What a config of cuda_wgmma_weights becomes in its source: cuda_wgmma's constants, macros and
// choices, and what codes and scales add.
#include "generator/families/cuda/common/weights.h"
#include "generator/families/cuda/wgmma_weights/config.h"
#include "generator/families/cuda/wgmma_weights/sizes.h"

namespace kiln::cuda {

Parameters wgmma_weights_parameters(const Problem& p, const DeviceCaps& d,
                                    const CudaWgmmaWeights& c, const WgmmaWeightsSizes& w) {
  const Gemm& g = p.gemm;
  Parameters out = wgmma_parameters(w.numbers, d, w.wgmma_config, w.wgmma);
  const auto add = [&](const char* name, std::int64_t value, const char* gloss) {
    out.constants.push_back(number(name, value, gloss));
  };
  add_weights(out, g);
  add("kCodePitch", w.code_pitch, "bytes of a column's codes in a stage");
  add("kDecodeK", c.block_k * c.stages_of_turn(), "k whose scales are fetched together");
  add("kTilesM", w.factors, "16 columns each, of a warp");
  auto& v = out.values;
  v["weights"] = "1";
  v["round_weights"] = value_of(c.round_weights);
  // Each stage has scales of its own. Stored proofs name this value.
  v["block_scales"] = "1";
  v["tma_scales"] = "0";
  v["scale_pairs"] = "0";
  v["gather_copies"] = "0";
  return out;
}

}  // namespace kiln::cuda
