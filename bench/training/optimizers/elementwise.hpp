// Updates that treat every element by itself: AdamW, gradient descent, Lion.
#pragma once

#include <cstdint>

#include "core/config/optimizer_config.hpp"
#include "kernels/operators.hpp"

namespace plumbline::training {

/// Equally many elements of a rank's parameters, as one row. States that the optimizer does not keep are
/// empty.
struct UpdatedElements {
  Matrix values;
  Matrix gradients;
  Matrix master;
  Matrix moment1;  // or the momentum
  Matrix moment2;
  double weight_decay = 0;
};

/// One update with `config`'s optimizer, or AdamW for the elements that Muon leaves to it. `gradient_scale`:
/// factor of all gradients; `update`: 1 for the first.
void update_elements(Operators& operators, const OptimizerConfig& config, const UpdatedElements& elements,
                     double gradient_scale, std::int64_t update);

}  // namespace plumbline::training
