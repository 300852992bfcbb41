// Published tables that are not step times of whole runs: memory formulas, one layer, simulator oracles.
#pragma once

#include <vector>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/published/compared_row.hpp"
#include "analysis/published/published_row.hpp"
#include "analysis/published/schedule_need.hpp"

namespace plumbline {

using FormulaReader = void (*)(const PublishedRow&, const Profiles&, const ScheduleMakers&,
                               std::vector<ComparedRow>&);
/// nullptr when the table is not one of them.
FormulaReader formula_reader(const PublishedTable& table);

}  // namespace plumbline
