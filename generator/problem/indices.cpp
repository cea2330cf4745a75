#include "generator/problem/indices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "generator/problem/bad_input.h"

namespace kiln {
namespace {

/// Calls `f(line of the operand, line in order)` with the bytes from the first ones on.
template <typename F>
void for_each_line(const Gemm& gemm, Operand which, const IndexedRows& rows, F&& f) {
  const std::int64_t of = extent(gemm, which).lines;
  const std::int64_t line = line_bytes(gemm, which);
  for (std::int64_t i = 0; i < rows.count; ++i)
    f(line_offset(gemm, which, row_at(rows.index, rows.first + i, of)), i * line);
}

}  // namespace

Status check_indices(const Gemm& g) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const Gathered* const gathered = gathered_rows(g);
  const Scattered* const scattered = scattered_rows(g);
  for (const auto& [rows, given] :
       {std::pair{"rows_of_a", gathered != nullptr ? gathered->rows : 0},
        std::pair{"rows_of_d", scattered != nullptr ? scattered->rows : 0}}) {
    if (given < 0) return bad_input("{} = {}: must be 0 (m) or more", rows, given);
    if (given > kMost) return bad_input("{} = {}: rows are counted in 32 bits", rows, given);
  }
  const auto refuse = [&](std::string_view field, std::string why) {
    return fail(ErrorCode::unsupported,
                fmt::format("{} = {}: {}", field,
                            field == "scatter" ? name(scattered->how) : "rows", std::move(why)));
  };
  if (gathered != nullptr && (g.a.order == Order::row_major) == g.a.transposed)
    return refuse("gather", fmt::format("a.transposed = {}: rows of A must be lines of memory",
                                        g.a.transposed));
  if (gathered != nullptr && g.a.q.zero != Zero::none)
    return refuse("gather", fmt::format("zero_a = {}: must be none", name(g.a.q.zero)));
  if (scattered == nullptr) return {};
  if (g.epilogue.residual) return refuse("scatter", "epilogue.residual = true: must be false");
  if (g.d.q.scale != Scale::none)
    return refuse("scatter", fmt::format("scale_d = {}: must be none", name(g.d.q.scale)));
  if (!adds_rows(g)) return {};
  if (!is_floating(g.d.dtype))
    return refuse("scatter", fmt::format("d.dtype = {}: must be a floating type", name(g.d.dtype)));
  if (g.epilogue.bias_as_d) return refuse("scatter", "epilogue.bias_as_d = true: must be false");
  if (g.m < 1 || g.m > kMost)
    return refuse("scatter", fmt::format("m = {}: must be 1 to {}", g.m, kMost));
  return {};
}

namespace {

/// Of the rows that are added.
DType type_to_add(const Gemm& gemm) {
  return gemm.d.dtype == DType::fp64 ? DType::fp64 : DType::fp32;
}

}  // namespace

void index_every_row(Gemm& gemm) {
  auto* const rows = std::get_if<GroupsOfRows>(&gemm.groups);
  if (rows == nullptr) return;
  if (rows->gather) rows->gather->rows = 0;
  if (rows->scatter) rows->scatter->rows = 0;
}

Gemm in_order(const Gemm& gemm) {
  Gemm copy = gemm;
  if (gathers(gemm)) copy.a.ld = 0;
  if (scatters(gemm) || adds_rows(gemm)) copy.c.ld = copy.d.ld = 0;
  if (adds_rows(gemm)) copy.c.dtype = copy.d.dtype = type_to_add(gemm);
  if (indexed(gemm)) copy.groups = GroupsOfRows{};
  return copy;
}

Problem product_to_add(const Problem& problem) {
  Problem copy = problem;
  Gemm& g = copy.gemm;
  std::get<GroupsOfRows>(g.groups).scatter.reset();
  const DType type = type_to_add(g);
  for (Matrix* const x : std::initializer_list<Matrix*>{&g.c, &g.d}) {
    x->dtype = type;
    x->ld = std::max<std::int64_t>(1, g.n);
  }
  return copy;
}

std::int64_t row_to_add_to(const void* index, std::int64_t row, std::int64_t rows) {
  return std::min<std::int64_t>(static_cast<const std::int32_t*>(index)[row], rows - 1);
}

std::int64_t rows_in_groups(const Gemm& gemm, const void* groups) {
  // A group begins where the largest entry before it ends, so all rows up to the largest are of
  // one.
  const auto* const ends = static_cast<const std::int32_t*>(groups);
  return std::clamp<std::int64_t>(*std::max_element(ends, ends + gemm.batch), 0, gemm.m);
}

std::int64_t row_at(const void* index, std::int64_t row, std::int64_t rows) {
  return std::clamp<std::int64_t>(static_cast<const std::int32_t*>(index)[row], 0, rows - 1);
}

bool is_gathered(const Gemm& gemm, Operand which) {
  if (!gathers(gemm)) return false;
  const bool scales = which == Operand::scale_a && gemm.a.q.scale != Scale::tensor;
  return which == Operand::a || (scales && present(gemm, which));
}

bool is_scattered(const Gemm& gemm, Operand which) { return scatters(gemm) && which == Operand::d; }

std::int64_t line_bytes(const Gemm& gemm, Operand which) {
  return bytes_of(dtype_of(gemm, which), extent(gemm, which).length);
}

std::int64_t line_offset(const Gemm& gemm, Operand which, std::int64_t line) {
  return offset_bytes(dtype_of(gemm, which), line * leading_dimension(gemm, which));
}

std::int64_t pitch_bytes(const Gemm& gemm, Operand which) {
  return bytes_of(dtype_of(gemm, which), leading_dimension(gemm, which));
}

void gather_lines(const Gemm& gemm, Operand which, const void* operand, const IndexedRows& rows,
                  void* to) {
  const auto bytes = static_cast<std::size_t>(line_bytes(gemm, which));
  if (bytes == 0) return;
  for_each_line(gemm, which, rows, [&](std::int64_t from, std::int64_t at) {
    std::memcpy(static_cast<std::byte*>(to) + at, static_cast<const std::byte*>(operand) + from,
                bytes);
  });
}

void scatter_lines(const Gemm& gemm, Operand which, const void* from, const IndexedRows& rows,
                   void* operand) {
  const auto bytes = static_cast<std::size_t>(line_bytes(gemm, which));
  if (bytes == 0) return;
  for_each_line(gemm, which, rows, [&](std::int64_t to, std::int64_t at) {
    std::memcpy(static_cast<std::byte*>(operand) + to, static_cast<const std::byte*>(from) + at,
                bytes);
  });
}

}  // namespace kiln
