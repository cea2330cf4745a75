#include "generator/problem/weights_rules.h"

#include <fmt/format.h>

#include <utility>

#include "generator/problem/bad_input.h"
#include "generator/problem/extent.h"
#include "generator/problem/gemm_types.h"

namespace kiln {

Status check_weights(const Gemm& g) {
  const auto refuse = [](std::string text) {
    return fail(ErrorCode::unsupported, std::move(text));
  };
  const std::string_view word = type_row(g.a.dtype, g.b.dtype)->word;
  if (g.a.q.scale != Scale::none)
    return refuse(fmt::format("scale_a = {}: a.dtype = {} has no scales", name(g.a.q.scale),
                              name(g.a.dtype)));
  if (g.b.q.scale == Scale::none || g.b.q.scale == Scale::tensor)
    return refuse(
        fmt::format("scale_b = {}: {} needs scales of groups along k: 1x32, 1x64, 1x128, 128x128, "
                    "line or, of floats, mx32",
                    name(g.b.q.scale), word));
  if (g.b.q.scale == Scale::mx_32 && g.b.q.type != fp32)
    return refuse(fmt::format("scale_type = {}: scales of mx32 are e8m0", name(g.b.q.type)));
  if (g.b.q.type != fp32 && g.b.q.type != bf16 && g.b.q.type != fp16)
    return refuse(fmt::format("scale_type = {}: must be fp32, bf16 or fp16", name(g.b.q.type)));
  if (g.b.q.zero != Zero::none && !code_format(g.b.dtype)->has_zero_points())
    return refuse(fmt::format("zero = {}: b.dtype = {} has no zero points", name(g.b.q.zero),
                              name(g.b.dtype)));
  if (const int along = scale_block(g.b.q.scale).along; along != 0 && g.k % along != 0)
    return bad_input("k = {}: groups of {} (scale_b = {}) need a multiple of {}", g.k, along,
                     name(g.b.q.scale), along);
  if (g.b_packed) return refuse("b_packed = true: weights are read as they lie, for every m");
  // D's transpose would have the weights on the left.
  if (g.d.order == Order::column_major)
    return refuse(fmt::format("d.order = column: {} needs a row-major D", word));
  return {};
}

bool has_range_of_scales(const Gemm& g) {
  return g.a.dtype == bf16 || (g.b.q.type == fp16 && g.b.q.scale != Scale::mx_32);
}

}  // namespace kiln
