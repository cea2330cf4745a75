#include "generator/families/hip/mfma/sizes.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "generator/families/hip/mfma/config.h"
#include "generator/problem/groups.h"
#include "generator/problem/product_list.h"

namespace kiln::hip {
namespace {

int power_of_two_in(std::int64_t value) {
  int power = 1;
  while (power < 16 && value % (power * 2) == 0) power *= 2;
  return power;
}

/// Products of a list have lines of any length, groups of k begin and end anywhere along them.
bool any_ends(const Gemm& g, bool along) {
  return lists_products(g) || (g.grouping() == Grouping::k && along);
}

/// Bytes that one load of an operand may take: they never straddle the end of a line, and buffer
/// loads of more than two bytes want addresses that are multiples of four. Loads of an operand with
/// edges are as wide as its lines allow that begin where the operand does.
int load_width(const Gemm& g, Operand which, std::int64_t line, bool edges) {
  const int element = size_of(dtype_of(g, which));
  if (edges) line = 16;
  const bool in_group = edges && g.grouping() == Grouping::k;
  const int aligned = std::max(line_alignment(in_group ? alone(g, g.k) : g, which), element);
  const int width = power_of_two_in(line * element);
  return aligned >= 4 ? width : std::min(width, aligned);
}

/// Across k a thread takes some rows for all k of a unit: few enough that all threads have work.
int shared_width(int width, int rows, const MfmaSizes& p, int units) {
  while (width >= p.element) {
    const int groups = rows / (width / p.element);
    if (rows % (width / p.element) == 0 && groups * units >= p.threads &&
        groups * units % p.threads == 0)
      return width;
    width /= 2;
  }
  return 0;
}

int swizzle_shift(Banks banks) {
  switch (banks) {
    case Banks::by_row:
      return 0;
    case Banks::by_pair:
      return 1;
    case Banks::by_four:
      return 2;
    default:
      return -1;
  }
}

std::uint32_t unit_address(const MfmaSizes& p, int units, int row, int unit) {
  const int place = p.swizzle_shift < 0 ? unit : unit ^ ((row >> p.swizzle_shift) % units);
  return static_cast<std::uint32_t>(row * p.row_bytes + place * 16);
}

/// Where 16 rows of a line of k lie: as in templates/hip/mfma/turned.h.
std::uint32_t turned_address(const MfmaSizes& p, int rows_of_tile, int line, int chunk) {
  const int chunks = rows_of_tile / 16, lines = 8 / p.element;
  const int together = chunks < 2 * lines ? 2 * lines / chunks : 1;
  const int exchange = line % lines / together * 2 + line / (2 * lines) % 2;
  return static_cast<std::uint32_t>((line * chunks + (chunk ^ exchange % chunks)) * 16 * p.element);
}

/// Cost of reading a wave's fragments: every row block and step has the same conflicts, so that
/// one instruction stands for all.
LdsTurns fragment_turns(const MfmaSizes& p, ArchSet arch, int units) {
  const int rows = p.instruction->mn;
  LaneAddresses at{};
  for (int lane = 0; lane < 64; ++lane)
    at[static_cast<std::size_t>(lane)] = unit_address(p, units, lane % rows, lane / rows);
  return lds_turns(arch, LdsOp::read_b128, at);
}

/// The same for an operand that the reads transpose: lines of k, of which 32 lanes read some at
/// once.
LdsTurns turned_turns(const MfmaSizes& p, ArchSet arch, int rows_of_tile) {
  const int rows = p.instruction->mn, lines_of_read = 8 / p.element;
  const int lanes_of_line = 16 / lines_of_read;
  LaneAddresses at{};
  for (int lane = 0; lane < 64; ++lane) {
    const int unit = lane / rows, row = lane % rows, of_16 = lane % 16;
    const int line = unit * 2 * lines_of_read + of_16 / lanes_of_line;
    at[static_cast<std::size_t>(lane)] = turned_address(p, rows_of_tile, line, row / 16) +
                                         static_cast<std::uint32_t>(of_16 % lanes_of_line * 8);
  }
  return lds_turns(arch, LdsOp::read_b64_tr, at);
}

/// Registers of a lane hold whole units of neighbouring rows: lanes write lines side by side.
LdsTurns turned_store_turns(const MfmaSizes& p, ArchSet arch, int rows_of_tile) {
  const int units = rows_of_tile * p.element / 16, chunk_units = p.element;
  LaneAddresses at{};
  for (int lane = 0; lane < 64; ++lane) {
    const int line = lane / units, unit = lane % units;
    at[static_cast<std::size_t>(lane)] = turned_address(p, rows_of_tile, line, unit / chunk_units) +
                                         static_cast<std::uint32_t>(unit % chunk_units * 16);
  }
  return lds_turns(arch, LdsOp::write_b128, at);
}

LdsTurns store_turns(const MfmaSizes& p, ArchSet arch, int units, int rows, bool along, int width) {
  LaneAddresses at{};
  const int vector = along ? 1 : width / p.element, groups = rows / vector;
  for (int lane = 0; lane < 64; ++lane) {
    const int row = along ? lane / units : lane % groups * vector;
    const int unit = along ? lane % units : lane / groups % units;
    at[static_cast<std::size_t>(lane)] = unit_address(p, units, row, unit);
  }
  return lds_turns(arch, LdsOp::write_b128, at);
}

LdsTurns times(LdsTurns turns, int count) { return {turns.taken * count, turns.least * count}; }
LdsTurns plus(LdsTurns a, LdsTurns b) { return {a.taken + b.taken, a.least + b.least}; }

void add_loads(MfmaSizes& p, const Problem& problem, const HipMfma& c, ArchSet arch) {
  const Gemm& g = problem.gemm;
  const int units = c.depth / 16;
  p.along_a = problem.a_k_major;
  p.along_b = problem.b_k_major;
  p.turned_a = c.turn && !p.along_a;
  p.turned_b = c.turn && !p.along_b;
  // Rows of a group may end at any element. Across k, lanes without rows load what lies behind a
  // line's rows: a width that does not divide the pitch could straddle the end of the operand.
  const bool parts_of_a = grouped(g) && g.grouping() != Grouping::k;
  const std::int64_t across_a = parts_of_a ? 1 : g.m | leading_dimension(g, Operand::a);
  const std::int64_t across_b = g.n | leading_dimension(g, Operand::b);
  p.edges_a = any_ends(g, p.along_a), p.edges_b = any_ends(g, p.along_b);
  p.width_a = load_width(g, Operand::a, p.along_a ? g.k : across_a, p.edges_a);
  p.width_b = load_width(g, Operand::b, p.along_b ? g.k : across_b, p.edges_b);
  const auto narrowed = [&](bool whole_units, int width, int rows) {
    if (whole_units) return rows * units % p.threads == 0 ? width : 0;
    return shared_width(width, rows, p, units);
  };
  p.direct_bytes = 0;
  const int widest = arch == kGfx950 ? 16 : arch == kGfx942 ? 4 : 0;
  const auto shares = [&](int rows) {
    return widest > 0 && rows * units * (16 / widest) % p.threads == 0;
  };
  const bool no_turning_in_registers = (p.along_a || p.turned_a) && (p.along_b || p.turned_b);
  if (no_turning_in_registers && !p.edges_a && !p.edges_b &&
      std::min(p.width_a, p.width_b) >= widest && shares(c.tile_m) && shares(c.tile_n))
    p.direct_bytes = widest;
  p.width_a = narrowed(p.along_a || p.turned_a, p.width_a, c.tile_m);
  p.width_b = narrowed(p.along_b || p.turned_b, p.width_b, c.tile_n);
}

}  // namespace

MfmaSizes mfma_sizes(const Problem& problem, const DeviceCaps& device, const HipMfma& c) {
  const Gemm& g = problem.gemm;
  const ArchSet arch = arch_set(device.arch);
  MfmaSizes p{};
  // The product is computed transposed: B is the instruction's first operand.
  p.instruction = mfma_for(device.arch, g.b.dtype, g.a.dtype, c.rows, c.k);
  if (p.instruction == nullptr) return p;
  p.element = size_of(g.a.dtype);
  p.tile_k = std::max(1, c.depth / p.element);
  p.row_bytes = c.depth + (c.banks == Banks::padded ? 16 : 0);
  p.swizzle_shift = swizzle_shift(c.banks);
  p.waves = c.waves_m * c.waves_n;
  p.threads = 64 * p.waves;
  add_loads(p, problem, c, arch);
  p.ragged_k = g.k % p.tile_k != 0 || g.grouping() == Grouping::k || lists_products(g);
  const int words = p.instruction->a_registers(), lanes_of_k = 64 / c.rows;
  p.step_units = words > 4 ? 2 : 1;
  p.pieces = p.step_units * 4 / words;
  p.steps = c.depth / 16 / (lanes_of_k * p.step_units);
  p.blocks_m = c.tile_m / c.waves_m / c.rows;
  p.blocks_n = c.tile_n / c.waves_n / c.rows;
  // A step that is alone in its stage is taken in two parts, so that there is time for loads.
  p.parts = c.pace == Pace::pingpong && c.staging == Staging::direct && p.steps == 1 &&
                    p.blocks_m % 2 == 0
                ? 2
                : 1;
  p.stages = c.staging == Staging::single ? 1 : 2;
  p.shared_bytes = std::int64_t{p.stages} * (c.tile_m + c.tile_n) * p.row_bytes;
  const int next =
      c.staging == Staging::direct ? 0 : (c.tile_m + c.tile_n) * c.depth / 4 / p.threads;
  p.registers = p.blocks_m * p.blocks_n * p.instruction->accumulator_registers() + next +
                (p.blocks_m / p.parts + p.blocks_n) * 4 * p.step_units *
                    (c.pace == Pace::interleaved ? 2 : 1) +
                32;
  // Elements on their way one by one, and across k the places of loads that may lie outside.
  for (const auto& [edges, along] : {std::pair{p.edges_a, p.along_a}, {p.edges_b, p.along_b}})
    if (edges) p.registers += along ? 12 : 32;
  p.tiles_m = ceil_div(g.m, c.tile_m);
  p.tiles_n = ceil_div(g.n, c.tile_n);
  p.tiles = tiles_of_rows(g, c.tile_m) * p.tiles_n;
  p.blocks = p.tiles * c.splits;
  if (c.splits > 1) {
    p.counter_bytes = round_up(p.tiles * 4, 256);
    p.workspace_bytes = p.counter_bytes + p.blocks * c.tile_m * c.tile_n * size_of(g.accumulator);
  }
  return p;
}

StageTurns stage_turns(const MfmaSizes& p, const DeviceCaps& device, const HipMfma& c) {
  const ArchSet arch = arch_set(device.arch);
  const int units = c.depth / 16, of_step = p.steps * p.step_units * p.waves;
  const auto reads = [&](bool turned, int rows, int blocks) {
    // Turned over, a unit takes two reads.
    return turned ? times(turned_turns(p, arch, rows), 2 * of_step * blocks)
                  : times(fragment_turns(p, arch, units), of_step * blocks);
  };
  StageTurns turns{
      plus(reads(p.turned_a, c.tile_m, p.blocks_m), reads(p.turned_b, c.tile_n, p.blocks_n)), {}};
  if (c.staging == Staging::direct) return turns;
  const auto stores = [&](bool turned, int rows, bool along, int width) {
    return times(turned ? turned_store_turns(p, arch, rows)
                        : store_turns(p, arch, units, rows, along, width),
                 rows * units / 64);
  };
  turns.writes = plus(stores(p.turned_a, c.tile_m, p.along_a, p.width_a),
                      stores(p.turned_b, c.tile_n, p.along_b, p.width_b));
  return turns;
}

double multiply_cycles(const MfmaSizes& p) {
  return double(p.waves) * p.steps * p.pieces * p.blocks_m * p.blocks_n * p.instruction->cycles / 4;
}

}  // namespace kiln::hip
