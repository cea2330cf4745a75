// Family cuda_gemv: axes, rules, parameters, launch and model of templates/cuda/gemv.cu.
#include <algorithm>
#include <array>

#include "generator/cuda.h"

namespace kiln {
namespace {

/// Sums of more rows than this no longer fit beside what is read.
constexpr std::int64_t kMostThin = 16;

const CudaGemv& typed(const Config& c) { return std::get<CudaGemv>(c); }

constexpr std::array<std::string_view, 5> kFiles{"cuda/abi.h", "cuda/types.h", "cuda/convert.h",
                                                 "cuda/epilogue.h", "cuda/gemv.cu"};

std::int64_t thin_of(const Gemm& g, const CudaGemv& c) { return c.swap ? g.n : g.m; }
std::int64_t wide_of(const Gemm& g, const CudaGemv& c) { return c.swap ? g.m : g.n; }
std::int64_t blocks_of(const Gemm& g, const CudaGemv& c) {
  return ceil_div(wide_of(g, c), std::int64_t{c.warps} * c.rows) * g.batch;
}

const std::array kRules{
    Rule{"one side is thin, and the other runs along k",
         [](const Canonical& p, const DeviceCaps&, const Config& c) {
           const auto& v = typed(c);
           const std::int64_t thin = thin_of(p.gemm, v);
           return thin >= 1 && thin <= kMostThin && !p.gemm.b_packed &&
                  (v.swap ? p.a_k_major : p.b_k_major);
         }},
    Rule{"the device converts 8-bit floats",
         [](const Canonical& p, const DeviceCaps& d, const Config&) {
           const auto is_fp8 = [](DType t) { return t == fp8_e4m3 || t == fp8_e5m2; };
           return d.gpu.sm >= 89 || (!is_fp8(p.gemm.a.dtype) && !is_fp8(p.gemm.b.dtype));
         }},
    Rule{"sums fit the registers",
         [](const Canonical& p, const DeviceCaps&, const Config& c) {
           const auto& v = typed(c);
           const std::int64_t words = size_of(p.gemm.accumulator) / 4;
           return v.rows >= 1 && v.width >= 1 && v.warps >= 1 && v.warps <= 32 &&
                  words * v.rows * (thin_of(p.gemm, v) + v.width) <= 128;
         }},
    Rule{"memory is aligned to what is read at once",
         [](const Canonical& p, const DeviceCaps&, const Config& c) {
           const auto fits = [&](DType t) {
             const int bytes = typed(c).width * size_of(t);
             return typed(c).width == 1 ||
                    (bytes <= 16 && (bytes & (bytes - 1)) == 0 && p.gemm.alignment % bytes == 0);
           };
           return fits(p.gemm.a.dtype) && fits(p.gemm.b.dtype);
         }},
    Rule{"the grid is one that can be launched",
         [](const Canonical& p, const DeviceCaps&, const Config& c) {
           return blocks_of(p.gemm, typed(c)) < std::int64_t{1} << 31;
         }},
};

void enumerate(const Canonical& p, const DeviceCaps&,
               const std::function<void(const Config&)>& visit) {
  for (const bool swap : {false, true}) {
    if ((swap ? p.gemm.n : p.gemm.m) > kMostThin) continue;
    for (const int rows : {1, 2, 4})
      for (const int width : {1, 2, 4, 8, 16})
        for (const int warps : {4, 8}) visit(CudaGemv{rows, width, warps, swap});
  }
}

Parameters parameters(const Canonical& p, const DeviceCaps& d, const Config& config) {
  const auto& c = typed(config);
  Parameters out;
  cuda::add_common(out, p, d);
  auto add = [&](const char* name, std::int64_t value, const char* gloss) {
    out.constants.push_back(number(name, value, gloss));
  };
  add("kThin", thin_of(p.gemm, c), "rows of the thin operand");
  add("kRows", c.rows, "rows of the wide operand that a warp takes");
  add("kWidth", c.width, "elements read at once");
  add("kWarps", c.warps, "of a block");
  out.constants.push_back(flag("kSwap", c.swap, "thin is B"));
  out.constants.push_back(flag("kThinAlongK", c.swap ? p.b_k_major : p.a_k_major,
                               "the thin operand's neighbours run along k"));
  out.constants.push_back({"define", "KILN_THIN", c.swap ? "TypeB" : "TypeA", ""});
  out.constants.push_back({"define", "KILN_WIDE", c.swap ? "TypeA" : "TypeB", ""});
  return out;
}

GpuLaunch launch(const Canonical& p, const DeviceCaps&, const Config& config) {
  const auto& c = typed(config);
  GpuLaunch out;
  GpuStep step;
  step.grid.x = static_cast<unsigned>(blocks_of(p.gemm, c));
  step.block.x = static_cast<unsigned>(c.warps * 32);
  if (step.grid.x > 0) out.steps.push_back(step);
  return out;
}

double predict(const Canonical& p, const DeviceCaps& d, const Config& config) {
  const auto& c = typed(config);
  const Gemm& g = p.gemm;
  const double ghz = d.ghz > 0 ? d.ghz : 1.5, units = std::max(1, d.compute_units);
  const double thin = double(thin_of(g, c)), wide = double(wide_of(g, c)) * double(g.batch);
  // Cycles that a warp takes for 32 · width elements of k: loads, conversions, multiply-adds.
  const double loads = c.rows + thin;
  const double each = loads * (4 + 2.0 * c.width) + thin * c.rows * c.width + 10;
  const double steps = std::max(1.0, double(g.k) / (32.0 * c.width));
  const double issue = wide / c.rows * (steps * each + 12 * thin * c.rows) / (4 * units) / ghz;
  const double bytes = wide * double(g.k) * size_of(c.swap ? g.a.dtype : g.b.dtype);
  const double memory = bytes / (0.75 * std::max(1, d.gpu.memory_gbs));
  return 3000 + std::max(issue, memory) + 0.3 * std::min(issue, memory);
}

}  // namespace

namespace cuda {
Family gemv_family() {
  return {
      CudaGemv::kFamily,     kFiles, enumerate, kRules, parameters, predict, Vendor::nvidia, launch,
      cuda::only_line_scales};
}
}  // namespace cuda
}  // namespace kiln
