#include "tuner/verify/mfma_example.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "generator/problem/device_caps.h"
#include "generator/render/emulated.h"
#include "kiln/numeric.hpp"
#include "runtime/emulator/kernel.h"

namespace kiln {
namespace {

constexpr std::uint64_t kOrders = 4;

/// Numbers that every format holds, fp4 too.
constexpr std::array<float, 15> kNumbers{0,     0.5f, 1,     1.5f, 2,  3,  4, 6,
                                         -0.5f, -1,   -1.5f, -2,   -3, -4, -6};

struct Inputs {
  std::vector<float> values;  // of [mn][k], scales not applied
  std::vector<std::uint8_t> bytes, scales;
  float at(int line, int k, int depth) const {
    const auto i = static_cast<std::size_t>(line * depth + k);
    return scales.empty() ? values[i] : values[i] * decode(kE8m0, scales[i / 32]);
  }
};

std::uint32_t encoded(const MfmaExample& e, float value) {
  if (e.format == "fp32") return std::bit_cast<std::uint32_t>(value);
  if (e.format == "fp16") return float_to_fp16(value);
  return encode(*small_format(e.format), value, Overflow::saturate);
}

Inputs draw(const MfmaExample& e, std::mt19937_64& random) {
  const hip::MfmaInstruction& i = e.instruction();
  Inputs in;
  const auto count = static_cast<std::size_t>(i.mn * i.k), bits = static_cast<std::size_t>(e.bits);
  in.bytes.resize(count * bits / 8);
  for (std::size_t n = 0; n < count; ++n) {
    in.values.push_back(kNumbers[random() % kNumbers.size()]);
    const std::uint32_t code = encoded(e, in.values.back());
    if (bits < 8)
      in.bytes[n * bits / 8] |= static_cast<std::uint8_t>(code << n * bits % 8);
    else
      std::memcpy(&in.bytes[n * bits / 8], &code, bits / 8);
  }
  // From 2^-3 to 2^3: with products of at most 36 in steps of 1/4, sums stay within 24 bits.
  for (std::size_t n = 0; e.scaled() && n < count / 32; ++n)
    in.scales.push_back(static_cast<std::uint8_t>(124 + random() % 7));
  return in;
}

Result<EmulatedKernel> on_emulator(const Source& source, const DeviceCaps& device) {
  const GpuLaunch launch = example_launch();
  const Result<Source> exchanged = emulated(source, launch, Vendor::amd);
  if (!exchanged) return tl::unexpected(exchanged.error());
  const Result<Compiler*> compiler = host_compiler();
  if (!compiler) return tl::unexpected(compiler.error());
  const Result<Binary> binary = (*compiler)->compile(*exchanged);
  if (!binary) return tl::unexpected(binary.error());
  return EmulatedKernel::load(binary->image, launch, device);
}

void compare(const MfmaExample& e, const Inputs& a, const Inputs& b, const std::vector<float>& d,
             ExampleProof& proof) {
  const hip::MfmaInstruction& i = e.instruction();
  for (int row = 0; row < i.mn; ++row)
    for (int column = 0; column < i.mn; ++column) {
      double sum = 0;
      for (int k = 0; k < i.k; ++k) sum += double{a.at(row, k, i.k)} * double{b.at(column, k, i.k)};
      const float got = d[static_cast<std::size_t>(row * i.mn + column)];
      ++proof.elements;
      if (got == sum) continue;
      if (++proof.wrong == 1)
        proof.first_wrong = fmt::format("D[{}][{}] is {}, not {}", row, column, got, sum);
    }
}

}  // namespace

Result<ExampleProof> prove(const MfmaExample& e, std::uint64_t seed) {
  auto source = render_example(e);
  if (!source) return tl::unexpected(source.error());
  const Result<DeviceCaps> device = hip_caps_named(e.arch);
  if (!device) return tl::unexpected(device.error());
  const Result<Compiler*> compiler = compiler_for(*device);
  if (!compiler) return tl::unexpected(compiler.error());
  auto object = (*compiler)->compile(*source);
  if (!object) return tl::unexpected(object.error());
  const Result<EmulatedKernel> kernel = on_emulator(*source, *device);
  if (!kernel) return tl::unexpected(kernel.error());

  ExampleProof proof{std::move(*source), std::move(*object)};
  std::mt19937_64 random(seed);
  const auto sums = static_cast<std::size_t>(e.instruction().mn * e.instruction().mn);
  for (std::uint64_t order = 0; order < kOrders; ++order) {
    const Inputs a = draw(e, random), b = draw(e, random);
    std::vector<std::uint8_t> scales = a.scales;
    scales.insert(scales.end(), b.scales.begin(), b.scales.end());
    std::vector<float> d(sums, std::numeric_limits<float>::quiet_NaN());
    KilnGpuArgs args{};
    args.a = a.bytes.data();
    args.b = b.bytes.data();
    args.d = d.data();
    args.workspace = scales.data();
    if (Status ran = kernel->run(args, order == 0 ? 0 : seed + order); !ran) {
      proof.first_wrong = ran.error().message;
      return proof;
    }
    compare(e, a, b, d, proof);
  }
  return proof;
}

}  // namespace kiln
