// The config types of the host families. Plain values; `fields()` drives text, parsing and axes.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <tuple>

namespace kiln {

/// Instruction set a host kernel is written for; each is a row of the table in instructions.h.
enum class Isa : std::uint8_t { portable, avx2, avx512, amx };

/// The range that is divided among threads. `none`: thread 0 does all work; `grid`: both m and n.
enum class Parallel : std::uint8_t { none, batch, m, n, grid, k };

/// Which loop over register tiles runs innermost: over rows (a strip of B stays in L1) or over
/// columns (a strip of A does).
enum class Inner : std::uint8_t { rows, columns };

template <typename E>
struct Named {
  E value;
  std::string_view name;
};
inline constexpr std::array<Named<Isa>, 4> kNamesOfIsa{
    {{Isa::portable, "portable"}, {Isa::avx2, "avx2"}, {Isa::avx512, "avx512"}, {Isa::amx, "amx"}}};
inline constexpr std::array<Named<Parallel>, 6> kNamesOfParallel{{{Parallel::none, "none"},
                                                                  {Parallel::batch, "batch"},
                                                                  {Parallel::m, "m"},
                                                                  {Parallel::n, "n"},
                                                                  {Parallel::grid, "grid"},
                                                                  {Parallel::k, "k"}}};
inline constexpr std::array<Named<Inner>, 2> kNamesOfInner{
    {{Inner::rows, "rows"}, {Inner::columns, "columns"}}};
constexpr const auto& names_of(Isa) { return kNamesOfIsa; }
constexpr const auto& names_of(Parallel) { return kNamesOfParallel; }
constexpr const auto& names_of(Inner) { return kNamesOfInner; }
template <typename E>
constexpr std::string_view name(E value) requires requires {
  names_of(value);
}
{
  for (const auto& row : names_of(value))
    if (row.value == value) return row.name;
  return "";
}

/// Blocks of the whole problem may be as long as the problem.
inline constexpr int kAnyLength = 1 << 30;

/// Name of a config field, where it lives, and the largest number that a text may give it: rules
/// multiply up to three of them within int. A field that was added after the first databases is
/// `later`: its zero is left out of the text, so that older texts stay valid.
template <typename C, typename T>
struct Field {
  std::string_view name;
  T C::*member;
  int most = 1024;
  bool later = false;
};

/// Packed macro-kernel: Goto/BLIS loops around an mr × (nv vectors) register tile.
struct HostPacked {
  static constexpr std::string_view kFamily = "host_packed";
  Isa isa = Isa::avx512;
  int mr = 6;     // rows of the register tile
  int nv = 4;     // vectors across the register tile
  int kc = 384;   // k of one packed panel
  int mc = 240;   // rows of A that stay in L2
  int nc = 4096;  // columns of B packed at once
  bool pack_a = true;
  bool pack_b = true;
  Inner inner = Inner::columns;
  Parallel parallel = Parallel::none;
  int unroll = 2;         // k steps in the inner loop's body
  int prefetch = 0;       // k steps ahead that strips of B are prefetched, 0 = never
  bool stream_d = false;  // store D with non-temporal stores
  bool ahead = false;     // prefetch the next block of A or B while tiles compute
  auto operator<=>(const HostPacked&) const = default;

  static constexpr auto fields() {
    using C = HostPacked;
    return std::tuple{Field<C, Isa>{"isa", &C::isa},
                      Field<C, int>{"mr", &C::mr},
                      Field<C, int>{"nv", &C::nv},
                      Field<C, int>{"kc", &C::kc, kAnyLength},
                      Field<C, int>{"mc", &C::mc, kAnyLength},
                      Field<C, int>{"nc", &C::nc, kAnyLength},
                      Field<C, bool>{"pack_a", &C::pack_a},
                      Field<C, bool>{"pack_b", &C::pack_b},
                      Field<C, Inner>{"inner", &C::inner},
                      Field<C, Parallel>{"parallel", &C::parallel},
                      Field<C, int>{"unroll", &C::unroll},
                      Field<C, int>{"prefetch", &C::prefetch},
                      Field<C, bool>{"stream_d", &C::stream_d},
                      Field<C, bool>{"ahead", &C::ahead}};
  }
};

/// No packing, both operands k-major: vectors run along k and are reduced across lanes at the end.
struct HostDot {
  static constexpr std::string_view kFamily = "host_dot";
  Isa isa = Isa::avx512;
  int mr = 4, nr = 6;  // rows of A and rows of B^T in the register tile
  int kc = 0;          // k of one pass, 0 = all
  int mc = 0;          // rows of A held while B streams, 0 = all
  Parallel parallel = Parallel::none;
  int prefetch = 0;
  auto operator<=>(const HostDot&) const = default;

  static constexpr auto fields() {
    using C = HostDot;
    return std::tuple{Field<C, Isa>{"isa", &C::isa},
                      Field<C, int>{"mr", &C::mr},
                      Field<C, int>{"nr", &C::nr},
                      Field<C, int>{"kc", &C::kc, kAnyLength},
                      Field<C, int>{"mc", &C::mc, kAnyLength},
                      Field<C, Parallel>{"parallel", &C::parallel},
                      Field<C, int>{"prefetch", &C::prefetch}};
  }
};

/// AMX: mt × nt accumulator tiles, the left operand read in place, the right one packed.
struct HostAmx {
  static constexpr std::string_view kFamily = "host_amx";
  Isa isa = Isa::amx;
  int mt = 2, nt = 2;      // tiles of 16 rows, of 16 columns
  int kc = 1024;           // k of one packed strip
  int nc = 512;            // columns of the right operand packed at once
  bool swap = false;       // compute D^T: B is the left operand
  bool copy_left = false;  // copy the left operand's rows even where they could be read in place
  Parallel parallel = Parallel::none;
  auto operator<=>(const HostAmx&) const = default;

  static constexpr auto fields() {
    using C = HostAmx;
    return std::tuple{Field<C, Isa>{"isa", &C::isa},
                      Field<C, int>{"mt", &C::mt},
                      Field<C, int>{"nt", &C::nt},
                      Field<C, int>{"kc", &C::kc, kAnyLength},
                      Field<C, int>{"nc", &C::nc, kAnyLength},
                      Field<C, bool>{"swap", &C::swap},
                      Field<C, bool>{"copy_left", &C::copy_left},
                      Field<C, Parallel>{"parallel", &C::parallel}};
  }
};

/// The whole shape is in the code: no packing, no run-time sizes, for small problems.
struct HostSmall {
  static constexpr std::string_view kFamily = "host_small";
  Isa isa = Isa::avx512;
  int bytes = 64;  // of one vector; narrow problems want narrow vectors
  int mr = 8, nv = 2;
  int unroll = 1;                      // k steps in the inner loop's body, 0 = all of k
  Parallel parallel = Parallel::none;  // or batch
  auto operator<=>(const HostSmall&) const = default;

  static constexpr auto fields() {
    using C = HostSmall;
    return std::tuple{
        Field<C, Isa>{"isa", &C::isa},       Field<C, int>{"bytes", &C::bytes},
        Field<C, int>{"mr", &C::mr},         Field<C, int>{"nv", &C::nv},
        Field<C, int>{"unroll", &C::unroll}, Field<C, Parallel>{"parallel", &C::parallel}};
  }
};

}  // namespace kiln
