#include "bench/training/optimizers/elementwise.hpp"

namespace plumbline::training {
namespace {

/// PyTorch's SGD without dampening: the momentum is a sum of gradients, and the update.
void descend(Operators& operators, const OptimizerConfig& config, const UpdatedElements& e,
             double gradient_scale) {
  DescentStep step;
  step.learning_rate = config.learning_rate;
  if (config.sgd_momentum == 0) {
    step.gradient_scale = gradient_scale;
    operators.sgd(e.values, e.gradients, e.master, step);
    return;
  }
  operators.momentum(e.gradients, e.moment1, {},
                     {.keep = config.sgd_momentum, .add = 1, .gradient_scale = gradient_scale});
  operators.sgd(e.values, e.moment1, e.master, step);
}

}  // namespace

void update_elements(Operators& operators, const OptimizerConfig& config, const UpdatedElements& e,
                     double gradient_scale, std::int64_t update) {
  if (config.kind == Optimizer::sgd) return descend(operators, config, e, gradient_scale);
  if (config.kind == Optimizer::lion) {
    LionStep step;
    step.learning_rate = config.learning_rate;
    step.weight_decay = e.weight_decay;
    step.gradient_scale = gradient_scale;
    operators.lion(e.values, e.gradients, e.master, e.moment1, step);
    return;
  }
  AdamStep step;
  step.learning_rate = config.learning_rate;
  step.weight_decay = e.weight_decay;
  step.gradient_scale = gradient_scale;
  step.step = update;
  operators.adam(e.values, e.gradients, e.master, e.moment1, e.moment2, step);
}

}  // namespace plumbline::training
