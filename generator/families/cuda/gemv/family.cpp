// Family cuda_gemv: axes, rules, parameters, launch and model of templates/cuda/gemv/gemv.cu and,
// for rows at any address, gemv_shifted.cu and gemv_mma.cu.
#include <algorithm>
#include <array>
#include <cmath>

#include "generator/families/cuda/mma/plan.h"

namespace kiln {
namespace {

/// Accumulators of more rows than this do not fit the registers beside the operands.
constexpr std::int64_t kMostThin = 16;

const CudaGemv& typed(const Config& c) { return std::get<CudaGemv>(c); }

constexpr std::array<std::string_view, 10> kFiles{
    "cuda/common/abi.h",      "cuda/common/types.h",     "cuda/common/convert.h",
    "cuda/common/epilogue.h", "cuda/gemv/gemv.cu",       "cuda/gemv/words.h",
    "cuda/common/mma.h",      "cuda/common/unaligned.h", "cuda/gemv/shifted.cu",
    "cuda/gemv/matrix.cu"};

std::int64_t thin_of(const Gemm& g, const CudaGemv& c) { return c.swap ? g.n : g.m; }
std::int64_t wide_of(const Gemm& g, const CudaGemv& c) { return c.swap ? g.m : g.n; }
DType wide_type(const Gemm& g, const CudaGemv& c) { return c.swap ? g.a.dtype : g.b.dtype; }

/// Reads aligned 16-byte words; the thin operand is shifted to match them.
bool by_words(const CudaGemv& c) { return c.width == 0; }
bool shifted(const CudaGemv& c) { return by_words(c) && !c.matrix; }
/// Elements of a row that a lane reads at once.
int elements_of(const Gemm& g, const CudaGemv& c) {
  return by_words(c) ? 16 / size_of(wide_type(g, c)) : c.width;
}
constexpr int kMatrixRows = 16;
/// Read by words, a block's rows all begin at the same place within one.
std::int64_t classes_of(const Gemm& g, const CudaGemv& c) {
  return by_words(c) && !(c.matrix && g.alignment >= 16) ? elements_of(g, c) : 1;
}
std::int64_t blocks_of(const Gemm& g, const CudaGemv& c) {
  const std::int64_t rows = ceil_div(wide_of(g, c), classes_of(g, c));
  const std::int64_t each = c.matrix ? kMatrixRows : std::int64_t{c.warps} * c.rows;
  return classes_of(g, c) * ceil_div(rows, each) * g.batch;
}
/// Aligned words that a row holds whole, at most.
std::int64_t words_of(const Gemm& g, const CudaGemv& c) { return g.k / elements_of(g, c); }

/// Of a matrix instruction's rows, the words that each lane has: every fourth of its warp's part.
constexpr int kMostSteps = 14;
std::int64_t steps_of(const Gemm& g, const CudaGemv& c) {
  return std::max<std::int64_t>(1, ceil_div(words_of(g, c), std::int64_t{4} * c.warps));
}
/// Whole words of the thin rows that each thread copies to shared memory.
constexpr int kMostWhole = 6;
std::int64_t whole_of(const Gemm& g, const CudaGemv& c) {
  return ceil_div(words_of(g, c) * thin_of(g, c), std::int64_t{32} * c.warps);
}
/// Occupancy in blocks when registers hold little but data in flight: 3×5000×777 takes 4.85
/// us with 96 registers a thread, 5.28 with 112 (H200), because fewer of the next grid's blocks
/// find room.
std::int64_t resident_of(const Gemm& g, const DeviceCaps& d, const CudaGemv& c) {
  const std::int64_t registers = round_up(8 * steps_of(g, c) + 9 * whole_of(g, c) + 13, 8);
  return std::min<std::int64_t>(
      d.gpu.registers_unit / (32 * c.warps * std::max<std::int64_t>(40, registers)),
      d.gpu.threads_unit / (32 * c.warps));
}
const cuda::MmaInstruction* instruction_of(const Gemm& g, const DeviceCaps& d) {
  return g.a.dtype == g.b.dtype && size_of(g.a.dtype) == 2 ? cuda::mma_instruction(g, d, 16)
                                                           : nullptr;
}

/// Words of each row in flight to a lane: four where the registers have room.
int ahead_of(const Gemm& g, const CudaGemv& c) {
  const std::int64_t values = c.rows * (thin_of(g, c) + elements_of(g, c));
  return size_of(g.accumulator) / 4 * values <= 64 ? 4 : 2;
}
/// Words of a thin row that shared memory holds at once.
int panel_of(const Gemm& g, const CudaGemv& c) {
  // All of them, and a ragged one at each end.
  if (c.matrix) return static_cast<int>(words_of(g, c)) + 2;
  constexpr int kPanelBytes = 32 << 10;
  const int turn = 32 * ahead_of(g, c);
  return std::max(1, kPanelBytes / (16 * static_cast<int>(thin_of(g, c)) * turn)) * turn;
}

const std::array kRules{
    Rule{"m (n with swap=1) is 1 to 16, the other side's operand is k-major, B is not packed",
         [](const Canonical& p, const DeviceCaps&, const Config& c) {
           const auto& v = typed(c);
           const std::int64_t thin = thin_of(p.gemm, v);
           return thin >= 1 && thin <= kMostThin && !p.gemm.b_packed &&
                  (v.swap ? p.a_k_major : p.b_k_major);
         }},
    Rule{"8-bit float operands need sm_89 or later",
         [](const Canonical& p, const DeviceCaps& d, const Config&) {
           const auto is_fp8 = [](DType t) { return t == fp8_e4m3 || t == fp8_e5m2; };
           return d.gpu.sm >= 89 || (!is_fp8(p.gemm.a.dtype) && !is_fp8(p.gemm.b.dtype));
         }},
    Rule{"warps is 1 to 32, rows at least 1, and accumulators fit the registers",
         [](const Canonical& p, const DeviceCaps&, const Config& c) {
           const auto& v = typed(c);
           const std::int64_t words = size_of(p.gemm.accumulator) / 4;
           return v.rows >= 1 && v.width >= 0 && v.warps >= 1 && v.warps <= 32 &&
                  (v.matrix ||
                   words * v.rows * (thin_of(p.gemm, v) + elements_of(p.gemm, v)) <= 128);
         }},
    Rule{"matrix=1 needs width=0, rows=16, 16-bit operands, at most 8 thin rows, and a k whose "
         "words fit registers and shared memory",
         [](const Canonical& p, const DeviceCaps& d, const Config& c) {
           const auto& v = typed(c);
           if (!v.matrix) return true;
           // Of shared memory, as templates/cuda/gemv/matrix.cu lays it out.
           constexpr std::int64_t kRoom = 47 << 10, kColumns = 8;
           const std::int64_t thin = thin_of(p.gemm, v), panel = thin * panel_of(p.gemm, v) * 16;
           const std::int64_t ends = kMatrixRows * 2 * 16;
           const std::int64_t parts = v.warps * kMatrixRows * kColumns * 4;
           return by_words(v) && v.rows == kMatrixRows && words_of(p.gemm, v) >= 1 &&
                  thin <= kColumns && instruction_of(p.gemm, d) != nullptr &&
                  steps_of(p.gemm, v) <= kMostSteps && whole_of(p.gemm, v) <= kMostWhole &&
                  resident_of(p.gemm, d, v) >= 1 && panel + ends + parts <= kRoom;
         }},
    Rule{"a read of several elements is 2 to 16 bytes, a power of two that divides the alignment",
         [](const Canonical& p, const DeviceCaps&, const Config& c) {
           const auto fits = [&](DType t) {
             const int bytes = typed(c).width * size_of(t);
             return by_words(typed(c)) || typed(c).width == 1 ||
                    (bytes <= 16 && (bytes & (bytes - 1)) == 0 && p.gemm.alignment % bytes == 0);
           };
           return fits(p.gemm.a.dtype) && fits(p.gemm.b.dtype);
         }},
    Rule{"width=0 needs rows whose 16-byte words are counted in 31 bits",
         [](const Canonical& p, const DeviceCaps&, const Config& c) {
           return !by_words(typed(c)) ||
                  words_of(p.gemm, typed(c)) < (std::int64_t{1} << 31) - 1024;
         }},
    Rule{"the grid has fewer than 2^31 blocks",
         [](const Canonical& p, const DeviceCaps&, const Config& c) {
           return blocks_of(p.gemm, typed(c)) < std::int64_t{1} << 31;
         }},
};

void enumerate(const Canonical& p, const DeviceCaps&,
               const std::function<void(const Config&)>& visit) {
  for (const bool swap : {false, true}) {
    if ((swap ? p.gemm.n : p.gemm.m) > kMostThin) continue;
    for (const int rows : {1, 2, 4})
      for (const int width : {0, 1, 2, 4, 8, 16}) {
        // Where words are aligned anyway, nothing need be shifted.
        if (width == 0 && p.gemm.alignment >= 16) continue;
        for (const int warps : {4, 8}) visit(CudaGemv{rows, width, warps, swap});
      }
    for (const int warps : {2, 4, 8, 16})
      visit(
          CudaGemv{.rows = kMatrixRows, .width = 0, .warps = warps, .swap = swap, .matrix = true});
  }
}

/// Whether grids may begin while the one before them ends.
bool overlaps(const DeviceCaps& d, const CudaGemv& c) { return by_words(c) && d.gpu.sm >= 90; }

Parameters parameters(const Canonical& p, const DeviceCaps& d, const Config& config) {
  const auto& c = typed(config);
  Parameters out;
  cuda::add_common(out, p, d);
  auto add = [&](const char* name, std::int64_t value, const char* gloss) {
    out.constants.push_back(number(name, value, gloss));
  };
  add("kThin", thin_of(p.gemm, c), "rows of the thin operand");
  if (c.matrix) {
    const auto& m = *instruction_of(p.gemm, d);
    out.constants.push_back({"using", "Fragment", "u32", "a register of an operand"});
    add("kChunks", 1, "parts of a step of the instruction");
    add("kMmaSums", m.accumulators(), "registers of sums of the matrix instruction");
    add("kMmaA", m.a_registers(), "registers of the wide operand");
    add("kMmaB", m.b_registers(), "registers of the thin one");
    add("kClasses", classes_of(p.gemm, c), "places within a word where rows begin");
    add("kSteps", steps_of(p.gemm, c), "words of a row that a lane has");
    add("kPanel", panel_of(p.gemm, c), "words of each thin row in shared memory");
    add("kResident", resident_of(p.gemm, d, c), "blocks that are to fit one SM");
    cuda::add_mma_lists(out, m, p.gemm);
  } else {
    add("kRows", c.rows, "rows of the wide operand that a warp takes");
  }
  if (shifted(c)) {
    add("kAhead", ahead_of(p.gemm, c), "words of each row on their way to a lane");
    add("kPanel", panel_of(p.gemm, c), "words of each thin row in shared memory at once");
  } else if (!c.matrix) {
    add("kWidth", c.width, "elements read at once");
  }
  add("kWarps", c.warps, "of a block");
  out.constants.push_back(flag("kSwap", c.swap, "thin is B"));
  out.constants.push_back(flag("kThinAlongK", c.swap ? p.b_k_major : p.a_k_major,
                               "the thin operand's neighbours run along k"));
  out.constants.push_back({"define", "KILN_THIN", c.swap ? "TypeB" : "TypeA", ""});
  out.constants.push_back({"define", "KILN_WIDE", c.swap ? "TypeA" : "TypeB", ""});
  out.values["by_words"] = value_of(by_words(c));
  out.values["shifted"] = value_of(shifted(c));
  out.values["matrix"] = out.values["unaligned"] = value_of(c.matrix);
  out.values["overlaps"] = value_of(overlaps(d, c));
  return out;
}

GpuLaunch launch(const Canonical& p, const DeviceCaps& d, const Config& config) {
  const auto& c = typed(config);
  GpuLaunch out;
  GpuStep step;
  step.grid.x = static_cast<unsigned>(blocks_of(p.gemm, c));
  step.block.x = static_cast<unsigned>(c.warps * 32);
  step.overlaps_previous = overlaps(d, c);
  if (step.grid.x > 0) out.steps.push_back(step);
  return out;
}

/// Instructions that a warp takes for one turn along k, each lane with its elements of the thin
/// rows and of its own.
double issued_a_turn(const Gemm& g, const CudaGemv& c) {
  const double thin = double(thin_of(g, c)), each = elements_of(g, c);
  const double products = thin * c.rows * each;
  if (!shifted(c)) return (c.rows + thin) * (4 + 2 * each) + products + 10;
  const double converted = size_of(wide_type(g, c)) < 4 ? each : 0;
  return (c.rows + thin) * (2 + converted) + products + 6;
}
/// And once: addresses, the thin operand's share, adding up, the store.
double issued_once(const Gemm& g, const CudaGemv& c) {
  const double accumulators = double(thin_of(g, c)) * c.rows;
  return shifted(c) ? 500 + 4 * accumulators : 12 * accumulators;
}

/// What a call asks of the device's warps.
struct Effort {
  double warps;    // of all blocks
  double issued;   // instructions of each
  double flight;   // bytes that each has in flight
  double layouts;  // times that the thin operand is laid out, one after the other
};

Effort effort_of(const Gemm& g, const CudaGemv& c) {
  const double wide = double(wide_of(g, c)) * double(g.batch);
  const double words = double(words_of(g, c)), each = elements_of(g, c) * size_of(wide_type(g, c));
  if (c.matrix) {
    const double steps = double(steps_of(g, c));
    return {double(blocks_of(g, c)) * c.warps, 300 + 40 * double(whole_of(g, c)) + 14 * steps,
            32.0 * 2 * 16 * steps, 1};
  }
  const double turns =
      shifted(c) ? std::ceil(words / 32) : std::max(1.0, double(g.k) / (32.0 * c.width));
  // Ordinary loads have three iterations in flight: 3×5000×777 read two bytes at a time took 9.7 us
  // (H200).
  return {wide / c.rows, turns * issued_a_turn(g, c) + issued_once(g, c),
          32.0 * c.rows * each * (shifted(c) ? ahead_of(g, c) : 3),
          shifted(c) ? double(ceil_div(words_of(g, c), panel_of(g, c))) : 0};
}

double predict(const Canonical& p, const DeviceCaps& d, const Config& config) {
  const auto& c = typed(config);
  const Gemm& g = p.gemm;
  const double ghz = d.ghz > 0 ? d.ghz : 1.5, units = std::max(1, d.compute_units);
  const Effort e = effort_of(g, c);
  const double issue = e.warps * e.issued / (4 * units) / ghz;
  const double bytes =
      double(wide_of(g, c)) * double(g.batch) * double(g.k) * size_of(wide_type(g, c));
  // The bytes that an SM's warps have in flight bound what one latency can deliver.
  constexpr double kLatency = 800, kWarps = 40;
  const double warps = std::clamp(e.warps / units, 1.0, kWarps);
  const double rate =
      std::min(0.75 * std::max(1, d.gpu.memory_gbs), units * warps * e.flight / kLatency);
  const double memory = bytes / rate;
  return 3000 + 400 * e.layouts + std::max(issue, memory) + 0.3 * std::min(issue, memory);
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
