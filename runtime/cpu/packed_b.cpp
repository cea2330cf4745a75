#include "runtime/cpu/packed_b.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "kiln/numeric.hpp"
#include "runtime/cpu/thread_pool.h"

namespace kiln {
namespace {

/// An element as the caller stores it, at any address.
template <typename Bits>
Bits bits_at(const std::byte* from) {
  Bits bits;
  std::memcpy(&bits, from, sizeof bits);
  return bits;
}

// How one element is read, and what is packed of it.
template <typename Bits>
struct Copied {
  using From = Bits;
  using To = Bits;
  static To of(From bits) { return bits; }
};
struct HalfToFloat {
  using From = std::uint16_t;
  using To = float;
  static To of(From bits) { return fp16_to_float(bits); }
};
struct BfloatToFloat {
  using From = std::uint16_t;
  using To = float;
  static To of(From bits) { return bf16_to_float(bits); }
};
template <typename Byte, typename Wide>
struct Widened {
  using From = Byte;
  using To = Wide;
  static To of(From byte) { return byte; }
};

/// Columns where the caller has them: element (k, column) lies at
/// `first + k * k_pitch + column * pitch`, pitches in bytes.
struct Source {
  const std::byte* first;
  std::int64_t k_pitch, pitch;
  std::int64_t columns, k;
};

// Rows of a panel that are written before the next column is read: 128 lines of 64 bytes and what
// they are read from stay in L1.
constexpr std::int64_t kRowsAtOnce = 128;
constexpr std::int64_t kPanelsAtOnce = 8;

/// Units of one column: `group` elements along k each, of which the last may lack some.
template <typename E>
void pack_column(const PackedLayout& layout, const Source& from, std::int64_t column,
                 std::int64_t row, std::int64_t last_row, std::byte* panel) {
  using To = typename E::To;
  using From = typename E::From;
  const std::int64_t group = layout.group;
  const std::byte* at = from.first + column * from.pitch + row * group * from.k_pitch;
  std::byte* to = panel + row * layout.row_bytes() + column * group * std::int64_t{sizeof(To)};
  for (; row < last_row; ++row, to += layout.row_bytes()) {
    const std::int64_t count = std::min(group, from.k - row * group);
    for (std::int64_t i = 0; i < count; ++i, at += from.k_pitch) {
      const To value = E::of(bits_at<From>(at));
      std::memcpy(to + i * std::int64_t{sizeof value}, &value, sizeof value);
    }
  }
}

/// The same of elements that are copied and lie side by side along k: a unit at a time.
template <typename Unit>
void copy_units(const PackedLayout& layout, const Source& from, std::int64_t column,
                std::int64_t row, std::int64_t last_row, std::byte* panel) {
  const std::byte* at = from.first + column * from.pitch + row * std::int64_t{sizeof(Unit)};
  std::byte* to = panel + row * layout.row_bytes() + column * std::int64_t{sizeof(Unit)};
  for (; row < last_row; ++row, at += sizeof(Unit), to += layout.row_bytes())
    std::memcpy(to, at, sizeof(Unit));
}

/// One row of units from `group` rows of the caller's, whose columns lie side by side.
template <typename E>
void pack_row(const PackedLayout& layout, const Source& from, std::int64_t row, std::byte* panel) {
  using To = typename E::To;
  using From = typename E::From;
  const std::int64_t group = layout.group, count = std::min(group, from.k - row * group);
  std::byte* to = panel + row * layout.row_bytes();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::byte* at = from.first + (row * group + i) * from.k_pitch;
    for (std::int64_t column = 0; column < from.columns; ++column) {
      const To value = E::of(bits_at<From>(at + column * std::int64_t{sizeof(From)}));
      std::memcpy(to + (column * group + i) * std::int64_t{sizeof value}, &value, sizeof value);
    }
  }
}

/// The same where a row of units is whole and elements are copied: units of four bytes, a column's
/// each.
template <typename Bits>
void copy_row(const PackedLayout& layout, const Source& from, std::int64_t row, std::byte* panel) {
  constexpr int kGroup = 4 / sizeof(Bits);
  const std::byte* at[kGroup];
  for (int i = 0; i < kGroup; ++i) at[i] = from.first + (row * kGroup + i) * from.k_pitch;
  std::byte* to = panel + row * layout.row_bytes();
  for (std::int64_t column = 0; column < from.columns; ++column) {
    std::uint32_t unit = 0;
    for (int i = 0; i < kGroup; ++i) {
      const auto bits = bits_at<Bits>(at[i] + column * std::int64_t{sizeof(Bits)});
      unit |= std::uint32_t{bits} << (8 * sizeof(Bits) * static_cast<unsigned>(i));
    }
    std::memcpy(to + column * 4, &unit, 4);
  }
}

/// Of panels whose units are four signed bytes, 16 to a row: the one instruction that needs them.
void add_column_sums(std::int64_t rows, std::byte* panel) {
  constexpr int kLanes = 16;
  constexpr std::uint32_t kEven = 0x00ff00ffu;
  std::int32_t sums[kLanes] = {};
  for (std::int64_t row = 0; row < rows; ++row, panel += sizeof sums) {
    std::uint32_t units[kLanes];
    std::memcpy(units, panel, sizeof units);
    // Shifted to unsigned, bytes are added in pairs without a carry into one another: a tenth of
    // the time of bytes that are widened one by one.
    for (int lane = 0; lane < kLanes; ++lane) {
      const std::uint32_t bytes = units[lane] ^ 0x80808080u;
      const std::uint32_t pairs = (bytes & kEven) + (bytes >> 8 & kEven);
      sums[lane] += static_cast<std::int32_t>((pairs & 0xffff) + (pairs >> 16)) - 4 * 128;
    }
  }
  std::memcpy(panel, sums, sizeof sums);
}

template <typename E>
void pack_rows(const PackedLayout& layout, const Source& from, std::int64_t row, std::int64_t last,
               std::byte* panel) {
  using From = typename E::From;
  const bool copied = std::is_same_v<From, typename E::To>;
  const std::int64_t unit_bytes = std::int64_t{layout.group} * layout.element_bytes;
  const std::int64_t whole = std::max(row, std::min(last, from.k / layout.group));
  if (from.k_pitch != std::int64_t{sizeof(From)}) {
    if constexpr (std::is_same_v<From, typename E::To> && std::is_unsigned_v<From> &&
                  sizeof(From) < 4)
      if (unit_bytes == 4)
        for (; row < whole; ++row) copy_row<From>(layout, from, row, panel);
    for (; row < last; ++row) pack_row<E>(layout, from, row, panel);
    return;
  }
  for (std::int64_t column = 0; column < from.columns; ++column) {
    if (copied && unit_bytes == 4)
      copy_units<std::uint32_t>(layout, from, column, row, whole, panel);
    else if (copied && unit_bytes == 8)
      copy_units<std::uint64_t>(layout, from, column, row, whole, panel);
    else
      pack_column<E>(layout, from, column, row, whole, panel);
    pack_column<E>(layout, from, column, whole, last, panel);
  }
}

/// Panels that lie beside one another, some rows of each in turn: a visit to a row of the caller's
/// should find more than one panel's share there.
template <typename E>
void pack_panels(const PackedLayout& layout, const Source& all, std::byte* packed) {
  const std::int64_t rows = layout.rows(all.k), panel_bytes = layout.panel_bytes(all.k);
  const std::int64_t panels = layout.panels(all.columns);
  const auto for_each_panel = [&](auto&& act) {
    for (std::int64_t i = 0; i < panels; ++i) {
      Source from = all;
      from.first += i * layout.lanes * all.pitch;
      from.columns = std::min<std::int64_t>(layout.lanes, all.columns - i * layout.lanes);
      act(from, packed + i * panel_bytes);
    }
  };
  const std::int64_t rows_end = rows * layout.row_bytes();
  for_each_panel([&](const Source& from, std::byte* panel) {
    // What is left free behind a panel is written too: no byte of a copy is left to chance.
    const bool part = from.columns < layout.lanes || from.k < rows * layout.group;
    const std::int64_t first = part ? 0 : rows_end;
    std::memset(panel + first, 0, static_cast<std::size_t>(panel_bytes - first));
  });
  const std::int64_t used = (all.k + layout.group - 1) / layout.group;
  for (std::int64_t row = 0; row < used; row += kRowsAtOnce)
    for_each_panel([&](const Source& from, std::byte* panel) {
      pack_rows<E>(layout, from, row, std::min(row + kRowsAtOnce, used), panel);
    });
  if (layout.column_sums)
    for_each_panel([&](const Source&, std::byte* panel) { add_column_sums(rows, panel); });
}

using PackPanels = void (*)(const PackedLayout&, const Source&, std::byte*);

PackPanels pack_panels_of(const PackedLayout& layout, DType type) {
  switch (layout.as) {
    case PackedAs::f32:
      if (type == fp16) return pack_panels<HalfToFloat>;
      if (type == bf16) return pack_panels<BfloatToFloat>;
      break;
    case PackedAs::s16:
      return type == u8 ? pack_panels<Widened<std::uint8_t, std::int16_t>>
                        : pack_panels<Widened<std::int8_t, std::int16_t>>;
    case PackedAs::s32:
      return type == u8 ? pack_panels<Widened<std::uint8_t, std::int32_t>>
                        : pack_panels<Widened<std::int8_t, std::int32_t>>;
    case PackedAs::itself:
      break;
  }
  switch (size_of(type)) {
    case 1:
      return pack_panels<Copied<std::uint8_t>>;
    case 2:
      return pack_panels<Copied<std::uint16_t>>;
    case 4:
      return pack_panels<Copied<std::uint32_t>>;
    default:
      return pack_panels<Copied<std::uint64_t>>;
  }
}

/// One thread's share. Panels are dealt out, so every byte is one thread's.
void pack_share(const PackedLayout& layout, const Problem& problem, const std::byte* b,
                std::byte* packed, int thread, int threads) {
  const Gemm& g = problem.gemm;
  const PackPanels pack = pack_panels_of(layout, g.b.dtype);
  const std::int64_t size = size_of(g.b.dtype), panels = layout.panels(g.n);
  const std::int64_t all = g.batch * panels, end = all * (thread + 1) / threads;
  Source from{.first = nullptr,
              .k_pitch = (problem.b_k_major ? 1 : g.b.ld) * size,
              .pitch = (problem.b_k_major ? g.b.ld : 1) * size,
              .columns = 0,
              .k = g.k};
  for (std::int64_t i = all * thread / threads, next; i < end; i = next) {
    const std::int64_t batch = i / panels, column = i % panels * layout.lanes;
    next = std::min({i + kPanelsAtOnce, end, (batch + 1) * panels});
    from.first = b + batch * g.b.batch_stride * size + column * from.pitch;
    from.columns = std::min((next - i) * layout.lanes, g.n - column);
    pack(layout, from, packed + i * layout.panel_bytes(g.k));
  }
}

/// Null when there is none. Weights are read through once a call: with small pages every panel
/// would need a translation of its own for each 4 KiB.
std::shared_ptr<std::byte[]> memory(std::int64_t bytes) {
  constexpr std::size_t kLine = 64, kHugePage = std::size_t{2} << 20;
  const auto wanted = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1));
  const std::size_t unit = wanted < kHugePage ? kLine : kHugePage;
  const std::size_t whole = (wanted + unit - 1) / unit * unit;
  void* data = std::aligned_alloc(unit, whole);
  if (data != nullptr && unit == kHugePage) madvise(data, whole, MADV_HUGEPAGE);
  return {static_cast<std::byte*>(data), [](std::byte* p) { std::free(p); }};
}

}  // namespace

Result<PackedCopy> pack_b(const PackedLayout& layout, const Problem& problem, const void* b,
                          int threads) {
  const Gemm& g = problem.gemm;
  const std::int64_t bytes = g.batch * layout.bytes(g.n, g.k);
  const auto data = memory(bytes);
  if (data == nullptr)
    return fail(ErrorCode::device, fmt::format("packed_b: no memory for {} bytes", bytes));
  parallel(threads, [&](int thread, int count) {
    pack_share(layout, problem, static_cast<const std::byte*>(b), data.get(), thread, count);
  });
  return PackedCopy{data, bytes};
}

}  // namespace kiln
