// The search of `plumbline search` for a step of reinforcement learning.
#pragma once

#include <functional>

#include "bench/ask/search_answer.hpp"
#include "bench/show/views/reinforcement/placement_report.hpp"

namespace plumbline {

/// Searches for `given`, which is the question's; its ranks and those of its rollout together are the
/// accelerators, unless a key gives world_size. Throws as answer_search() does.
PlacementAnswer answer_placements(const SearchQuestion& question, const RunConfig& given,
                                  const std::function<void(int, int)>& progress = {});

}  // namespace plumbline
