#include "tuner/measured.h"

#include <fmt/format.h>

#include <cmath>

namespace kiln {
namespace {

/// With a comma before every three digits, whatever the locale.
std::string grouped(std::int64_t count) {
  const std::string digits = std::to_string(count);
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

}  // namespace

std::string_view name(Failure::Kind kind) {
  switch (kind) {
    case Failure::Kind::compile:
      return "compile";
    case Failure::Kind::load:
      return "load";
    case Failure::Kind::crashed:
      return "crashed";
    case Failure::Kind::timed_out:
      return "timed out";
    case Failure::Kind::wrong_result:
      return "wrong result";
    case Failure::Kind::out_of_bounds:
      return "out of bounds";
    case Failure::Kind::resources:
      return "resources";
  }
  return "crashed";
}

std::string_view name(Round round) {
  switch (round) {
    case Round::screen:
      return "screen";
    case Round::second:
      return "second";
    case Round::race:
      return "race";
  }
  return "screen";
}

std::string load_text(const Timing& timing) {
  std::string out;
  if (timing.joules >= 1)
    out = fmt::format("{:.3g} J a call", timing.joules);
  else if (timing.joules > 0)
    out = timing.joules >= 1e-3 ? fmt::format("{:.3g} mJ a call", timing.joules * 1e3)
                                : fmt::format("{:.3g} uJ a call", timing.joules * 1e6);
  if (timing.sm_mhz > 0)
    out += fmt::format("{}SM clock {} MHz", out.empty() ? "" : ", ", timing.sm_mhz);
  return out;
}

std::string text(const SearchExtent& s) {
  return fmt::format(
      "{} of {} candidates measured{}, {:.1f} s of {} s{}{}", grouped(s.measured),
      grouped(s.enumerated), s.failed > 0 ? fmt::format(", {} failed", grouped(s.failed)) : "",
      s.seconds, std::round(s.budget_seconds * 100) / 100, s.whole_space ? ", the whole space" : "",
      s.interrupted ? ", interrupted" : "");
}

}  // namespace kiln
