// The constants and choices of templates/cuda/small.
#include "generator/families/cuda/small/sizes.h"

namespace kiln::cuda::small {
namespace {

void add_operand(Parameters& out, const SmallOperand& o, char side) {
  const auto add = [&](const char* name, int value, const char* gloss) {
    out.constants.push_back(number(std::string(name) + side, value, gloss));
  };
  const auto mark = [&](const char* name, bool value, const char* gloss) {
    out.constants.push_back(flag(std::string(name) + side, value, gloss));
  };
  mark("kAlongK", o.along_k, "neighbours run along k");
  mark("kDense", o.dense, "lines and products are adjacent in memory");
  mark("kFlat", o.flat, "a block's products are copied as one run");
  add("kPitch", o.pitch, "elements between lines in shared memory");
  add("kApart", o.apart, "elements between products there");
}

}  // namespace

Parameters small_parameters(const Problem& p, const DeviceCaps& d, const CudaSmall& c,
                            const SmallSizes& w) {
  const Gemm& g = p.gemm;
  Parameters out;
  add_common(out, p, d);
  const auto add = [&](const char* name, std::int64_t value, const char* gloss) {
    out.constants.push_back(number(name, value, gloss));
  };
  add("kM", g.m, "rows of D");
  add("kN", g.n, "columns of D");
  add("kK", g.k, "columns of op(A)");
  add("kProducts", c.products, "of a block at once");
  add("kLanesM", c.lanes_m, "lanes of a product along its rows");
  add("kLanesN", c.lanes_n, "lanes of it along its columns");
  add("kThreadM", w.a.each, "rows of a lane's accumulators");
  add("kThreadN", w.b.each, "columns of them");
  add("kRunM", w.a.group, "rows that a lane has side by side");
  add("kRunN", w.b.group, "columns that it has side by side");
  add("kDepth", c.depth, "steps of k whose factors are read together");
  add("kUnroll", w.unroll, "times that the loop's body holds them");
  add("kThreads", w.threads, "of a block");
  add("kResident", c.resident, "blocks of a unit at once");
  add("kWidth", c.width, "bytes of A and B copied at once");
  add("kStages", c.stages, "groups of products in shared memory");
  add_operand(out, w.a, 'A');
  add_operand(out, w.b, 'B');
  add("kStoreWidth", w.store_width,
      c.store == SmallStore::shared ? "accumulators that a lane leaves at once"
                                    : "elements of D that a lane stores at once");
  if (c.store == SmallStore::shared)
    add("kWidthD", w.width_d, "elements of D that a block's thread finishes at once");
  if (c.matrix) {
    const MmaInstruction& m = *w.instruction;
    out.constants.push_back(
        {"using", "Fragment", g.a.dtype == fp64 ? "double" : "u32", "a register of an operand"});
    add("kChunks", 1, "parts of a step of the instruction");
    add("kMmaSums", m.accumulators(), "accumulator registers of the matrix instruction");
    add("kMmaA", m.a_registers(), "registers of A");
    add("kMmaB", m.b_registers(), "registers of B");
    add_mma_lists(out, m, g);
  } else {
    add("kVectorA", w.a.vector, "elements of A read from shared memory at once");
    add("kVectorB", w.b.vector, "elements of B read from it at once");
  }
  auto& v = out.values;
  v["copy"] = name(c.copy);
  v["store"] = name(c.store);
  v["stages"] = std::to_string(c.stages);
  v["matrix"] = value_of(c.matrix);
  v["overlaps"] = value_of(w.overlaps);
  v["async"] = value_of(c.copy == SmallCopy::async);
  v["double"] = value_of(g.a.dtype == fp64);
  v["short_runs"] = v["tf32"] = value_of(false);
  return out;
}

}  // namespace kiln::cuda::small
