// How a config of cuda_wgmma_weights is launched: cuda_wgmma's steps, over maps of codes and of A.
#include "generator/families/cuda/wgmma_weights/config.h"
#include "generator/families/cuda/wgmma_weights/sizes.h"
#include "generator/problem/extent.h"
#include "generator/problem/gate.h"

namespace kiln::cuda {

GpuLaunch wgmma_weights_launch(const Problem& p, const DeviceCaps& d, const CudaWgmmaWeights& c,
                               const WgmmaWeightsSizes& w) {
  const Gemm& g = p.gemm;
  const auto batches = [&](const Matrix& m) { return m.batch_stride == 0 ? 1 : g.batch; };
  GpuLaunch out = wgmma_launch(w.numbers, d, w.wgmma_config, w.wgmma);
  // Codes are bytes to the copy engine.
  MapLines codes{.operand = MapOperand::b,
                 .offset = 0,
                 .type = u8,
                 .length = ceil_div(g.k * w.code_bits, 8),
                 .lines = g.n,
                 .batch = batches(g.b),
                 .pitch = g.b.ld * w.code_bits / 8,
                 .stride = g.b.batch_stride * w.code_bits / 8,
                 .box_length = w.code_pitch,
                 .box_lines = 64 * c.warpgroups};
  if (gated(g)) {
    // Both factors, one behind the other as batches are.
    const bool stacked = !interleaved(g);
    codes.batch *= 2;
    codes.stride = stacked ? g.n * codes.pitch : codes.pitch;
    if (!stacked) codes.pitch *= 2;
    codes.box_lines = 64;
  }
  out.maps[0] = tensor_map(codes);
  const int size = size_of(g.a.dtype);
  out.maps[1] = tensor_map({.operand = MapOperand::a,
                            .offset = 0,
                            .type = g.a.dtype,
                            .length = g.k,
                            .lines = g.m,
                            .batch = batches(g.a),
                            .pitch = g.a.ld * size,
                            .stride = g.a.batch_stride * size,
                            .box_length = 64,
                            .box_lines = c.tile_m});
  return out;
}

}  // namespace kiln::cuda
