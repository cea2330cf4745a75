// AMD's matrix instructions: lanes' registers to matrices and back by the recorded tables, and the
// product between.
#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <type_traits>

#include "generator/families/hip/common/instructions.h"
#include "kiln/numeric.hpp"
#include "runtime/emulator/instructions.h"
#include "runtime/emulator/layouts.h"

namespace kiln::emu {
namespace {

using hip::MfmaInstruction;
using Kind = hip::Element;

constexpr std::string_view kFormatClass[] = {"fp8", "fp8", "fp6", "fp6", "fp4"};
constexpr SmallFormat kFormats[] = {kE4m3fn, kE5m2, kE2m3, kE3m2, kE2m1};

struct Known {
  const MfmaInstruction* row;
  Layout layout;
};

Machine& here() { return *Machine::current(); }

/// The table of an instruction; where a target has none of its own, the one it shares.
std::string table_name(const MfmaInstruction& row, std::string_view arch, const KilnEmuMatrix& m) {
  std::string name(row.mnemonic);
  if (row.scaled())
    name += fmt::format(".{}_{}", kFormatClass[m.immediates[0]], kFormatClass[m.immediates[1]]);
  const std::string own = fmt::format("{}.v_{}", arch, name);
  return has_layout(own) ? own : fmt::format("gfx942.v_{}", name);
}

const Known& known(Machine& m, const KilnEmuMatrix& issued) {
  const std::string& arch = m.device().arch;
  const bool scaled = issued.immediate_count == 5;
  if (scaled)
    for (int i = 0; i < 2; ++i)
      if (issued.immediates[i] < 0 || issued.immediates[i] > 4)
        m.refuse(fmt::format("{} with format {}", issued.name, issued.immediates[i]));
  const std::string key =
      fmt::format("{} {} {} {}", arch, issued.name, scaled ? issued.immediates[0] : 0,
                  scaled ? issued.immediates[1] : 0);
  static std::mutex mutex;
  static auto& all = *new std::map<std::string, std::unique_ptr<Known>>;
  {
    const std::lock_guard lock(mutex);
    if (const auto found = all.find(key); found != all.end()) return *found->second;
  }
  // A refusal leaves the lane for good, so it must hold no lock.
  const MfmaInstruction* row = nullptr;
  for (const MfmaInstruction& r : hip::kMfma)
    if (r.builtin == issued.name && (r.archs & hip::arch_set(arch)) != 0) row = &r;
  if (row == nullptr || row->sparse || row->scaled() != scaled)
    m.refuse(fmt::format("{} has no instruction {}", arch, issued.name));
  auto layout = read_layout(table_name(*row, arch, issued), row->mn, row->k, row->blocks);
  if (!layout) m.refuse(layout.error().message);
  const std::lock_guard lock(mutex);
  auto& entry = all[key];
  if (entry == nullptr) entry = std::make_unique<Known>(Known{row, std::move(*layout)});
  return *entry;
}

std::uint64_t bits_at(const void* registers, Cell cell, int bits) {
  const auto* bytes = static_cast<const unsigned char*>(registers);
  std::uint64_t out = 0;
  for (int got = 0, bit = cell.bit; got < bits;) {
    const int take = std::min(bits - got, 8 - bit % 8);
    out |= static_cast<std::uint64_t>(bytes[bit / 8] >> bit % 8 & ((1 << take) - 1)) << got;
    got += take, bit += take;
  }
  return out;
}

/// What products are added up in: floats in double, rounded once at the end, so that no order of
/// adding shows; integers without a sign, because they wrap.
template <typename Sum>
using Wide = std::conditional_t<std::is_same_v<Sum, std::int32_t>, std::uint32_t, double>;

/// That gfx90a's 16-bit instructions take denormals for zero is not imitated: kiln's bound on
/// errors does not allow for it, and a kernel is not wrong because of it.
double real(Kind kind, std::uint64_t bits, std::string_view arch, int format) {
  const bool fnuz = arch == "gfx942";
  switch (kind) {
    case Kind::f64:
      return std::bit_cast<double>(bits);
    case Kind::f32:
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    case Kind::xf32:
      return round_to_tf32(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    case Kind::f16:
      return fp16_to_float(static_cast<std::uint16_t>(bits));
    case Kind::bf16:
      return bf16_to_float(static_cast<std::uint16_t>(bits));
    case Kind::fp8:
      return decode(fnuz ? kE4m3fnuz : kE4m3fn, static_cast<std::uint8_t>(bits));
    case Kind::bf8:
      return decode(fnuz ? kE5m2fnuz : kE5m2, static_cast<std::uint8_t>(bits));
    default:
      return decode(kFormats[format], static_cast<std::uint8_t>(bits));
  }
}

/// What the 64 lanes brought.
using Brought = std::vector<const KilnEmuMatrix*>;

/// The scale of the element of row or column `line` at `k`: one for every 32 along k; which byte of
/// the lane's register holds it, the instruction says.
double scale_of(const Layout& l, const Brought& lanes, bool is_a, std::size_t line, std::size_t k) {
  const auto blocks = static_cast<std::size_t>(l.k / 32);
  const Cell at = (is_a ? l.scale_a : l.scale_b)[line * blocks + k / 32];
  const KilnEmuMatrix& lane = *lanes[at.lane];
  const int select = lane.immediates[is_a ? 2 : 3];
  return decode(kE8m0,
                static_cast<std::uint8_t>((is_a ? lane.scale_a : lane.scale_b) >> select * 8));
}

template <typename T>
std::vector<T> operand(const Known& of, const Brought& lanes, bool is_a, std::string_view arch) {
  const Layout& l = of.layout;
  const auto& cells = is_a ? l.a : l.b;
  const int bits = is_a ? l.a_bits : l.b_bits;
  const bool scaled = of.row->scaled() && lanes[0]->immediates[4] != 0;
  const int format = of.row->scaled() ? lanes[0]->immediates[is_a ? 0 : 1] : 0;
  const auto k = static_cast<std::size_t>(l.k);
  std::vector<T> out(cells.size());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const KilnEmuMatrix& lane = *lanes[cells[i].lane];
    const std::uint64_t stored = bits_at(is_a ? lane.a : lane.b, cells[i], bits);
    if constexpr (std::is_same_v<T, double>) {
      out[i] = real(is_a ? of.row->a : of.row->b, stored, arch, format);
      // Exact in double, whatever the exponents.
      if (scaled) out[i] *= scale_of(l, lanes, is_a, i / k, i % k);
    } else {
      out[i] = static_cast<T>(static_cast<std::int8_t>(stored));
    }
  }
  return out;
}

template <typename Sum>
void multiply(const Known& of, const Brought& lanes, std::string_view arch) {
  using T = Wide<Sum>;
  const Layout& l = of.layout;
  const auto a = operand<T>(of, lanes, true, arch), b = operand<T>(of, lanes, false, arch);
  const auto mn = static_cast<std::size_t>(l.mn), k = static_cast<std::size_t>(l.k);
  for (std::size_t i = 0; i < l.sums.size(); ++i) {
    const Cell cell = l.sums[i];
    const std::size_t column = i % mn, row = i / mn % mn, block = i / mn / mn;
    const T* left = &a[(block * mn + row) * k];
    const T* right = &b[(block * mn + column) * k];
    const KilnEmuMatrix& lane = *lanes[cell.lane];
    Sum sum;
    std::memcpy(&sum, static_cast<const unsigned char*>(lane.c) + cell.bit / 8, sizeof(Sum));
    T wide = static_cast<T>(sum);
    for (std::size_t x = 0; x < k; ++x) wide += left[x] * right[x];
    sum = static_cast<Sum>(wide);
    std::memcpy(static_cast<unsigned char*>(lane.d) + cell.bit / 8, &sum, sizeof(Sum));
  }
}

void check(Machine& m, const Known& of, const KilnEmuMatrix& issued) {
  const auto bytes = [](int registers) { return static_cast<unsigned>(registers) * 4; };
  const MfmaInstruction& row = *of.row;
  // f8f6f4 always takes eight registers, of which the narrower formats use fewer.
  const bool fits = row.scaled() ? issued.a_bytes == 32 && issued.b_bytes == 32
                                 : issued.a_bytes == bytes(row.a_registers()) &&
                                       issued.b_bytes == bytes(row.b_registers());
  if (!fits || issued.d_bytes != bytes(row.accumulator_registers()))
    m.refuse(fmt::format("{} with operands of {}, {} and {} bytes", issued.name, issued.a_bytes,
                         issued.b_bytes, issued.d_bytes));
  for (int i = 2; i < 4 && row.scaled(); ++i)
    if (issued.immediates[i] < 0 || issued.immediates[i] > 3)
      m.refuse(fmt::format("{} with scales of byte {}", issued.name, issued.immediates[i]));
  for (int i = 0; i < issued.immediate_count && !row.scaled(); ++i)
    if (issued.immediates[i] != 0)
      m.refuse(fmt::format("{} with broadcasts or exchanges, which no kernel of kiln's asks for",
                           issued.name));
}

void matrix(const KilnEmuMatrix* issued) {
  Machine& m = here();
  m.pause();
  if (!m.gather(issued->name, const_cast<KilnEmuMatrix*>(issued))) return;
  Warp& warp = *m.lane().warp;
  const Known& of = known(m, *issued);
  check(m, of, *issued);
  Brought lanes;
  for (void* brought : warp.collective.brought)
    lanes.push_back(static_cast<const KilnEmuMatrix*>(brought));
  if (of.row->sum == Kind::f64)
    multiply<double>(of, lanes, m.device().arch);
  else if (of.row->sum == Kind::i32)
    multiply<std::int32_t>(of, lanes, m.device().arch);
  else
    multiply<float>(of, lanes, m.device().arch);
  m.finish(warp);
}

}  // namespace

void add_mfma(KilnEmuOps& to) { to.matrix = matrix; }

}  // namespace kiln::emu
