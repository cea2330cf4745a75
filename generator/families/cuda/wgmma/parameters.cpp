// What a config of cuda_wgmma becomes in its source: constants, macros, choices.
#include <fmt/format.h>

#include "generator/families/cuda/common/groups.h"
#include "generator/families/cuda/wgmma/config.h"
#include "generator/families/cuda/wgmma/sizes.h"
#include "generator/problem/extent.h"
#include "generator/problem/gate.h"
#include "generator/problem/groups.h"

namespace kiln::cuda {

std::string_view wgmma_type(DType t) {
  switch (t) {
    case DType::bf16:
      return "bf16";
    case DType::fp16:
      return "f16";
    case DType::tf32:
      return "tf32";
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

namespace {

/// Lists that only text can give: one register after the other.
/// A branch for each turn of a tile that is finished in a loop, which moves its sums.
void add_turns(Parameters& out, const WgmmaSizes& w, int held, const char* letter) {
  const int sums = w.subtiles * w.accumulators, turns = sums / held;
  std::string table = "\"turns: .branchtargets ", branches, taken, all;
  for (int turn = 0; turn < turns; ++turn) {
    table += fmt::format("t{}{}", turn, turn + 1 < turns ? ", " : ";\\n\"");
    branches += fmt::format(" \\\n  \"t{}:", turn);
    for (int e = 0; e < held; ++e)
      branches += fmt::format(" mov.b32 %{}, %{};", e, held + turn * held + e);
    branches += turn + 1 < turns ? "\\nbra done;\\n\"" : "\\n\"";
  }
  for (int e = 0; e < held; ++e)
    taken += fmt::format("{}\"=&{}\"((d)[{}])", e > 0 ? ", " : "", letter, e);
  for (int i = 0; i < sums; ++i)
    all += fmt::format("{}\"{}\"((d)[{}][{}])",
                       i == 0       ? ""
                       : i % 6 == 0 ? ", \\\n  "
                                    : ", ",
                       letter, i / w.accumulators, i % w.accumulators);
  const auto define = [&](const char* name, std::string value) {
    out.constants.push_back({"define", name, std::move(value), ""});
  };
  define("KILN_TURN_BRANCHES",
         fmt::format("{} \\\n  \"brx.idx %{}, turns;\\n\"{}", table, held + sums, branches));
  define("KILN_TURN_TAKEN(d)", taken);
  define("KILN_TURN_SUMS(d)", all);
}

void add_lists(Parameters& out, const WgmmaSizes& w, const CudaWgmma& c, bool integer, int held) {
  const auto define = [&](const char* name, std::string value) {
    out.constants.push_back({"define", name, std::move(value), ""});
  };
  const char* letter = integer ? "r" : "f";
  std::string accumulators = "\"{", tied;
  for (int i = 0; i < w.accumulators; ++i) {
    const bool last = i + 1 == w.accumulators;
    const char* line = !last && i % 8 == 7 ? "\" \\\n  \"" : "";
    accumulators += fmt::format("%{}{}{}", i, last ? "}\"" : ", ", line);
    tied += fmt::format("\"+{}\"((d)[{}]){}{}", letter, i, last ? "" : ", ",
                        !last && i % 8 == 7 ? "\\\n  " : "");
  }
  const auto left = wgmma_type(w.left.type), right = wgmma_type(w.right.type);
  const bool transposes = size_of(w.left.type) == 2;
  // The left operand: four words, or a descriptor.
  const int words = w.left_registers ? 4 : 1;
  const std::string left_text =
      w.left_registers ? fmt::format("{{%{}, %{}, %{}, %{}}}", w.accumulators, w.accumulators + 1,
                                     w.accumulators + 2, w.accumulators + 3)
                       : fmt::format("%{}", w.accumulators);
  std::string operands = fmt::format("\"{}, %{}, p", left_text, w.accumulators + words);
  if (!integer) operands += ", 1, 1";
  if (transposes && !w.left_registers) operands += fmt::format(", {}", int(w.left.across_k));
  if (transposes) operands += fmt::format(", {}", int(w.right.across_k));
  define("KILN_WGMMA_NAME",
         fmt::format("\"wgmma.mma_async.sync.aligned.m64n{}k{}.{}.{}.{}\"", c.right,
                     32 / size_of(w.left.type), integer ? "s32" : "f32", left, right));
  define("KILN_WGMMA_SUMS", accumulators);
  define("KILN_WGMMA_OPERANDS", operands + "\"");
  define("KILN_WGMMA_ACCUMULATE", fmt::format("\"{}\"", w.accumulators + words + 1));
  define("KILN_WGMMA_TIED(d)", tied);
  define("KILN_WGMMA_REGISTER", fmt::format("\"{}\"", letter));
  if (held > 0) add_turns(out, w, held, letter);
  define("KILN_ACC_IN(x)", fmt::format("\"{}\"(x)", letter));
  define("KILN_ACC_OUT(x)", fmt::format("\"={}\"(x)", letter));
}

void add_sizes(Parameters& out, const Problem& p, const WgmmaSizes& w, const CudaWgmma& c) {
  auto add = [&](const char* name, std::int64_t value, const char* gloss) {
    out.constants.push_back(number(name, value, gloss));
  };
  const auto hint = [&](const char* name, const char* value, const char* gloss) {
    out.constants.push_back({"u64", name, value, gloss});
  };
  const WgmmaRegisters& registers = w.registers;
  add("kLeftTile", c.left, "rows of the left operand in a block's tile");
  add("kRightTile", c.right, "rows of the right operand in it");
  add("kDepth", w.depth, "k of one stage");
  add("kStages", c.stages, "places in the ring");
  add("kWarpgroups", c.warpgroups, "that multiply");
  add("kWarpgroupRows", w.warpgroup_rows, "left rows of each");
  add("kSums", w.accumulators, "of a thread, for 64 left rows");
  add("kReaders", (c.pingpong ? 1 : c.warpgroups) * 4, "warps that read one stage");
  add("kRegions", c.pingpong ? 1 : c.warpgroups, "warpgroups that share a tile");
  add("kClusterLeft", c.cluster_left, "blocks of a cluster along the left rows");
  add("kClusterRight", c.cluster_right, "and along the right rows");
  add("kGroup", c.group, "tiles across a band of the rasterization");
  const int left = c.left * c.cluster_left, right = c.right * c.cluster_right;
  const int factors = gated(p.gemm) ? 2 : 1;
  add_groups(out, p.gemm, c.swap ? right : left, w.depth, (c.swap ? left : right) / factors);
  if (blocks_along_k(p.gemm.a.q.scale)) {
    const auto lines = [](Scale s) { return scale_block(s).lines; };
    add("kLeftLines", lines(c.swap ? p.gemm.b.q.scale : p.gemm.a.q.scale),
        "rows of the left operand that share a scale");
    add("kRightLines", lines(c.swap ? p.gemm.a.q.scale : p.gemm.b.q.scale), "and of the right one");
    add("kLeftShare", w.left.scale_share, "rows of its tile for which a stage has one scale");
    add("kRightShare", w.right.scale_share, "and of the right one's");
    if (orders_scales(p.gemm)) {
      add("kUnitA", unit_of_scales(p.gemm.a.q.order),
          "A's scales of a stage lie side by side in rows of whole units, 0: those of a line");
      add("kUnitB", unit_of_scales(p.gemm.b.q.order), "and B's");
    }
  }
  if (c.sharing == Sharing::split || c.sharing == Sharing::summed)
    add("kSplits", c.splits, "parts that k is divided into");
  if (c.sharing == Sharing::split || c.sharing == Sharing::stream)
    add("kPiecesAtOnce", w.partials_at_once, "parts whose accumulators are fetched together");
  if (w.store != WgmmaSizes::Store::direct) {
    add("kChunk", w.chunk, "right rows that one store buffer holds");
    add("kStoreBuffers", w.store_buffers, "of each warp");
  }
  if (rolls(p.gemm, c)) add("kHeld", w.held, "sums of a thread that are finished together");
  if (c.bring) {
    add("kTurnsOfPart", w.turns_of_part, "turns for which a part of matrices is brought");
    add("kPartRight", w.turns_of_part * 2 * w.held, "right rows of such a part");
    add("kParts", w.parts_of_tile, "parts of a tile");
    if (c.pingpong) add("kPartBytes", w.part_bytes, "bytes of a part");
  }
  if (const Together together = wgmma_together(p.gemm, c, w); together.of_row > 1)
    add("kRightTogether", c.swap ? together.of_column : together.of_row,
        "right rows of which lanes make one of the values that are reduced");
  add("kCopyRegisters", registers.copy, "of the warps that copy");
  add("kMultiplyRegisters", registers.multiply, "of the warps that multiply");
  add("kTurnBarrier", 1, "named barriers 1 and 2: whose turn it is");
  add("kGroupBarrier", 3, "named barriers from 3 on: one a warpgroup");
  add("kCounterBytes", w.counter_bytes, "front of the workspace");
  out.constants.push_back(flag("kPackA", c.pack_a, "A is copied into the workspace first"));
  out.constants.push_back(flag("kPackB", c.pack_b, "B is copied into the workspace first"));
  out.constants.push_back(flag("kAlongKA", p.a_k_major, "A's neighbours run along k"));
  out.constants.push_back(flag("kAlongKB", p.b_k_major, "B's neighbours run along k"));
  out.constants.push_back(flag("kSwap", c.swap, "left is B: D's tile is computed transposed"));
  out.constants.push_back(
      flag("kLeftAcrossK", w.left.across_k, "the left operand's rows are neighbours in memory"));
  out.constants.push_back(
      flag("kRightAcrossK", w.right.across_k, "the right operand's rows are neighbours"));
  hint("kLeftHint", c.keep_right ? "0x12F0000000000000" : "0x1000000000000000",
       "L2 policy: evict first, or normal");
  if (c.bring) hint("kBroughtHint", "0x1000000000000000", "of matrices that an expression reads");
  hint("kRightHint", c.keep_right ? "0x14F0000000000000" : "0x1000000000000000",
       "L2 policy: evict last, or normal");
}

}  // namespace

Parameters wgmma_parameters(const Problem& p, const DeviceCaps& d, const CudaWgmma& c,
                            const WgmmaSizes& w) {
  Parameters out;
  add_common(out, p, d);
  add_sizes(out, p, w, c);
  add_lists(out, w, c, p.gemm.accumulator == s32, rolls(p.gemm, c) ? w.held : 0);
  auto& v = out.values;
  v["hopper"] = v["overlaps"] = "1";
  add_tile_scheduler(v, p.gemm, c.sharing, c.along, w.cluster);
  v["promote"] = value_of(c.promote);
  v["halves"] = value_of(c.halves);
  v["in_turn"] = value_of(w.in_turn);
  v["alternate"] = value_of(c.alternate);
  v["scales_at_once"] = value_of(w.scales_at_once);
  v["tma_scales"] = value_of(c.tma_scales);
  v["gather_copies"] = value_of(c.gather);
  v["weights"] = "0";
  v["left_registers"] = value_of(w.left_registers);
  v["block_scales"] = value_of(blocks_along_k(p.gemm.a.q.scale));
  v["scale_order"] = value_of(orders_scales(p.gemm));
  v["k_group_edges"] = value_of(p.gemm.grouping() == Grouping::k && p.a_k_major);
  v["scale_pairs"] = value_of(w.scale_pairs);
  v["pingpong"] = value_of(c.pingpong);
  v["pack"] = v["unaligned"] = value_of(!c.halves && (c.pack_a || c.pack_b));
  v["swap"] = value_of(c.swap);
  v["together"] = value_of(wgmma_together(p.gemm, c, w).of_row > 1);
  if (rolls(p.gemm, c)) add_pairs(out, p.gemm, c.swap ? Index::m : Index::n, c.bring);
  v["list_maps"] = v["lists"];
  v["groups_right"] = value_of(c.swap && (v["row_groups"] == "1" || v["lists"] == "1"));
  v["store"] = w.store == WgmmaSizes::Store::tma      ? "tma"
               : w.store == WgmmaSizes::Store::staged ? "staged"
                                                      : "direct";
  v["paired"] = value_of(c.paired);
  v["rolled"] = value_of(rolls(p.gemm, c));
  v["ahead"] = value_of(loads_ahead(p.gemm, c, w));
  v["bring"] = value_of(c.bring);
  v["clip"] = value_of(c.clip);
  v["clip_left"] = value_of(w.clip_left);
  v["clip_right"] = value_of(w.clip_right);
  v["wide_d"] = value_of(w.d_bytes == 4);
  v["pairs"] = value_of(alignment_of_d(p.gemm) >= 2 * size_of(p.gemm.d.dtype));
  return out;
}

}  // namespace kiln::cuda
