// NVIDIA's matrix instructions of one warp (mma.sync): the last lane to come multiplies for all.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "kiln/numeric.hpp"
#include "runtime/emulator/fragments.h"
#include "runtime/emulator/instructions.h"
#include "runtime/emulator/warp_mma.h"

namespace kiln::emu {
namespace {

using Type = MmaShape::Type;
constexpr int kLanes = 32;

Machine& here() { return *Machine::current(); }

struct Row {
  std::string_view shape, types;
  int m, k;
  Type a, b;
  int sm;
};

/// As the PTX ISA lists them, kinds of sums at either end of the types.
constexpr std::array<Row, 16> kRows{{
    {"m16n8k8", "f32.f16.f16.f32", 16, 8, Type::f16, Type::f16, 75},
    {"m16n8k16", "f32.f16.f16.f32", 16, 16, Type::f16, Type::f16, 80},
    {"m16n8k16", "f32.bf16.bf16.f32", 16, 16, Type::bf16, Type::bf16, 80},
    {"m16n8k8", "f32.tf32.tf32.f32", 16, 8, Type::tf32, Type::tf32, 80},
    {"m16n8k32", "s32.s8.s8.s32", 16, 32, Type::s8, Type::s8, 80},
    {"m16n8k32", "s32.u8.s8.s32", 16, 32, Type::u8, Type::s8, 80},
    {"m16n8k32", "s32.s8.u8.s32", 16, 32, Type::s8, Type::u8, 80},
    {"m16n8k32", "f32.e4m3.e4m3.f32", 16, 32, Type::e4m3, Type::e4m3, 89},
    {"m16n8k32", "f32.e4m3.e5m2.f32", 16, 32, Type::e4m3, Type::e5m2, 89},
    {"m16n8k32", "f32.e5m2.e4m3.f32", 16, 32, Type::e5m2, Type::e4m3, 89},
    {"m16n8k32", "f32.e5m2.e5m2.f32", 16, 32, Type::e5m2, Type::e5m2, 89},
    {"m16n8k32", "s32.u8.u8.s32", 16, 32, Type::u8, Type::u8, 80},
    {"m8n8k4", "f64.f64.f64.f64", 8, 4, Type::f64, Type::f64, 80},
    {"m16n8k4", "f64.f64.f64.f64", 16, 4, Type::f64, Type::f64, 90},
    {"m16n8k8", "f64.f64.f64.f64", 16, 8, Type::f64, Type::f64, 90},
    {"m16n8k16", "f64.f64.f64.f64", 16, 16, Type::f64, Type::f64, 90},
}};

const MmaShape& shape_of(Machine& m, const KilnEmuMma& issued) {
  // Texts of an image keep their places while it is loaded; another image's may take them over.
  thread_local std::string name;
  thread_local MmaShape shape;
  if (name == issued.name && shape.sm <= m.device().gpu.sm) return shape;
  MmaShape parsed;
  if (!parse_mma(issued.name, parsed) || parsed.sm > m.device().gpu.sm)
    m.refuse(fmt::format("{} has no instruction {}", m.device().arch, issued.name));
  name = issued.name, shape = parsed;
  return shape;
}

template <typename T>
T element(Type type, const unsigned char* at) {
  if constexpr (std::is_same_v<T, double>) {
    double x;
    std::memcpy(&x, at, 8);
    return x;
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return type == Type::s8 ? static_cast<std::int8_t>(*at) : *at;
  } else {
    std::uint32_t word = 0;
    std::uint16_t half = 0;
    switch (type) {
      case Type::e4m3:
        return decode(kE4m3, *at);
      case Type::e5m2:
        return decode(kE5m2, *at);
      case Type::tf32:
        std::memcpy(&word, at, 4);
        return std::bit_cast<float>(word & ~0x1fffu);
      default:
        std::memcpy(&half, at, 2);
        return type == Type::f16 ? fp16_to_float(half) : bf16_to_float(half);
    }
  }
}

Element place_a(const MmaShape& s, int lane, int e) {
  return s.m == 8 ? in_dmma_a(lane) : in_mma_a(lane, e, s.packed());
}
Element place_b(const MmaShape& s, int lane, int e) {
  return s.m == 8 ? in_dmma_b(lane) : in_mma_b(lane, e, s.packed());
}
Element place_accumulator(const MmaShape& s, int lane, int i) {
  return s.m == 8 ? in_dmma_accumulators(lane, i) : in_mma_accumulators(lane, i);
}

template <typename T>
void multiply(const MmaShape& s, const std::vector<void*>& brought) {
  constexpr int kMostK = 32, kMostM = 16, kN = 8;
  std::array<std::array<T, kMostK>, kMostM> a{};
  std::array<std::array<T, kN>, kMostK> b{};
  const int bytes = s.element_bytes();
  const auto lane_of = [&](int lane) -> const KilnEmuMma& {
    return *static_cast<const KilnEmuMma*>(brought[static_cast<std::size_t>(lane)]);
  };
  for (int lane = 0; lane < kLanes; ++lane) {
    const KilnEmuMma& mine = lane_of(lane);
    for (int e = 0; e < s.m * s.k / kLanes; ++e) {
      const Element at = place_a(s, lane, e);
      a[static_cast<std::size_t>(at.row)][static_cast<std::size_t>(at.column)] =
          element<T>(s.a, static_cast<const unsigned char*>(mine.a) + e * bytes);
    }
    for (int e = 0; e < s.n * s.k / kLanes; ++e) {
      const Element at = place_b(s, lane, e);
      b[static_cast<std::size_t>(at.row)][static_cast<std::size_t>(at.column)] =
          element<T>(s.b, static_cast<const unsigned char*>(mine.b) + e * bytes);
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    T* sums = static_cast<T*>(lane_of(lane).sums);
    for (int i = 0; i < s.m * s.n / kLanes; ++i) {
      const Element at = place_accumulator(s, lane, i);
      for (int k = 0; k < s.k; ++k)
        sums[i] += a[static_cast<std::size_t>(at.row)][static_cast<std::size_t>(k)] *
                   b[static_cast<std::size_t>(k)][static_cast<std::size_t>(at.column)];
    }
  }
}

void mma(const KilnEmuMma* issued) {
  Machine& m = here();
  m.pause();
  const MmaShape& s = shape_of(m, *issued);
  const auto bytes = [&](int elements, int size) {
    return static_cast<unsigned>(elements / kLanes * size);
  };
  if (issued->a_bytes != bytes(s.m * s.k, s.element_bytes()) ||
      issued->b_bytes != bytes(s.n * s.k, s.element_bytes()) ||
      issued->sum_bytes != bytes(s.m * s.n, s.wide() ? 8 : 4))
    m.refuse(fmt::format("{} with operands of {}, {} and {} bytes", issued->name, issued->a_bytes,
                         issued->b_bytes, issued->sum_bytes));
  if (!m.gather("mma.sync", const_cast<KilnEmuMma*>(issued))) return;
  Warp& warp = *m.lane().warp;
  for (void* brought : warp.collective.brought)
    if (static_cast<KilnEmuMma*>(brought)->name != issued->name)
      m.refuse("mma.sync unlike another lane's of the warp");
  if (s.wide())
    multiply<double>(s, warp.collective.brought);
  else if (s.integer())
    multiply<std::int32_t>(s, warp.collective.brought);
  else
    multiply<float>(s, warp.collective.brought);
  m.finish(warp);
}

}  // namespace

int MmaShape::element_bytes() const {
  switch (a) {
    case Type::f64:
      return 8;
    case Type::tf32:
      return 4;
    case Type::f16:
    case Type::bf16:
      return 2;
    default:
      return 1;
  }
}

bool parse_mma(std::string_view name, MmaShape& shape) {
  constexpr std::string_view kBegin = "mma.sync.aligned.", kLayout = ".row.col.";
  if (!name.starts_with(kBegin)) return false;
  name.remove_prefix(kBegin.size());
  const auto layout = name.find(kLayout);
  if (layout == name.npos) return false;
  const auto row = std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) {
    return r.shape == name.substr(0, layout) && r.types == name.substr(layout + kLayout.size());
  });
  if (row == kRows.end()) return false;
  shape = {row->m, 8, row->k, row->a, row->b, row->sm};
  return true;
}

void add_mma(KilnEmuOps& to) { to.mma = mma; }

}  // namespace kiln::emu
