// Pieces of SQL that several rooms share, and what binds their parameters.
#pragma once

#include <SQLiteCpp/Statement.h>

#include "cache/record.h"

namespace kiln {

/// Rows of one device, policy and toolchain, of any templates; bind_key() binds ?1 to ?6.
inline constexpr const char* kSettingCondition =
    "measurement.device_id = (SELECT id FROM device WHERE key = ?1) AND "
    "measurement.policy = ?3 AND measurement.determinism = ?4 AND "
    "(?6 = '' OR toolchain.compiler = ?6) AND measurement.quarantined IS NULL";
/// The same with the kernels of ranges of the policy.
inline constexpr const char* kKernelCondition =
    "measurement.device_id = (SELECT id FROM device WHERE key = ?1) AND "
    "(measurement.policy = ?3 OR substr(measurement.policy, 1, length(?3) + 1) = ?3 || ' ') AND "
    "measurement.determinism = ?4 AND "
    "(?6 = '' OR toolchain.compiler = ?6) AND measurement.quarantined IS NULL";
/// Of those, the rows of today's templates.
inline constexpr const char* kTemplateCondition = "toolchain.template_hash = ?5";
/// Of those, the rows of one problem.
inline constexpr const char* kProblemCondition =
    "measurement.problem_id = (SELECT id FROM problem WHERE key = ?2)";
inline constexpr const char* kMeasurementJoin =
    "measurement JOIN config ON config.id = measurement.config_id "
    "JOIN toolchain ON toolchain.id = measurement.toolchain_id";
void bind_key(SQLite::Statement& row, const BestKey& key, const Validators& now);
/// Binds ?1 to ?4: device, class of problems, policy, determinism.
void bind_class_key(SQLite::Statement& row, const BestKey& key);

}  // namespace kiln
