// A family of kernels: its space, rules, model, template files and parameters, for any config. A
// new design is a new row of `families()`, written as in typed_family.h; nothing else dispatches on
// families.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "generator/problem/features.h"
#include "generator/space/gpu_launch.h"
#include "generator/space/space.h"
#include "generator/space/template_values.h"
#include "templates/cpu/common/abi.h"

namespace kiln {

/// One named constant of the rendered parameter block: `constexpr int kMr = 6;  // gloss`.
struct Constant {
  std::string type, name, value, gloss;
  /// Affects speed only: with another value the code gives the same results.
  bool hint = false;
};

/// Everything that a template needs to become one kernel's source.
struct Parameters {
  std::vector<Constant> constants;  // in the order they are printed
  TemplateValues values;            // what `//% if` asks about
  /// What `//% include` takes beside the files of templates/: lines that follow from the problem.
  std::map<std::string, std::string, std::less<>> texts;
};

/// What one block (of a cluster: all its blocks) computes of D in one turn, and the k of a pipeline
/// stage, in elements; on a CPU a register tile and the k of one pass. 0: that size of the problem
/// is a constant of the code.
struct Tile {
  std::int64_t m = 0, n = 0, k = 0;
  // Of a CPU's code, 0 where there is none: the cache block, over whose sizes the loops around
  // tiles run; and steps of rows and columns at which what is left of a tile has code of its own.
  std::int64_t block_m = 0, block_n = 0, step_m = 0, step_n = 0;
};

struct Family {
  std::string_view name;
  Vendor vendor = Vendor::cpu;              // whose devices these kernels are for
  std::span<const std::string_view> files;  // templates, in the order they are pasted
  /// Calls `visit` for every point (the product of the axes); rules decide which are legal.
  void (*enumerate)(const Problem&, const DeviceCaps&,
                    const std::function<void(const Config&)>& visit) = nullptr;
  /// The name of the first rule that forbids the config, or empty.
  std::string_view (*broken_rule)(const Problem&, const DeviceCaps&, const Config&) = nullptr;
  /// These three need a config that breaks no rule.
  Parameters (*parameters)(const Problem&, const DeviceCaps&, const Config&) = nullptr;
  double (*predict_ns)(const Problem&, const DeviceCaps&, const Config&) = nullptr;
  /// Null for host families, whose kernels divide their work themselves.
  GpuLaunch (*launch)(const Problem&, const DeviceCaps&, const Config&) = nullptr;
  /// Of a host family: what its kernels are given with each call, so that configs that differ in it
  /// alone share one binary. Null: nothing.
  KilnDivision (*division)(const Config&) = nullptr;
  /// Null: all sizes are constants of the code.
  Tile (*tile)(const Problem&, const DeviceCaps&, const Config&) = nullptr;
  /// See summation() of summation.h, of a problem with floating accumulators and a config that
  /// breaks no rule. Null: the orders of this family are not known, not even that of integers.
  std::string (*summation)(const Problem&, const DeviceCaps&, const Config&) = nullptr;
  /// Of a GPU's family: of what its kernels make the values that an expression reduces. Null: of
  /// each element.
  Together (*together)(const Problem&, const DeviceCaps&, const Config&) = nullptr;
  /// A config whose order of summation suits every m, at any alignment; its rules have the last
  /// word. What it is must not follow from m. Null: the family offers none.
  std::optional<Config> (*plain)(const Problem&, const DeviceCaps&) = nullptr;
  /// A config for nearly every problem, needing no search; null: the family offers none.
  std::optional<Config> (*fallback)(const Problem&, const DeviceCaps&) = nullptr;
  /// The config with whatever makes tiles cheap that end beyond the operands, for kernels that
  /// serve many sizes; its rules have the last word. Null: there is no such choice.
  Config (*ragged)(const Config&) = nullptr;
  /// What flushed_by() of space.h says; null: all its kernels keep denormals.
  double (*flushed_by)(const Gemm&, const DeviceCaps&, const Config&) = nullptr;
  /// What follows the compiler's name; null: what the platform says.
  std::vector<std::string> (*flags)(const DeviceCaps&, const Config&) = nullptr;
  /// What its kernels compute beyond a plain product. With `lists` on a GPU launch() begins with
  /// the steps that bring the list to the device; kernels of CPUs are called with rows in order,
  /// whatever the indices.
  Features offers;
  /// Bumped by hand when code that was rendered before is found to be wrong: stored winners of
  /// older revisions are not used any more. Never for speed, and never for text.
  int revision = 1;
};

std::span<const Family> families();
/// The row of the family that `config` belongs to on a vendor's devices: several vendors may have
/// kernels of one config type. Null: the vendor has none.
const Family* find_family(const Config& config, Vendor vendor);
/// The same of a config that breaks no rule on the vendor's device.
const Family& family_of(const Config& config, Vendor vendor);
/// What a CPU's kernel is given with each call for this config; all zero where the config is not of
/// a CPU's family.
KilnDivision division_of(const Config& config);

}  // namespace kiln
