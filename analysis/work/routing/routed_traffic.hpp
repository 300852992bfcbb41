// Traffic of a rank in one step under a known routing.
#pragma once

#include "analysis/work/routing/routed_rows.hpp"
#include "analysis/work/traffic.hpp"

namespace plumbline {

/// predict_traffic() of one world rank under a known routing of its tokens and those of the ranks that share
/// its experts. `rows`: of its Layout::sender; `teacher`: the same for evaluated_teacher(); without it that
/// model's rows are even.
Traffic predict_traffic(const RunConfig& config, const Schedule& schedule, int world_rank,
                        const RoutedRows& rows, const RoutedRows* teacher = nullptr);

/// The same for every world rank. `teacher`: the routing of evaluated_teacher(); empty: its rows are even.
std::vector<Traffic> predict_traffic(const RunConfig& config, const Schedule& schedule,
                                     std::span<const RoutedTokens> routing,
                                     std::span<const RoutedTokens> teacher = {});

}  // namespace plumbline
