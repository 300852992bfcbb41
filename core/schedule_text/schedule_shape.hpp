// Sizes and placement of a schedule that is known by its cells only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/schedule/schedule.hpp"

namespace plumbline {

/// Fills in ranks, stages, micro-batches, routes and rank_of_stage from the actions. `columns` holds the
/// column of every action in the file `origin`, for messages. Throws InputError when numbers leave a gap (a
/// stage or micro-batch below the highest that has no F) or a stage appears in two rows.
void infer_shape(Schedule& schedule, const std::vector<std::vector<std::uint32_t>>& columns,
                 const std::string& origin);

}  // namespace plumbline
