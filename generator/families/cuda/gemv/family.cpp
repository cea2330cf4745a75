// Family cuda_gemv: axes, rules, parameters, launch and model of templates/cuda/gemv/gemv.cu and,
// for rows at any address, shifted.cu and matrix.cu.
#include <algorithm>
#include <array>
#include <cmath>

#include "generator/families/cuda/gemv/config.h"
#include "generator/families/cuda/mma/sizes.h"
#include "generator/space/axes.h"
#include "generator/space/typed_family.h"

namespace kiln::cuda::gemv {
namespace {

/// Accumulators of more rows than this do not fit the registers beside the operands.
constexpr std::int64_t kMostThin = 16;

constexpr std::array<std::string_view, 15> kFiles{
    "cuda/common/abi.h",       "cuda/common/types.h",    "cuda/common/convert_ptx.h",
    "cuda/common/convert.h",   "cuda/common/epilogue.h", "cuda/gemv/read.h",
    "cuda/gemv/store.h",       "cuda/gemv/gemv.cu",      "cuda/gemv/words.h",
    "cuda/common/grid_ptx.h",  "cuda/common/mma_ptx.h",  "cuda/common/mma.h",
    "cuda/common/unaligned.h", "cuda/gemv/shifted.cu",   "cuda/gemv/matrix.cu"};

std::int64_t thin_of(const Gemm& g, const CudaGemv& c) { return c.swap ? g.n : g.m; }
/// Thin rows that the code has room for: with thin=0 their number is a constant of it.
std::int64_t room_of(const Gemm& g, const CudaGemv& c) {
  return c.thin == 0 ? thin_of(g, c) : c.thin;
}
DType wide_type(const Gemm& g, const CudaGemv& c) { return c.swap ? g.a.dtype : g.b.dtype; }

/// Reads aligned 16-byte words; the thin operand is shifted to match them.
bool by_words(const CudaGemv& c) { return c.width == 0; }
bool shifted(const CudaGemv& c) { return by_words(c) && !c.matrix; }
/// Elements of a row that a lane reads at once.
int elements_of(const Gemm& g, const CudaGemv& c) {
  return by_words(c) ? 16 / size_of(wide_type(g, c)) : c.width;
}
constexpr int kMatrixRows = 16;
/// Limits of matrix=1: words of a row that a lane has, and whole words of the thin rows that a
/// thread copies to shared memory.
constexpr int kMostSteps = 14, kMostWhole = 6;

struct GemvSizes {
  std::int64_t thin, wide;  // rows of either side; of the thin one those that there is room for
  DType wide_type;
  int elements;          // of a row that a lane reads at once
  std::int64_t words;    // aligned ones that a row holds whole, at most
  std::int64_t classes;  // read by words, a block's rows all begin at the same place within one
  std::int64_t blocks;
  std::int64_t steps;  // of a matrix instruction's rows, the words that each lane has: every fourth
                       // of its warp's part
  std::int64_t whole;  // words of the thin rows that each thread copies to shared memory
  std::int64_t resident;                    // occupancy in blocks
  const cuda::MmaInstruction* instruction;  // null where matrix=1 has none
  int ahead;      // words of each row in flight to a lane: four where the registers have room
  int panel;      // words of a thin row that shared memory holds at once
  bool overlaps;  // grids may begin while the one before them ends
};

/// Occupancy when registers hold little but data in flight: 3×5000×777 takes 4.85 us with 96
/// registers a thread, 5.28 with 112 (H200), because fewer of the next grid's blocks find room.
std::int64_t resident_of(const DeviceCaps& d, const CudaGemv& c, const GemvSizes& w) {
  const std::int64_t registers = round_up(8 * w.steps + 9 * w.whole + 13, 8);
  return std::min<std::int64_t>(
      d.gpu.registers_unit / (32 * c.warps * std::max<std::int64_t>(40, registers)),
      d.gpu.threads_unit / (32 * c.warps));
}

int panel_of(const CudaGemv& c, const GemvSizes& w) {
  // All of them, and a ragged one at each end.
  if (c.matrix) return static_cast<int>(w.words) + 2;
  constexpr int kPanelBytes = 32 << 10;
  const int turn = 32 * w.ahead;
  return std::max(1, kPanelBytes / (16 * static_cast<int>(w.thin) * turn)) * turn;
}

GemvSizes sizes_of(const Problem& p, const DeviceCaps& d, const CudaGemv& c) {
  const Gemm& g = p.gemm;
  GemvSizes w{};
  w.thin = room_of(g, c);
  w.wide = c.swap ? g.m : g.n;
  w.wide_type = wide_type(g, c);
  w.elements = elements_of(g, c);
  w.words = g.k / w.elements;
  const bool aligned = line_alignment(g, c.swap ? Operand::a : Operand::b) >= 16;
  w.classes = by_words(c) && !(c.matrix && aligned) ? w.elements : 1;
  const std::int64_t each = c.matrix ? kMatrixRows : std::int64_t{c.warps} * c.rows;
  w.blocks = w.classes * ceil_div(ceil_div(w.wide, w.classes), each) * g.batch;
  w.steps = std::max<std::int64_t>(1, ceil_div(w.words, std::int64_t{4} * c.warps));
  w.whole = ceil_div(w.words * w.thin, std::int64_t{32} * c.warps);
  w.resident = resident_of(d, c, w);
  w.instruction =
      g.a.dtype == g.b.dtype && size_of(g.a.dtype) == 2 ? cuda::mma_instruction(g, d, 16) : nullptr;
  w.ahead = size_of(g.accumulator) / 4 * c.rows * (w.thin + w.elements) <= 64 ? 4 : 2;
  w.panel = panel_of(c, w);
  w.overlaps = by_words(c) && d.gpu.sm >= 90;
  return w;
}

constexpr FirstRule<CudaGemv> kFirst[] = {
    {"m (n with swap=1) is 1 to 16 and at most thin, the other side's operand is k-major, B is not "
     "packed",
     [](const Problem& p, const DeviceCaps&, const CudaGemv& c) {
       const std::int64_t thin = thin_of(p.gemm, c);
       return thin >= 1 && thin <= room_of(p.gemm, c) && room_of(p.gemm, c) <= kMostThin &&
              !p.gemm.b_packed && (c.swap ? p.a_k_major : p.b_k_major);
     }},
    {"8-bit float operands need sm_89 or later",
     [](const Problem& p, const DeviceCaps& d, const CudaGemv&) {
       const auto is_fp8 = [](DType t) { return t == fp8_e4m3 || t == fp8_e5m2; };
       return d.gpu.sm >= 89 || (!is_fp8(p.gemm.a.dtype) && !is_fp8(p.gemm.b.dtype));
     }},
    {"warps is 1 to 32, rows at least 1, and accumulators fit the registers",
     [](const Problem& p, const DeviceCaps&, const CudaGemv& c) {
       const std::int64_t words = size_of(p.gemm.accumulator) / 4;
       return c.rows >= 1 && c.width >= 0 && c.warps >= 1 && c.warps <= 32 &&
              (c.matrix || words * c.rows * (room_of(p.gemm, c) + elements_of(p.gemm, c)) <= 128);
     }}};

constexpr Rule<CudaGemv, GemvSizes> kRules[] = {
    {"matrix=1 needs width=0, rows=16, 16-bit operands, at most 8 thin rows, and a k whose "
     "words fit registers and shared memory",
     [](const Problem&, const DeviceCaps&, const CudaGemv& c, const GemvSizes& w) {
       if (!c.matrix) return true;
       // Of shared memory, as templates/cuda/gemv/matrix.cu lays it out.
       constexpr std::int64_t kRoom = 47 << 10, kColumns = 8;
       const std::int64_t thin = w.thin, panel = thin * w.panel * 16;
       const std::int64_t ends = kMatrixRows * 2 * 16;
       const std::int64_t parts = c.warps * kMatrixRows * kColumns * 4;
       return by_words(c) && c.rows == kMatrixRows && w.words >= 1 && thin <= kColumns &&
              w.instruction != nullptr && w.steps <= kMostSteps && w.whole <= kMostWhole &&
              w.resident >= 1 && panel + ends + parts <= kRoom;
     }},
    {"a read of several elements is 2 to 16 bytes, a power of two that divides the alignment",
     [](const Problem& p, const DeviceCaps&, const CudaGemv& c, const GemvSizes&) {
       const auto fits = [&](Operand which) {
         const int bytes = c.width * size_of(dtype_of(p.gemm, which));
         return by_words(c) || c.width == 1 ||
                (bytes <= 16 && (bytes & (bytes - 1)) == 0 &&
                 line_alignment(p.gemm, which) % bytes == 0);
       };
       return fits(Operand::a) && fits(Operand::b);
     }},
    {"width=0 needs rows whose 16-byte words are counted in 31 bits",
     [](const Problem&, const DeviceCaps&, const CudaGemv& c, const GemvSizes& w) {
       return !by_words(c) || w.words < (std::int64_t{1} << 31) - 1024;
     }},
    {"the grid has fewer than 2^31 blocks",
     [](const Problem&, const DeviceCaps&, const CudaGemv&, const GemvSizes& w) {
       return w.blocks < std::int64_t{1} << 31;
     }}};

constexpr std::array kRows{1, 2, 4};
constexpr std::array kWidths{0, 1, 2, 4, 8, 16};
constexpr std::array kWarps{4, 8};
constexpr std::array kMatrixWarps{2, 4, 8, 16};

void enumerate(const Problem& p, const DeviceCaps&,
               const std::function<void(const Config&)>& visit) {
  const int aligned =
      std::min(line_alignment(p.gemm, Operand::a), line_alignment(p.gemm, Operand::b));
  for (const bool swap : {false, true}) {
    const std::int64_t thin = swap ? p.gemm.n : p.gemm.m;
    if (thin > kMostThin) continue;
    // Its own code, and code for as many rows and fewer, which a range may share.
    for (const int room : {0, 2, 4, 8, 16}) {
      if (room != 0 && (room < thin || (room > 2 && room / 2 >= thin))) continue;
      Product(kRows, kWidths, kWarps).each([&](int rows, int width, int warps) {
        // Where words are aligned anyway, nothing need be shifted.
        if (width == 0 && aligned >= 16) return;
        visit(CudaGemv{rows, width, warps, swap, false, room});
      });
      for (const int warps : kMatrixWarps) visit(CudaGemv{kMatrixRows, 0, warps, swap, true, room});
    }
  }
}

Parameters parameters(const Problem& p, const DeviceCaps& d, const CudaGemv& c,
                      const GemvSizes& w) {
  Parameters out;
  cuda::add_common(out, p, d);
  auto add = [&](const char* name, std::int64_t value, const char* gloss) {
    out.constants.push_back(number(name, value, gloss));
  };
  add("kThin", w.thin,
      c.thin == 0 ? "rows of the thin operand" : "rows of the thin operand that there is room for");
  if (c.matrix) {
    const auto& m = *w.instruction;
    out.constants.push_back({"using", "Fragment", "u32", "a register of an operand"});
    add("kChunks", 1, "parts of a step of the instruction");
    add("kMmaSums", m.accumulators(), "accumulator registers of the matrix instruction");
    add("kMmaA", m.a_registers(), "registers of the wide operand");
    add("kMmaB", m.b_registers(), "registers of the thin one");
    add("kClasses", w.classes, "places within a word where rows begin");
    add("kSteps", w.steps, "words of a row that a lane has");
    add("kPanel", w.panel, "words of each thin row in shared memory");
    add("kResident", w.resident, "blocks that are to fit one SM");
    cuda::add_mma_lists(out, m, p.gemm);
  } else {
    add("kRows", c.rows, "rows of the wide operand that a warp takes");
  }
  if (shifted(c)) {
    add("kAhead", w.ahead, "words of each row on their way to a lane");
    add("kPanel", w.panel, "words of each thin row in shared memory at once");
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
  out.values["any_thin"] = value_of(c.thin != 0);
  out.values["overlaps"] = value_of(w.overlaps);
  return out;
}

GpuLaunch launch(const Problem&, const DeviceCaps&, const CudaGemv& c, const GemvSizes& w) {
  GpuLaunch out;
  GpuStep step;
  step.grid.x = static_cast<unsigned>(w.blocks);
  step.block.x = static_cast<unsigned>(c.warps * 32);
  step.overlaps_previous = w.overlaps;
  if (step.grid.x > 0) out.steps.push_back(step);
  return out;
}

/// The rows of the thin operand are a constant of the code, unless it has room for several numbers.
Tile tile(const Problem&, const CudaGemv& c, const GemvSizes& w) {
  const std::int64_t wide = w.classes * (c.matrix ? kMatrixRows : std::int64_t{c.warps} * c.rows);
  const std::int64_t turn = std::int64_t{32} * w.elements;
  return c.swap ? Tile{wide, c.thin, turn} : Tile{c.thin, wide, turn};
}

/// Instructions that a warp takes for one turn along k, each lane with its elements of the thin
/// rows and of its own.
double issued_a_turn(const CudaGemv& c, const GemvSizes& w) {
  const double thin = double(w.thin), each = w.elements;
  const double products = thin * c.rows * each;
  if (!shifted(c)) return (c.rows + thin) * (4 + 2 * each) + products + 10;
  const double converted = size_of(w.wide_type) < 4 ? each : 0;
  return (c.rows + thin) * (2 + converted) + products + 6;
}
/// And once: addresses, the thin operand's share, adding up, the store.
double issued_once(const CudaGemv& c, const GemvSizes& w) {
  const double accumulators = double(w.thin) * c.rows;
  return shifted(c) ? 500 + 4 * accumulators : 12 * accumulators;
}

/// What a call asks of the device's warps.
struct Effort {
  double warps;    // of all blocks
  double issued;   // instructions of each
  double flight;   // bytes that each has in flight
  double layouts;  // times that the thin operand is laid out, one after the other
};

Effort effort_of(const Gemm& g, const CudaGemv& c, const GemvSizes& w) {
  const double wide = double(w.wide) * double(g.batch);
  const double words = double(w.words), each = w.elements * size_of(w.wide_type);
  if (c.matrix) {
    const double steps = double(w.steps);
    return {double(w.blocks) * c.warps, 300 + 40 * double(w.whole) + 14 * steps,
            32.0 * 2 * 16 * steps, 1};
  }
  const double turns =
      shifted(c) ? std::ceil(words / 32) : std::max(1.0, double(g.k) / (32.0 * c.width));
  // Ordinary loads have three iterations in flight: 3×5000×777 read two bytes at a time took 9.7 us
  // (H200).
  return {wide / c.rows, turns * issued_a_turn(c, w) + issued_once(c, w),
          32.0 * c.rows * each * (shifted(c) ? w.ahead : 3),
          shifted(c) ? double(ceil_div(w.words, w.panel)) : 0};
}

double predict(const Problem& p, const DeviceCaps& d, const CudaGemv& c, const GemvSizes& w) {
  const Gemm& g = p.gemm;
  const double ghz = d.ghz > 0 ? d.ghz : 1.5, units = std::max(1, d.compute_units);
  const Effort e = effort_of(g, c, w);
  const double issue = e.warps * e.issued / (4 * units) / ghz;
  const double bytes = double(w.wide) * double(g.batch) * double(g.k) * size_of(w.wide_type);
  // The bytes that an SM's warps have in flight bound what one latency can deliver.
  constexpr double kLatency = 800, kWarps = 40;
  const double warps = std::clamp(e.warps / units, 1.0, kWarps);
  const double rate =
      std::min(0.75 * std::max(1, d.gpu.memory_gbs), units * warps * e.flight / kLatency);
  const double memory = bytes / rate;
  return 3000 + 400 * e.layouts + std::max(issue, memory) + 0.3 * std::min(issue, memory);
}

/// Which lane takes which k follows from where rows begin in memory, from the width of reads and
/// from the number of warps.
std::string summation(const Problem&, const DeviceCaps&, const CudaGemv&, const GemvSizes&) {
  return {};
}

constexpr TypedFamily<CudaGemv, GemvSizes> kRow{
    .vendor = Vendor::nvidia,
    .files = kFiles,
    .first_rules = kFirst,
    .sizes = sizes_of,
    .rules = kRules,
    .enumerate = enumerate,
    .parameters = parameters,
    .predict_ns = predict,
    .launch = launch,
    .tile = tile,
    .summation = summation,
    .offers = cuda::kOffers | Features{Feature::scales_of_integers, Feature::scales_of_lines}};

}  // namespace

Family family() { return family_row<kRow>(); }

}  // namespace kiln::cuda::gemv
