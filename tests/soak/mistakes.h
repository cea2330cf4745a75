// Calls of the C functions with one argument that is wrong, and what the error must name. Knows no
// engine.
#pragma once

#include <span>
#include <string_view>

#include "kiln/gemm.hpp"
#include "kiln/kiln.h"
#include "tuner/verify/data.h"

namespace kiln::soak {

/// Arguments of one call: right ones, until a mistake is made in them.
struct Arguments {
  const Gemm& gemm;
  kiln_gemm_desc desc;
  kiln_operands operands;
  const kiln_packed_b* foreign;  // packed for another problem
};

struct Mistake {
  std::string_view name;
  std::string_view field;  // which the error must name
  /// Makes it; false when it is none for these arguments. m, n and k are 1 or more.
  bool (*make)(Arguments& arguments);
};

/// Of the problem: any function that takes a descriptor refuses it.
std::span<const Mistake> problem_mistakes();
/// Of the operands: kiln_gemm() refuses them, and kiln_plan_run() those that leave the problem and
/// the threads alone.
std::span<const Mistake> operand_mistakes();

/// A whole call, or an engine that cannot be opened.
struct CallMistake {
  std::string_view name, field;
  kiln_status (*call)(kiln_engine* engine, const Arguments& arguments);
};
std::span<const CallMistake> call_mistakes();

/// Whether `message` holds `field` as a word of its own.
bool names_field(std::string_view message, std::string_view field);

}  // namespace kiln::soak
