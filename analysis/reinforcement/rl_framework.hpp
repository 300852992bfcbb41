// Work on the host between the phases of a step, by the program that drives them.
#pragma once

#include <cstdint>

#include "core/base/units.hpp"
#include "core/config/model_config.hpp"
#include "core/config/reinforcement_config.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

struct FrameworkCosts {
  /// For a tensor of a refit: gathered, named as in the checkpoint, loaded by the engine.
  Seconds per_tensor;
  /// Rate of optimizer states between device and host, in bytes/s; 0: that of other copies.
  double optimizer_rate = 0;
  /// A colocated engine's weights go to the host while training works, and back.
  bool keeps_engine_weights = false;
};

FrameworkCosts framework_costs(RlFramework framework);

/// Tensors that a framework takes off the device although the placement is resident.
struct FrameworkReleases {
  bool engine = false;     // weights and cache of the rollout's engine, while training works
  bool untrained = false;  // parameters of reference and reward model, but for their passes
  bool gradients = false;  // behind a model's updates
};

FrameworkReleases framework_releases(const RunConfig& config);

/// Tensors of a model's checkpoint, where a projection is a tensor and an expert has its own.
std::int64_t checkpoint_tensors(const ModelConfig& model);

}  // namespace plumbline
