#include "tuner/search/class_list.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "generator/families/cpu/amx/config.h"
#include "generator/families/cpu/common/host.h"
#include "generator/families/cpu/dot/config.h"
#include "generator/families/cpu/packed/config.h"
#include "generator/problem/gemm_types.h"
#include "generator/space/space.h"

namespace kiln {
namespace {

constexpr std::int64_t kSize = 512, kStep = 16;

/// The instruction that the class's best kernels for the problem are built on.
const DotInstruction* instruction_of(const Problem& problem, const DeviceCaps& of_class) {
  std::vector<Isa> isas = host::isas(of_class);
  isas.insert(isas.begin(), Isa::amx);
  for (const Isa isa : isas)
    if (const auto* row = host::instruction(isa, problem, of_class)) return row;
  return nullptr;
}

/// Whether a register tile's operands are packed. `least`: as little as the rules allow.
enum class Packing : std::uint8_t { both, b_alone, least };
/// Which problems have the tile: all; those of usual types and rare ones of floating operands;
/// those of usual types.
enum class Has : std::uint8_t { all, floating, usual };
struct PackedTile {
  int mr, nv;
  Packing packing;
  Has has;
};

/// For large problems; for those whose operands lie well as they are; for few rows; for few
/// columns.
std::vector<PackedTile> packed_tiles(Isa isa) {
  using enum Packing;
  using enum Has;
  if (isa == Isa::avx512)
    return {{8, 3, both, all},       {8, 3, b_alone, usual}, {8, 3, least, usual},
            {4, 6, least, floating}, {14, 2, least, usual},  {28, 1, both, usual}};
  if (isa == Isa::avx2)
    return {{6, 2, both, all},
            {6, 2, b_alone, usual},
            {6, 2, least, usual},
            {2, 4, least, floating},
            {12, 1, both, usual}};
  return {{4, 2, both, all}, {4, 2, least, usual}};
}

bool legal(const Gemm& gemm, const DeviceCaps& of_class, const Config& config) {
  return broken_rule(Problem::of(gemm).value(), of_class, config).empty();
}

/// Blocks near those of the family's fallback.
HostPacked packed_config(const DotInstruction& row, const PackedTile& tile, Parallel way,
                         bool pack_a, bool pack_b) {
  const int nr = tile.nv * (row.vector_bytes / row.acc_bytes);
  constexpr int kRows = 192, kColumns = 512, kDepth = 256;
  return {.isa = row.isa,
          .mr = tile.mr,
          .nv = tile.nv,
          .kc = kDepth * row.group,
          .mc = kRows / tile.mr * tile.mr,
          .nc = std::max(1, kColumns / nr) * nr,
          .pack_a = pack_a,
          .pack_b = pack_b,
          .inner = Inner::columns,
          .parallel = way,
          .unroll = 4,
          .any_epilogue = true};
}

/// The tile's config for the problem; an illegal one where the rules allow none.
HostPacked packed_config(const Gemm& gemm, const DeviceCaps& of_class, const DotInstruction& row,
                         const PackedTile& tile, Parallel way) {
  const auto packing = [&](bool a, bool b) { return packed_config(row, tile, way, a, b); };
  if (tile.packing == Packing::both) return packing(true, true);
  if (tile.packing == Packing::least)
    if (const HostPacked none = packing(false, false); legal(gemm, of_class, none)) return none;
  const HostPacked b_alone = packing(false, true);
  const bool least = tile.packing == Packing::least;
  return least && !legal(gemm, of_class, b_alone) ? packing(true, true) : b_alone;
}

/// Results of other types are asked for rarely, and have fewer kernels.
bool is_usual(const Gemm& gemm) {
  const TypeRow& row = *type_row(gemm.a.dtype, gemm.b.dtype);
  return gemm.d.dtype == row.usual_output() || (gemm.d.dtype == fp32 && is_floating(gemm.a.dtype));
}

void add_amx(std::vector<Config>& configs, bool usual, Parallel way) {
  for (const int tiles : {2, 1})
    if (tiles == 2 || usual)
      configs.push_back(HostAmx{.mt = tiles, .nt = tiles, .parallel = way, .any_epilogue = true});
}

/// For few rows, and for more. The rules allow them where both operands are k-major. Threads that
/// share one product share its columns.
void add_dot(std::vector<Config>& configs, Isa isa, bool usual, Parallel way) {
  const bool wide = isa == Isa::avx512;
  if (way == Parallel::grid) way = Parallel::n;
  HostDot config{.isa = isa,
                 .mr = 1,
                 .nr = wide ? 8 : 6,
                 .parallel = way,
                 .prefetch = 8,  // a row of A meets a B that comes from memory
                 .any_epilogue = true};
  if (usual || way != Parallel::batch) configs.push_back(config);
  config.mr = wide ? 4 : 2;
  config.nr = wide ? 6 : 4;
  config.prefetch = 0;
  if (usual) configs.push_back(config);
}

std::vector<Config> configs_of(const Gemm& gemm, const DeviceCaps& of_class,
                               const DotInstruction& row, Parallel way) {
  std::vector<Config> configs;
  const bool usual = is_usual(gemm);
  if (row.isa == Isa::amx) {
    add_amx(configs, usual, way);
    return configs;
  }
  for (const PackedTile& tile : packed_tiles(row.isa))
    if (usual || tile.has == Has::all || (tile.has == Has::floating && is_floating(gemm.a.dtype)))
      configs.push_back(packed_config(gemm, of_class, row, tile, way));
  add_dot(configs, row.isa, usual, way);
  return configs;
}

}  // namespace

std::vector<Gemm> kinds_of_problems() {
  std::vector<Gemm> kinds;
  for (const TypeRow& row : kCpuTypeRows) {
    for (std::string_view rest = row.outputs; !rest.empty();) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      Gemm gemm = Gemm::row_major(kSize, kSize, kSize);
      gemm.a.dtype = row.a;
      gemm.b.dtype = row.b;
      gemm.accumulator = row.accumulator;
      gemm.c.dtype = gemm.d.dtype = *dtype_from(rest.substr(0, end));
      for (const bool a_transposed : {false, true}) {
        gemm.a.transposed = a_transposed;
        for (const bool b_transposed : {false, true}) {
          gemm.b.transposed = b_transposed;
          kinds.push_back(gemm);
        }
        gemm.b.transposed = false;
        kinds.push_back(gemm);
        kinds.back().b_packed = true;
      }
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return kinds;
}

bool has_own_instruction(const Gemm& gemm, const DeviceCaps& of_class) {
  const Problem problem = Problem::of(gemm).value();
  const auto* own = instruction_of(problem, of_class);
  return own != nullptr &&
         std::ranges::none_of(classes_of(of_class), [&](const DeviceCaps& within) {
           return within != of_class && instruction_of(problem, within) == own;
         });
}

std::vector<ClassKernel> class_list(const DeviceCaps& of_class) {
  std::vector<ClassKernel> list;
  for (const Gemm& kind : kinds_of_problems()) {
    if (!has_own_instruction(kind, of_class)) continue;
    const DotInstruction& row = *instruction_of(Problem::of(kind).value(), of_class);
    Gemm gemm = kind;
    for (const Parallel way : {Parallel::none, Parallel::grid, Parallel::batch}) {
      gemm.batch = way == Parallel::batch ? 2 : 1;
      std::vector<Config> known;
      for (const Config& config : configs_of(gemm, of_class, row, way)) {
        if (!legal(gemm, of_class, config) || std::ranges::find(known, config) != known.end())
          continue;
        known.push_back(config);
        list.push_back({gemm, config});
        gemm.k += kStep;
      }
    }
  }
  return list;
}

}  // namespace kiln
