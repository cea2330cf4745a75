#include "generator/problem/features.h"

#include "generator/problem/extent.h"
#include "generator/problem/fields.h"
#include "generator/problem/indices.h"

namespace kiln {
namespace {

template <Grouping kKind>
bool needs_groups(const Gemm& g) {
  return g.grouping() == kKind;
}

/// Of scales of A and B that are not those of weights.
Feature kind_of_scales(const Gemm& g) {
  if (g.accumulator == s32) return Feature::scales_of_integers;
  if (g.a.q.scale == Scale::mx_32 || g.b.q.scale == Scale::mx_32) return Feature::scales_mx_32;
  if (blocks_along_k(g.a.q.scale) || blocks_along_k(g.b.q.scale)) return Feature::scales_of_blocks;
  return Feature::scales_of_lines;
}

template <Feature kKind>
bool needs_scales(const Gemm& g) {
  return !has_weights(g) && (g.a.q.scale != Scale::none || g.b.q.scale != Scale::none) &&
         kind_of_scales(g) == kKind;
}

struct FeatureRow {
  Feature feature;
  bool (*needed)(const Gemm&);
  std::string_view rule;
};

// A problem that needs several names the first that is missing.
constexpr std::string_view kNoScales = "the family applies the operands' scales",
                           kNoGroups = "the family computes grouped products",
                           kNoScalesOfD = "the family writes a D with such scales";
constexpr FeatureRow kFeatureRows[] = {
    {Feature::weights, has_weights, "the family multiplies weights in groups"},
    {Feature::scales_of_integers, needs_scales<Feature::scales_of_integers>, kNoScales},
    {Feature::scales_of_lines, needs_scales<Feature::scales_of_lines>, kNoScales},
    {Feature::scales_of_blocks, needs_scales<Feature::scales_of_blocks>, kNoScales},
    {Feature::scales_mx_32, needs_scales<Feature::scales_mx_32>, kNoScales},
    {Feature::scale_orders, orders_scales, "the family reads scales that lie block by block"},
    {Feature::groups_of_rows, needs_groups<Grouping::rows>, kNoGroups},
    {Feature::masked_groups, needs_groups<Grouping::masked>, kNoGroups},
    {Feature::groups_of_k, needs_groups<Grouping::k>, kNoGroups},
    {Feature::lists, needs_groups<Grouping::list>, "the family computes lists of products"},
    {Feature::indexed_rows, [](const Gemm& g) { return gathers(g) || scatters(g); },
     "the family reads and writes rows by index"},
    {Feature::added_rows, adds_rows, "the family's rows are added to rows of D"},
    {Feature::scale_of_d, [](const Gemm& g) { return g.d.q.scale == Scale::tensor; }, kNoScalesOfD},
    {Feature::scales_of_d,
     [](const Gemm& g) { return g.d.q.scale != Scale::none && g.d.q.scale != Scale::tensor; },
     kNoScalesOfD},
};

}  // namespace

Features features_of(const Gemm& gemm) {
  Features all;
  for (const FeatureRow& row : kFeatureRows)
    if (row.needed(gemm)) all = all | Features{row.feature};
  for_each_gemm_field([&](auto at) {
    if constexpr (!kGemmFields[at].rule.empty())
      if (kGemmFields[at].get(gemm) != default_values()[at]) all = all | Features::of_field(at);
  });
  return all;
}

std::string_view rule_for(Features missing) {
  for (const FeatureRow& row : kFeatureRows)
    if (missing.has(row.feature)) return row.rule;
  for (std::size_t i = 0; i < kGemmFieldCount; ++i)
    if (missing.has_field(i)) return kGemmFields[i].rule;
  return {};
}

}  // namespace kiln
