// What a rank sends in a step where the routing is known.
#pragma once

#include "analysis/work/routing/routed_rows.hpp"
#include "analysis/work/traffic.hpp"

namespace plumbline {

/// predict_traffic() of one world rank where it is known which experts its tokens, and those of the ranks that share its experts,
/// went to. `rows`: of its Layout::sender; `teacher`: the same of evaluated_teacher(), whose rows are even without.
Traffic predict_traffic(const RunConfig& config, const Schedule& schedule, int world_rank,
                        const RoutedRows& rows, const RoutedRows* teacher = nullptr);

/// The same of every world rank.
std::vector<Traffic> predict_traffic(const RunConfig& config, const Schedule& schedule,
                                     std::span<const RoutedTokens> routing);

}  // namespace plumbline
