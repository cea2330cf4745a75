// The C API's structs as kiln's values, and back: sizes of older and newer headers, enumerators
// that may be any integer. Knows no Engine.
#pragma once

#include "kiln/engine.hpp"
#include "kiln/kiln.h"
#include "kiln/log.hpp"

struct kiln_packed_b {
  kiln::PackedB packed;
};

namespace kiln {

/// An error of the engine with the names that kiln.h gives its fields: "a.ld = 1" for "lda = 1".
std::string in_words_of_c(std::string_view message);
/// "NAME = null".
Status null_argument(std::string_view name);

/// Errors: bad_input (null, a size that no header has, an enumerator that does not exist, a field
/// that only a newer library knows), by the field's name and value.
Result<Gemm> gemm_of(const kiln_gemm_desc* desc);
/// The problems whose `size` runs from `first` to `last`; desc's own value of it is not read.
Result<GemmRange> range_of(const kiln_gemm_desc* desc, int size, std::int64_t first,
                           std::int64_t last);
Result<Operands> operands_of(const kiln_operands* operands);
/// Null: the defaults.
Result<OpenOptions> options_of(const kiln_options* options);

/// Null: the defaults, with `default_seconds` as the budget.
Result<TuneOptions> options_of(const kiln_tune_options* options, double default_seconds);
Result<LogLevel> level_of(const kiln_log_level& level);

/// Whether `report` is one that report_to() may write. Null is allowed. Errors: as above.
Status check_report(const kiln_tune_report* report);
/// Fills as much of `to` as its size holds. False when the warnings did not fit in whole.
bool report_to(kiln_tune_report* to, const TuneReport& report);
bool report_to(kiln_tune_report* to, const RangeReport& report);

}  // namespace kiln
