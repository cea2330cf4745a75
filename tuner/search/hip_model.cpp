#include "tuner/search/hip_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "generator/families/hip/mfma/config.h"
#include "generator/families/hip/mfma/sizes.h"
#include "generator/space/family.h"

namespace kiln {
namespace {

/// Cycles that a wave-instruction of 64 lanes holds a SIMD of 16.
constexpr double kIssue = 4;
/// Bytes a cycle from the L2 to one compute unit.
constexpr double kL2Bytes = 64;
/// Bytes a cycle that shared memory is counted on for, whatever its banks could serve.
constexpr double kSharedBytes = 128;
/// What the cache before memory gives beside memory itself.
constexpr double kFillRate = 2.2;
constexpr double kMemoryEfficiency = 0.8;
/// Cycles until all waves of a block are past a barrier.
constexpr double kBarrier = 40;
/// Cycles from a read of shared memory to its words: 64 measured for one wave alone, 120 behind
/// bank conflicts (MI308X; tingqli/pyhip, docs/mem_latency.md). A block's waves stand in line.
constexpr double kSharedLatency = 128;
/// Cycles until memory answers: 500 to 800 measured for HBM at the same place.
constexpr double kMemoryLatency = 800;
constexpr double kLaunchNs = 2000;

/// Clocks that cards hold while their matrix units are busy, in GHz: power limits them. MI300X (750
/// W) and MI325X (1000 W): medians that AMD published with its own best kernels ("Measuring
/// Max-Achievable FLOPs - Part 2", ROCm blogs, 2025), whose matrix units were busy kBusy of all
/// cycles. MI355X: none published; those at which the published rates (bf16 1610, fp8 3327 TFLOP/s)
/// would be kBusy of the units' rate.
struct LoadClock {
  std::string_view card, arch;
  double peak, fp16, bf16, bytes;  // bytes: types of eight bits and fewer
};
constexpr LoadClock kLoadClocks[] = {{"MI300X", "gfx942", 2.1, 1.115, 1.207, 1.230},
                                     {"MI325X", "gfx942", 2.1, 1.354, 1.447, 1.464},
                                     {"MI355X", "gfx950", 2.4, 1.63, 1.63, 1.69}};
constexpr double kBusy = 0.94;

/// The card's clock while its matrix units are busy for this share of all cycles. Taken to fall in
/// proportion, which is an assumption: only its ends were measured. Of other targets no clock is
/// known; theirs is that of the data sheet.
double clock_under_load(const DeviceCaps& device, DType type, double busy) {
  const LoadClock* found = nullptr;
  for (const LoadClock& row : kLoadClocks) {
    const bool named = device.model.find(row.card) != std::string::npos;
    if (row.arch == device.arch && (found == nullptr || named)) found = &row;
  }
  if (found == nullptr) return device.ghz;
  const double loaded = size_of(type) == 1    ? found->bytes
                        : type == DType::fp16 ? found->fp16
                                              : found->bf16;
  return device.ghz * (1 - (1 - loaded / found->peak) * std::min(1.0, busy / kBusy));
}

/// The tile that a block computes: the same arithmetic as templates/hip/common/schedule.h.
struct TileOf {
  const hip::MfmaSizes& plan;
  const HipMfma& config;
  int chiplets;

  struct Place {
    std::int64_t batch, m, n, split;
  };
  Place operator()(std::int64_t block) const {
    const std::int64_t round = std::int64_t{chiplets} * config.chunk;
    if (config.chunk > 0 && block < plan.blocks / round * round) {
      const std::int64_t chiplet = block % chiplets, turn = block / chiplets;
      block = turn / config.chunk * round + chiplet * config.chunk + turn % config.chunk;
    }
    const std::int64_t split = block % config.splits;
    block /= config.splits;
    const std::int64_t of_batch = plan.tiles_m * plan.tiles_n, in_batch = block % of_batch;
    const std::int64_t first = in_batch / (config.group * plan.tiles_n) * config.group;
    const std::int64_t height = std::min<std::int64_t>(plan.tiles_m - first, config.group);
    const std::int64_t in_group = in_batch - first * plan.tiles_n;
    return {block / of_batch, first + in_group % height, in_group / height, split};
  }
};

/// Bytes of A and B that one stage of the first wave's blocks reads: into the L2s, each chiplet by
/// itself, and from memory, all together.
std::pair<double, double> stage_bytes(const hip::MfmaSizes& w, const HipMfma& c,
                                      const DeviceCaps& d, std::int64_t at_once) {
  const int chiplets = std::max(1, d.gpu.chiplets);
  const TileOf tile{w, c, chiplets};
  using Line = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
  std::vector<std::set<Line>> rows(static_cast<std::size_t>(chiplets) + 1), columns = rows;
  for (std::int64_t block = 0; block < std::min(w.blocks, at_once); ++block) {
    const auto place = tile(block);
    // Hardware deals blocks to the chiplets in turn; the last set is everyone's.
    for (const auto set : {static_cast<std::size_t>(block % chiplets), rows.size() - 1}) {
      rows[set].emplace(place.batch, place.m, place.split);
      columns[set].emplace(place.batch, place.n, place.split);
    }
  }
  const auto bytes = [&](std::size_t i) {
    return (double(rows[i].size()) * c.tile_m + double(columns[i].size()) * c.tile_n) * c.depth;
  };
  double each = 0;
  for (std::size_t i = 0; i + 1 < rows.size(); ++i) each += bytes(i);
  return {each, bytes(rows.size() - 1)};
}

Result<int> resident_blocks(const DeviceCaps& device, const hip::CodeObject& code, int threads,
                            HipForecast& f) {
  const hip::KernelResources& kernel = code.kernels.front();
  if (kernel.vector_spills > 0 || kernel.private_bytes > 0)
    return fail(ErrorCode::unsupported, fmt::format("{} registers spilled, {} bytes of stack",
                                                    kernel.vector_spills, kernel.private_bytes));
  f.registers = kernel.vector_registers;
  f.occupancy = hip::occupancy(kernel, device, threads);
  if (f.occupancy == 0) return fail(ErrorCode::unsupported, "not even one block fits");
  return hip::resident_blocks(kernel, device, threads);
}

/// Cycles of shared memory in one stage of a block: turns of its banks, or all bytes that pass,
/// those of loads straight into it too.
double shared_cycles(const hip::MfmaSizes& w, const HipMfma& c, const hip::StageTurns& turns) {
  const double read = double(w.waves) * w.steps * w.step_units * (w.blocks_m + w.blocks_n) * 1024;
  const double written = double(c.tile_m + c.tile_n) * c.depth;
  return std::max(double(turns.reads.taken + turns.writes.taken), (read + written) / kSharedBytes);
}

/// Cycles that one wave waits in one iteration of the loop: what is left of each latency
/// when the products between an access and its wait are done.
double waited_cycles(const hip::MfmaSizes& w, const HipMfma& c, const hip::LoopCounts& loop) {
  // In ping-pong, between two barriers one half of the waves adds the products of a half step.
  const double half_step =
      c.pace == Pace::pingpong && loop.counts.barriers > 0
          ? 2.0 * loop.counts.matrix * w.instruction->cycles / loop.counts.barriers
          : 0;
  double cycles = 0;
  for (const hip::Wait& wait : loop.waits) {
    const bool shared = wait.kind == hip::Wait::For::shared;
    const double hidden =
        std::max(wait.matrix * double(w.instruction->cycles), wait.barriers * half_step);
    cycles += std::max(0.0, (shared ? kSharedLatency : kMemoryLatency) - hidden);
  }
  return cycles;
}

/// Share of its time that a matrix unit is busy when `waves` take turns at it, each busy and then
/// waiting for so many cycles on average (the machine repairman's queue).
double busy_share(int waves, double busy, double waiting) {
  if (waiting <= 0) return 1;
  double sum = 1, term = 1;
  for (int n = 0; n < waves; ++n) sum += term *= (waves - n) * busy / waiting;
  return 1 - 1 / sum;
}

/// What the instructions of the main loop cost, beside the matrix units themselves.
void add_instructions(const hip::MfmaSizes& w, const HipMfma& c, const hip::LoopCounts& loop,
                      HipForecast& f) {
  const hip::InstructionCounts& counts = loop.counts;
  const double of_stage = double(w.steps) * w.pieces * w.blocks_m * w.blocks_n;
  const double stages = std::max(1.0, counts.matrix / of_stage);  // of one turn of the loop
  const int waves = std::max(1, w.waves * f.resident / 4);        // of a SIMD
  f.others_per_matrix = counts.others_per_matrix();
  f.issue = kIssue * waves * (counts.matrix + counts.vector) / stages;
  f.exposed = kBarrier * counts.barriers / stages / f.resident;
  const double waited = waited_cycles(w, c, loop) / stages;
  if (c.pace == Pace::pingpong) {
    // While one half multiplies, the other waits, reads and issues everything else.
    const double others = kIssue * (counts.total - counts.matrix) / stages;
    f.exposed += std::max(0.0, 2 * (waited + others) - f.matrix);
    return;
  }
  f.exposed += f.matrix * (1 / busy_share(waves, f.matrix / waves, waited) - 1);
  // A wave alone on its SIMD also waits while it computes addresses.
  if (waves < 2) f.exposed += kIssue * counts.vector / stages;
}

/// At the clock of the forecast.
void add_memory(const Problem& p, const hip::MfmaSizes& w, const HipMfma& c, const DeviceCaps& d,
                double stages, HipForecast& f) {
  const std::int64_t at_once = std::int64_t{d.compute_units} * f.resident;
  const auto [each, together] = stage_bytes(w, c, d, at_once);
  const double bytes_a_cycle = d.gpu.memory_gbs * kMemoryEfficiency / f.ghz;
  f.l2 = f.resident * double(c.tile_m + c.tile_n) * c.depth / kL2Bytes;
  f.fill = each / (bytes_a_cycle * kFillRate);
  f.memory = together / bytes_a_cycle;
  const double rounds = double(w.blocks) / double(std::min(w.blocks, at_once));
  f.l2_bytes = double(w.blocks) * stages * (c.tile_m + c.tile_n) * c.depth;
  f.fill_bytes = rounds * stages * each;
  f.memory_bytes = rounds * stages * together +
                   double(p.gemm.m) * p.gemm.n * p.gemm.batch * size_of(p.gemm.d.dtype);
}

Result<HipForecast> of_mfma(const Problem& p, const DeviceCaps& d, const HipMfma& c,
                            const hip::CodeObject& code,
                            const std::vector<hip::LoopCounts>& loops) {
  const hip::MfmaSizes w = hip::mfma_sizes(p, d, c);
  HipForecast f;
  const auto resident = resident_blocks(d, code, w.threads, f);
  if (!resident) return tl::unexpected(resident.error());
  f.resident = *resident;
  const hip::LoopCounts* loop = hip::main_loop(loops);
  const auto turns = hip::stage_turns(w, d, c);
  const double stages = double(ceil_div(ceil_div(p.gemm.k, w.tile_k), c.splits));
  f.matrix = f.resident * hip::multiply_cycles(w) * 4 / std::min(4.0, double(w.waves * f.resident));
  f.shared = f.resident * shared_cycles(w, c, turns);
  f.conflicts = f.resident * double(turns.reads.lost() + turns.writes.lost());
  if (loop != nullptr)
    add_instructions(w, c, *loop, f);
  else if (stages > 2)
    return fail(ErrorCode::unsupported, "no loop with matrix instructions in the binary");

  // Memory takes more cycles of a faster clock, and the clock is faster where there is more
  // waiting.
  double stage = 0;
  f.ghz = d.ghz;
  for (int round = 0; round < 3; ++round) {
    add_memory(p, w, c, d, stages, f);
    stage = std::max({f.matrix, f.issue, f.shared, f.l2, f.fill, f.memory}) + f.exposed;
    stage = std::max(stage, f.matrix / kBusy);  // no published kernel does better
    f.peak_share = hip::multiply_cycles(w) * f.resident / stage;
    f.ghz = clock_under_load(d, p.gemm.a.dtype, f.peak_share);
  }
  const double rounds = double(ceil_div(w.blocks, std::int64_t{d.compute_units} * f.resident));
  const double store =
      f.resident * double(c.tile_m) * c.tile_n * size_of(p.gemm.d.dtype) / kL2Bytes;
  double cycles = rounds * (stages * stage + store) + 2 * kMemoryLatency;
  if (c.splits > 1)
    cycles += kMemoryLatency + double(c.tile_m) * c.tile_n * 4 * c.splits / kL2Bytes;
  f.ns = cycles / f.ghz + kLaunchNs;
  const double rate = w.instruction->flops() / w.instruction->cycles * 4 * d.compute_units * d.ghz;
  f.flops_share = p.gemm.flops() / f.ns / rate;
  return f;
}

}  // namespace

Result<HipForecast> forecast(const Problem& problem, const DeviceCaps& device, const Config& config,
                             const hip::CodeObject& code,
                             const std::vector<hip::LoopCounts>& loops) {
  if (code.kernels.empty()) return fail(ErrorCode::unsupported, "no kernel in the binary");
  if (const auto mfma = config.if_is<HipMfma>())
    return of_mfma(problem, device, *mfma, code, loops);
  // Ordinary arithmetic: the config's own model, as long as the binary keeps its promises.
  HipForecast f;
  const GpuLaunch launch = family_of(config, device.vendor).launch(problem, device, config);
  const int threads = launch.steps.empty() ? 64 : int(launch.steps.front().block.count());
  const auto resident = resident_blocks(device, code, threads, f);
  if (!resident) return tl::unexpected(resident.error());
  f.resident = *resident;
  f.ns = predict_ns(problem, device, config);
  return f;
}

}  // namespace kiln
