// Uneven load of experts as other software meets it: for the time of a step, not for memory.
#pragma once

#include <span>

#include "analysis/step/stage_shape.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// Means over layers and micro-batches.
struct UnevenLoad {
  double fullest = 1;  // rows of the rank with most rows ÷ the mean: the others wait for it
  double inside = 1;   // time of a rank's grouped products ÷ that of as many rows, spread evenly
};

/// `moe_routing`: balanced, a forced balance, whose choices are drawn at random; zipf:S, loads by rank^-S;
/// real, a stated default: loads deviate as those of tokens that choose independently, as many as give the
/// imbalance of a balancing loss in arXiv:2408.15664 (table 2: the fullest of 64 experts has 1.56 times the
/// mean). Experts are on ranks in random order.
UnevenLoad uneven_load(const RunConfig& config);

/// Sets the rows of the fullest rank.
void set_uneven_load(const UnevenLoad& load, std::span<StageShape> stages);

}  // namespace plumbline
