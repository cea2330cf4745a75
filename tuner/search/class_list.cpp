#include "tuner/search/class_list.h"

#include <algorithm>
#include <string_view>

#include "generator/families/cpu/common/host.h"
#include "generator/problem/gemm_types.h"
#include "generator/space/space.h"

namespace kiln {
namespace {

constexpr std::int64_t kSize = 512, kStep = 16;

/// The instruction that the class's best kernels for the problem are built on.
const DotInstruction* instruction_of(const Canonical& problem, const DeviceCaps& of_class) {
  std::vector<Isa> isas = host::isas(of_class);
  isas.insert(isas.begin(), Isa::amx);
  for (const Isa isa : isas)
    if (const auto* row = host::instruction(isa, problem, of_class)) return row;
  return nullptr;
}

struct PackedTile {
  int mr, nv;
  bool pack_a, pack_b;
};

/// For large problems, for those whose operands lie well as they are, for few rows, and for few
/// columns.
std::vector<PackedTile> packed_tiles(Isa isa) {
  if (isa == Isa::avx512)
    return {{8, 3, true, true},  {8, 3, false, true},   {8, 3, false, false}, {4, 6, false, false},
            {14, 2, true, true}, {14, 2, false, false}, {28, 1, true, true}};
  if (isa == Isa::avx2)
    return {{6, 2, true, true},
            {6, 2, false, true},
            {6, 2, false, false},
            {3, 4, false, false},
            {12, 1, true, true}};
  return {{4, 2, true, true}, {4, 2, false, false}};
}

HostPacked packed_config(const DotInstruction& row, const PackedTile& tile, Parallel way) {
  const int nr = tile.nv * (row.vector_bytes / row.acc_bytes);
  constexpr int kRows = 192, kColumns = 512, kDepth = 256;
  return {.isa = row.isa,
          .mr = tile.mr,
          .nv = tile.nv,
          .kc = kDepth * row.group,
          .mc = kRows / tile.mr * tile.mr,
          .nc = std::max(1, kColumns / nr) * nr,
          .pack_a = tile.pack_a,
          .pack_b = tile.pack_b,
          .inner = Inner::columns,
          .parallel = way,
          .unroll = 4,
          .any_epilogue = true};
}

std::vector<Config> configs_of(const DotInstruction& row) {
  std::vector<Config> configs;
  for (const Parallel way :
       {Parallel::none, Parallel::m, Parallel::n, Parallel::grid, Parallel::batch, Parallel::k}) {
    if (row.isa == Isa::amx) {
      for (const int tiles : {2, 1})
        configs.push_back(HostAmx{.mt = tiles, .nt = tiles, .parallel = way, .any_epilogue = true});
      continue;
    }
    for (const PackedTile& tile : packed_tiles(row.isa))
      configs.push_back(packed_config(row, tile, way));
    const bool wide = row.isa == Isa::avx512;
    for (const int mr : {wide ? 4 : 2, 1})
      configs.push_back(HostDot{.isa = row.isa,
                                .mr = mr,
                                .nr = mr == 1 ? 8
                                      : wide  ? 6
                                              : 4,
                                .parallel = way,
                                .any_epilogue = true});
  }
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
  const Canonical problem = canonicalise(gemm);
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
    Gemm gemm = kind;
    for (const Config& config : configs_of(*instruction_of(canonicalise(kind), of_class))) {
      const bool shared = std::visit(
          [](const auto& c) {
            if constexpr (requires { c.parallel; }) return c.parallel == Parallel::batch;
            return false;
          },
          config);
      gemm.batch = shared ? 2 : 1;
      if (!broken_rule(canonicalise(gemm), of_class, config).empty()) continue;
      list.push_back({gemm, config});
      gemm.k += kStep;
    }
  }
  return list;
}

}  // namespace kiln
