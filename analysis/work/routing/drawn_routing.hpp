// Random routings, drawn by a mean load: the needs of a run's steps, before it.
#pragma once

#include <random>
#include <vector>

#include "analysis/work/routing/given_routing.hpp"

namespace plumbline {

/// A routing of one step. In every replica, layer and micro-batch the tokens × top-k choices fall on the
/// layer's experts as a multinomial distribution of its shares. Overwrites the tokens of `routing`, whose
/// lines name copy, layer and micro-batch.
void draw_routing(const MeanLoad& load, std::mt19937_64& random, std::vector<RoutedTokens>& routing);

}  // namespace plumbline
