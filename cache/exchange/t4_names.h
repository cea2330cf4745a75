// T4's words and units, for its writer and its reader.
#pragma once

#include <optional>
#include <string_view>

#include "tuner/measured.h"

namespace kiln {

inline constexpr std::string_view kT4Correct = "correct";
inline constexpr double kT4Millisecond = 1e6;  // in nanoseconds

/// Why a candidate failed, as T4 says it.
constexpr std::string_view t4_invalidity(Failure::Kind kind) {
  switch (kind) {
    case Failure::Kind::compile:
      return "compile";
    case Failure::Kind::load:
    case Failure::Kind::crashed:
      return "runtime";
    case Failure::Kind::timed_out:
      return "timeout";
    case Failure::Kind::wrong_result:
    case Failure::Kind::out_of_bounds:
      return "correctness";
    case Failure::Kind::resources:
      return "constraints";
  }
  return "runtime";
}

/// The same back, for results that do not say more. Nothing where T4 has no such word, or it is
/// kT4Correct.
constexpr std::optional<Failure::Kind> t4_failure(std::string_view invalidity) {
  for (const Failure::Kind kind :
       {Failure::Kind::compile, Failure::Kind::crashed, Failure::Kind::timed_out,
        Failure::Kind::wrong_result, Failure::Kind::resources})
    if (t4_invalidity(kind) == invalidity) return kind;
  return std::nullopt;
}

}  // namespace kiln
