#include "tuner/measured.h"

namespace kiln {

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

}  // namespace kiln
