// What a config of cuda_mma becomes in its source: constants, macros, choices.
#include <fmt/format.h>

#include "generator/families/cuda/common/groups.h"
#include "generator/families/cuda/mma/config.h"
#include "generator/families/cuda/mma/sizes.h"
#include "generator/problem/gate.h"

namespace kiln::cuda {
namespace {

std::string_view mma_type(DType t) {
  switch (t) {
    case DType::fp16:
      return "f16";
    case DType::bf16:
      return "bf16";
    case DType::tf32:
      return "tf32";
    case DType::fp64:
      return "f64";
    case DType::fp8_e4m3:
      return "e4m3";
    case DType::fp8_e5m2:
      return "e5m2";
    case DType::s8:
      return "s8";
    case DType::u8:
      return "u8";
    default:
      return "";
  }
}

std::string_view accumulator_type(DType t) { return t == fp64 ? "f64" : t == s32 ? "s32" : "f32"; }

/// "{%0, %1}", counting on from `first`.
std::string registers(int first, int count) {
  std::string out = "{";
  for (int i = 0; i < count; ++i) out += fmt::format("{}%{}", i == 0 ? "" : ", ", first + i);
  return out + "}";
}

std::string operands(std::string_view constraint, std::string_view name, int count) {
  std::string out;
  for (int i = 0; i < count; ++i)
    out += fmt::format("{}\"{}\"(({})[{}])", i == 0 ? "" : ", ", constraint, name, i);
  return out;
}

}  // namespace

void add_mma_lists(Parameters& out, const MmaInstruction& m, const Gemm& g) {
  const auto define = [&](const char* name, std::string value) {
    out.constants.push_back({"define", name, std::move(value), ""});
  };
  const auto sum = accumulator_type(g.accumulator);
  const bool wide = g.accumulator == fp64;
  const std::string_view letter = wide ? "d" : g.accumulator == s32 ? "r" : "f";
  const std::string_view operand = wide ? "d" : "r";
  const int s = m.accumulators(), a = m.a_registers(), b = m.b_registers();
  define("KILN_MMA_NAME", fmt::format("\"mma.sync.aligned.m{}n8k{}.row.col.{}.{}.{}.{}\"", m.rows,
                                      m.k, sum, mma_type(g.a.dtype), mma_type(g.b.dtype), sum));
  define("KILN_MMA_TEXT", fmt::format("\"{}, {}, {}, {}\"", registers(0, s), registers(s, a),
                                      registers(s + a, b), registers(0, s)));
  define("KILN_MMA_SUMS(d)", operands(fmt::format("+{}", letter), "d", s));
  define("KILN_MMA_OPERANDS(a, b)",
         operands(operand, "a", a) + ", \\\n  " + operands(operand, "b", b));
}

void add_pairs(Parameters& out, const Gemm& g) {
  const auto define = [&](const char* name, std::string value) {
    out.constants.push_back({"define", name, std::move(value), ""});
  };
  const bool wide = g.accumulator == fp64;
  const std::string_view letter = wide ? "d" : g.accumulator == s32 ? "r" : "f";
  const std::string_view bits = wide ? "b64" : "b32";
  define("KILN_ACC_IN(x)", fmt::format("\"{}\"(x)", letter));
  define("KILN_ACC_OUT(x)", fmt::format("\"={}\"(x)", letter));
  define("KILN_LOAD_PAIR", fmt::format("\"ld.global.cg.v2.{} {{%0, %1}}, [%2];\"", bits));
  define("KILN_STORE_PAIR", fmt::format("\"st.global.v2.{} [%0], {{%1, %2}};\"", bits));
}

namespace {

void add_sizes(Parameters& out, const MmaSizes& w, const CudaMma& c) {
  const auto add = [&](const char* name, std::int64_t value, const char* gloss) {
    out.constants.push_back(number(name, value, gloss));
  };
  add("kBlockM", c.block_m, "rows of D in a block's tile");
  add("kBlockN", c.block_n, "columns of D in it");
  add("kBlockK", c.block_k, "k of one stage");
  add("kWarpsM", c.warps_m, "warps that share the tile's rows");
  add("kThreads", w.threads, "of a block");
  add("kBlocks", w.blocks, "that are to fit one SM");
  add("kTilesM", w.tiles_m, "16 rows each, of a warp");
  add("kTilesN", w.tiles_n, "8 columns each, of a warp");
  add("kChunks", w.chunks, "parts of a step, each with 4 registers of 16 rows of A");
  add("kStepK", w.step_k, "k of one step");
  add("kMmaSums", w.instruction->accumulators(), "registers of sums of the matrix instruction");
  add("kMmaA", w.instruction->a_registers(), "registers of A");
  add("kMmaB", w.instruction->b_registers(), "registers of B");
  if (w.async) add("kStages", c.stages, "of the ring");
  if (!w.async) add("kWidth", w.width, "bytes that are read at once");
  add("kUnit", w.unit, "bytes of one copy to shared memory");
  add("kBitsA", c.bits_a, "of a byte's place in a line of A's tile that are exchanged");
  add("kBaseA", c.base_a, "the first of them");
  add("kShiftA", c.shift_a, "with bits of the line's number from here on");
  add("kBitsB", c.bits_b, "the same for B");
  add("kBaseB", c.base_b, "");
  add("kShiftB", c.shift_b, "");
  add("kStoreWidth", w.store_width, "elements of D stored at once");
  add("kGroup", c.group, "rows of tiles in a band of the rasterization");
  if (c.sharing() != Sharing::tiles)
    add("kCounterBytes", w.counter_bytes, "front of the workspace, counters of tiles");
  if (c.splits > 1) add("kSplits", c.splits, "parts that k is divided into");
}

}  // namespace

Parameters mma_parameters(const Problem& p, const DeviceCaps& d, const CudaMma& c,
                          const MmaSizes& w) {
  Parameters out;
  add_common(out, p, d);
  const bool wide = p.gemm.accumulator == fp64;
  out.constants.push_back(
      {"using", "Fragment", wide ? "double" : "u32", "a register of an operand"});
  add_sizes(out, w, c);
  add_groups(out, p.gemm, c.block_m, c.block_k, gated(p.gemm) ? c.block_n / 2 : c.block_n);
  out.constants.push_back(flag("kAlongKA", p.a_k_major, "A's neighbours run along k"));
  out.constants.push_back(flag("kAlongKB", p.b_k_major, "B's neighbours run along k"));
  add_mma_lists(out, *w.instruction, p.gemm);
  if (c.sharing() != Sharing::tiles) add_pairs(out, p.gemm);
  auto& v = out.values;
  v["matrix"] = value_of(true);
  v["async"] = value_of(w.async);
  v["overlaps"] = value_of(w.overlaps);
  v["ahead"] = value_of(c.ahead);
  add_tile_scheduler(v, p.gemm, c.sharing());
  v["double"] = value_of(wide);
  v["short_runs"] = value_of(!wide && w.near_b == 1);
  v["tf32"] = value_of(p.gemm.a.dtype == tf32);
  return out;
}

}  // namespace kiln::cuda
