#include "generator/families/hip/common/examples.h"

#include <fmt/format.h>

#include <array>
#include <cassert>

#include "generator/families/hip/common/hip.h"
#include "generator/problem/device_caps.h"
#include "kiln/engine.hpp"

namespace kiln {
namespace {

constexpr MfmaExample kExamples[] = {
    {"fp32_32x32x2", "gfx942", "mfma_f32_32x32x2_f32", "fp32", 32, "float"},
    {"fp16_16x16x16", "gfx942", "mfma_f32_16x16x16_f16", "fp16", 16, "Vector<_Float16, 4>"},
    {"fp8_32x32x16", "gfx942", "mfma_f32_32x32x16_fp8_fp8", "e4m3fnuz", 8, "i64"},
    {"mxfp8_32x32x64", "gfx950", "mfma_scale_f32_32x32x64_f8f6f4", "e4m3fn", 8, "Vector<i32, 8>"},
    {"mxfp4_32x32x64", "gfx950", "mfma_scale_f32_32x32x64_f8f6f4", "e2m1", 4, "Vector<i32, 8>", 4},
};

constexpr std::array<std::string_view, 3> kFiles{"cuda/common/abi.h", "hip/common/types.h",
                                                 "hip/examples/example.hip"};
constexpr std::string_view kCards[] = {"mi300x", "mi325x", "mi355x"};
constexpr int kCoresOfUnit = 4;  // matrix units of a compute unit, one a SIMD

Parameters parameters(const MfmaExample& e) {
  const hip::MfmaInstruction& i = e.instruction();
  Parameters out;
  auto& c = out.constants;
  c.push_back({"using", "Operand", std::string(e.operand), "a lane's part of A or of B"});
  c.push_back(number("kRows", i.mn, "of A; columns of B"));
  c.push_back(number("kDepth", i.k, "elements along k"));
  c.push_back(number("kSums", i.accumulators_per_lane(), "of a lane"));
  c.push_back(number("kLineBytes", i.k * e.bits / 8, "of a row of A, of a column of B"));
  const bool two_runs = i.scaled() && e.bits == 8;
  if (!two_runs)
    c.push_back(number("kLaneBytes", i.k * i.mn / 64 * e.bits / 8, "of a lane's part"));
  if (i.scaled())
    c.push_back(number("kFormat", e.format_code, "by which the instruction knows the type"));
  c.push_back({"define", "KILN_MFMA", std::string(i.mnemonic), ""});
  c.push_back({"define", "KILN_MFMA_BUILTIN", fmt::format("__builtin_amdgcn_{}", i.builtin), ""});
  out.values["scaled"] = value_of(i.scaled());
  out.values["two_runs"] = value_of(two_runs);
  out.values["zeros"] = out.values["groups"] = out.values["row_groups"] = value_of(false);
  out.values["scale_d"] = out.values["zero_a"] = "none";
  out.values["expression"] = "";
  out.values["expressed"] = value_of(false);
  out.values["indexed"] = out.values["amax"] = value_of(false);
  out.values["scales"] = value_of(false);  // of a whole problem: see abi.h
  return out;
}

}  // namespace

const hip::MfmaInstruction& MfmaExample::instruction() const {
  const auto* found = &hip::kMfma[0];
  for (const auto& i : hip::kMfma)
    if (i.mnemonic == mnemonic && (i.archs & hip::arch_set(arch)) != 0) found = &i;
  assert(found->mnemonic == mnemonic);
  return *found;
}

std::span<const MfmaExample> mfma_examples() { return kExamples; }

Result<Source> render_example(const MfmaExample& e) {
  const Result<std::string> body = paste(kFiles, parameters(e));
  if (!body) return tl::unexpected(body.error());
  const Result<DeviceCaps> device = hip_caps_named(e.arch);
  if (!device) return tl::unexpected(device.error());
  Source source;
  source.flags = hip::flags(*device);
  source.file_name = fmt::format("kiln_mfma_{}.hip", e.name);
  source.text = fmt::format(
      "// Written by kiln {}.\n// device:  {}\n// example: v_{} on {}\n// compile: {}\n{}",
      version(), e.arch, e.mnemonic, e.format, compile_command(Vendor::amd, source), *body);
  return source;
}

GpuLaunch example_launch() { return hip::one_step(1, 64); }

std::vector<MatrixPeak> peaks_of(const MfmaExample& e) {
  const hip::MfmaInstruction& i = e.instruction();
  std::vector<MatrixPeak> out;
  for (const std::string_view card : kCards) {
    const DeviceCaps caps = hip_caps_named(card).value();
    if ((i.archs & hip::arch_set(caps.arch)) == 0) continue;
    const int cores = kCoresOfUnit * caps.compute_units;
    out.push_back({caps.model, cores, caps.ghz, i.flops() * cores * caps.ghz / e.cycles() / 1000});
  }
  return out;
}

}  // namespace kiln
