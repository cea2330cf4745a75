#include "generator/families/cpu/common/packed_layout.h"

#include <fmt/format.h>

#include "generator/families/cpu/common/host.h"
#include "generator/space/space.h"

namespace kiln {
namespace {

PackedAs packed_as(Kind kind) {
  switch (kind) {
    case Kind::f32:
      return PackedAs::f32;
    case Kind::s16:
      return PackedAs::s16;
    case Kind::s32:
      return PackedAs::s32;
    case Kind::f64:
    case Kind::bf16:
    case Kind::vnni:
      break;
  }
  return PackedAs::itself;
}

constexpr std::int64_t kPageBytes = 4096;

constexpr std::string_view kNamesOfPackedAs[] = {"itself", "f32", "s16", "s32"};

}  // namespace

std::int64_t PackedLayout::rows(std::int64_t k) const {
  return ceil_div(ceil_div(k, group), step) * step;
}

std::int64_t PackedLayout::panels(std::int64_t n) const { return ceil_div(n, lanes); }

std::int64_t PackedLayout::panel_bytes(std::int64_t k) const {
  const std::int64_t page_rows = kPageBytes / row_bytes();
  const std::int64_t used = rows(k) + (column_sums ? 1 : 0);
  const bool whole = used >= 16 * page_rows && (used + page_rows / 16) % page_rows <= page_rows / 8;
  return (used + (whole ? page_rows * 17 / 64 : 0)) * row_bytes();
}

PackedLayout packed_layout(const Problem& problem, const DeviceCaps& device) {
  const DType type = problem.gemm.b.dtype;
  PackedLayout layout{.element_bytes = size_of(type)};
  for (const Isa isa : host::isas(device)) {
    const DotInstruction* row = host::instruction(isa, problem, device);
    if (row == nullptr) continue;
    layout.as = packed_as(row->kind);
    layout.element_bytes = row->input_bytes;
    layout.lanes = row->vector_bytes / row->acc_bytes;
    layout.group = row->group;
    // Sixteen rows of 64 bytes are a tile of AMX, which has the same units of bf16 and of bytes.
    if (row->kind == Kind::bf16 || row->kind == Kind::vnni) layout.step = 16;
    layout.column_sums = row->kind == Kind::vnni && type == s8;
    break;
  }
  return layout;
}

std::string text(const PackedLayout& layout) {
  const auto& [as, element_bytes, lanes, group, step, column_sums] = layout;
  // Panels were not apart once: the last words keep kernels of that layout from this one.
  return fmt::format("as={};bytes={};lanes={};group={};step={};sums={};pages=staggered",
                     kNamesOfPackedAs[static_cast<int>(as)], element_bytes, lanes, group, step,
                     static_cast<int>(column_sums));
}

}  // namespace kiln
