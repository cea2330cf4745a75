// What became of one candidate: a timing or a reason, never infinity.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "generator/space/space.h"
#include "kiln/options.hpp"
#include "runtime/compiler.h"

namespace kiln {

struct Failure {
  enum class Kind : std::uint8_t {
    compile,
    load,
    crashed,
    timed_out,
    wrong_result,
    out_of_bounds,
    resources
  };
  static constexpr Kind kLastKind = Kind::resources;
  Kind kind = Kind::compile;
  std::string
      detail;  // one sentence: signal and address, first wrong element, compiler's first error
  auto operator<=>(const Failure&) const = default;
};
std::string_view name(Failure::Kind kind);

/// How far a candidate came; a screened-out timing is evidence, but not a finalist's.
enum class Round : std::uint8_t { screen, second, race };
std::string_view name(Round round);

struct Measured {
  Config config;
  double predicted_ns = 0;
  std::variant<Timing, Failure> outcome;
  Round round = Round::screen;
  bool verified = false;   // passed every check of tuner/verify/verify.h
  std::string binary_key;  // empty when it never compiled
  /// How much slower the machine was then than when the search began, by the time of a reference
  /// kernel that took turns with it: other guests come and go. 1 where nobody looked.
  double drift = 1;
  /// What else ran when its time was taken, in words (disturbance()); empty: nothing that was seen.
  std::string disturbed = {};

  bool ok() const { return std::holds_alternative<Timing>(outcome); }
  const Timing& timing() const { return std::get<Timing>(outcome); }
  /// The median as it would have been at the begin: what candidates are compared by that were
  /// timed at different moments.
  double comparable_ns() const { return timing().median_ns / drift; }
  const Failure& failure() const { return std::get<Failure>(outcome); }
};

/// "421 mJ a call, SM clock 1620 MHz": what was measured under load; empty where nothing was.
std::string load_text(const Timing& timing);
/// "16 of 14,715 candidates measured, 2 failed, 3.2 s of 10 s, interrupted".
std::string text(const SearchExtent& searched);

/// Everything that one candidate left behind, handed over the moment it is known.
struct Evidence {
  const Measured& measured;
  const Source* source = nullptr;  // null when it was replayed
  const Binary* binary = nullptr;  // null when it failed to compile
};

}  // namespace kiln
