#include "generator/space/launch_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "generator/families/cpu/common/packed_layout.h"
#include "generator/problem/fields.h"
#include "generator/space/family.h"
#include "generator/space/space.h"

namespace kiln {
namespace {

/// The version of the database that brought the newest field of which kernels that take any
/// epilogue are told: one that was proved before the field would not compute it. Texts without it
/// are of version 8.
constexpr int kEpilogueSince = [] {
  int newest = 0;
  for (const GemmField& field : kGemmFields)
    if (told_at_calls(field)) newest = std::max(newest, field.since);
  return newest;
}();

std::string text(const Dim3& d) { return fmt::format("{}x{}x{}", d.x, d.y, d.z); }

// Structured bindings: a field that is added stops this file from compiling until it is written.
std::string text(const GpuStep& step) {
  const auto& [entry, grid, block, cluster, dynamic_shared_bytes, overlaps_previous, maps,
               first_entry] = step;
  const std::string list = first_entry < 0 ? "" : fmt::format(",first_entry={}", first_entry);
  return fmt::format("step(entry={},grid={},block={},cluster={},shared={},overlaps={},maps={}{});",
                     entry, text(grid), text(block), text(cluster), dynamic_shared_bytes,
                     static_cast<int>(overlaps_previous), fmt::join(maps, "+"), list);
}

std::string text(const TensorMapSpec& map) {
  const auto& [operand, offset, element, rank, dims, strides, box, swizzle, promotion] = map;
  return fmt::format(
      "map(operand={},offset={},element={},rank={},dims={},strides={},box={},swizzle={},"
      "promotion={});",
      static_cast<int>(operand), offset, static_cast<int>(element), rank, fmt::join(dims, "x"),
      fmt::join(strides, "x"), fmt::join(box, "x"), static_cast<int>(swizzle),
      static_cast<int>(promotion));
}

std::string text(const KilnDivision& division) {
  const auto& [mc, nc, kc, inner_columns, parallel] = division;
  return fmt::format("mc={};nc={};kc={};inner_columns={};parallel={};", mc, nc, kc, inner_columns,
                     parallel);
}

}  // namespace

std::string launch_text(const GpuLaunch& launch) {
  const auto& [steps, maps, workspace_bytes, zeroed_bytes, product_at, values, in_place_of_d,
               entry_maps, entry_bytes] = launch;
  std::string all = fmt::format("workspace={};zeroed={};", workspace_bytes, zeroed_bytes);
  if (product_at != 0) all += fmt::format("product={};", product_at);
  for (const auto& [at, ld, stride, line_at, line_stride] : values) {
    if (at < 0) continue;
    const std::string line =
        line_at < 0 ? "" : fmt::format(",line={},line_stride={}", line_at, line_stride);
    all += fmt::format("values(at={},ld={},stride={}{});", at, ld, stride, line);
  }
  if (in_place_of_d >= 0) all += fmt::format("in_place_of_d={};", in_place_of_d);
  if (entry_maps != 0) all += fmt::format("entry_maps={};", entry_maps);
  if (entry_bytes != kPlainEntryBytes) all += fmt::format("entry_bytes={};", entry_bytes);
  for (const GpuStep& step : steps) all += text(step);
  for (const TensorMapSpec& map : maps) all += text(map);
  return all;
}

std::string launch_text(const Problem& problem, const DeviceCaps& device, const Config& config) {
  if (!broken_rule(problem, device, config).empty()) return {};
  const Family& family = family_of(config, device.vendor);
  const bool host = family.vendor == Vendor::cpu;
  std::string all = fmt::format("abi={};revision={};", host ? kHostAbi : kGpuAbi, family.revision);
  if (takes_epilogue(config) && kEpilogueSince > 8)
    all += fmt::format("epilogue={};", kEpilogueSince);
  if (family.division != nullptr) all += text(family.division(config));
  if (problem.gemm.b_packed && host)
    all += fmt::format("b={};", text(packed_layout(problem, device)));
  if (!host) all += launch_text(family.launch(problem, device, config));
  return all;
}

}  // namespace kiln
