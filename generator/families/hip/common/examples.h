// The smallest kernels there are: one wave, one matrix instruction, a product of the size that the
// instruction has. Rendered like any other kernel, for reading and for trying out an instruction;
// no family, since nothing is tuned. And what the instructions could do at best on each card.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "generator/families/hip/common/instructions.h"
#include "generator/render/render.h"
#include "generator/space/gpu_launch.h"

namespace kiln {

struct MfmaExample {
  std::string_view name;
  std::string_view arch;
  std::string_view mnemonic;  // of the row in hip::kMfma
  std::string_view format;    // of A and B: "fp32", "fp16", or a small format's name
  int bits;                   // of one element
  std::string_view operand;   // the builtin's type
  int format_code = 0;        // by which f8f6f4 is told

  const hip::MfmaInstruction& instruction() const;
  bool scaled() const { return instruction().scaled(); }
  /// From issue to the next instruction of its kind.
  int cycles() const { return instruction().cycles_of(bits); }
};

std::span<const MfmaExample> mfma_examples();

/// A is [mn][k] and B [mn][k] (column by column), D [mn][mn] in fp32; where there are scales,
/// `workspace` holds A's, [mn][k/32], then B's. Errors: internal.
Result<Source> render_example(const MfmaExample& example);
GpuLaunch example_launch();

/// Of one card whose matrix units have the instruction.
struct MatrixPeak {
  std::string model;
  int cores;  // matrix units
  double ghz;
  double tflops;  // 2 · M · N · K · cores · clock / cycles
};

/// MI300X, MI325X and MI355X, as far as they have the instruction. Compute units and clocks are
/// those of AMD's data sheets, which derive their own peaks from them.
std::vector<MatrixPeak> peaks_of(const MfmaExample& example);

}  // namespace kiln
