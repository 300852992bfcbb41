// Forward passes over all sequences of a step: log-probabilities of the actor and the reference.
#pragma once

#include <cstdint>

#include "analysis/predict/predict.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// Time of the forwards of `microbatches` through the pipeline, from the costs of a step with the same
/// stages: the first one passes through all ranks, the slowest rank has the rest.
Seconds scoring_time(const Prediction& step, const Schedule& schedule, std::int64_t microbatches);

/// Memory of such a forward on a pipeline rank besides the parameters: as of plumbline's passes that keep
/// nothing (action TF), with the logits of a micro-batch.
Bytes scoring_workspace(const RunConfig& update, int pipeline_rank);

}  // namespace plumbline
