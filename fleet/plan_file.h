// fleet.json: a fleet's plan as text. Knows no folders.
#pragma once

#include <filesystem>
#include <string>

#include "fleet/folder.h"

namespace kiln {

std::string plan_text(const FleetPlan& plan);
/// Errors: database (damaged, of another version), naming the file and the field.
Result<FleetPlan> parse_plan(const std::string& text, const std::filesystem::path& file);
/// What the first of them has otherwise than the second, as "field = value: …"; empty: nothing.
std::string difference(const FleetPlan& asked, const FleetPlan& there);

}  // namespace kiln
