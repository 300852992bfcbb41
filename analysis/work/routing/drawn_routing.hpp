// Random routings, as likely as a mean load says: what the steps of a run will need, before it.
#pragma once

#include <random>
#include <vector>

#include "analysis/work/routing/given_routing.hpp"

namespace plumbline {

/// A routing of one step: in every copy, layer and micro-batch the tokens × top-k choices fall on the layer's experts as a
/// multinomial distribution of its shares. Overwrites the tokens of `routing`, whose lines say where they are.
void draw_routing(const MeanLoad& load, std::mt19937_64& random, std::vector<RoutedTokens>& routing);

}  // namespace plumbline
