// The training software whose step is described.
#pragma once

#include <optional>
#include <string>

#include "analysis/hardware/software.hpp"
#include "analysis/step/stage_topics.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// The traits of what `software` names. Throws InputError with the known names.
const Software& software_of(const RunConfig& config);

/// Behaviour of a step that is described.
StepTraits traits_of(const Software& software);

/// True where linear layers that are one matrix in a step have an A of LoRA each.
struct LayersApart {
  bool qkv = false;
  bool fc1 = false;  // gate and up
};
/// With `frozen: canonical_lora`. plumbline's own step follows the tensors of the model's checkpoint;
/// Megatron-Bridge's CanonicalLoRA splits every model's.
LayersApart layers_apart(const RunConfig& config);

/// Reason why a software's MoE or hybrid model is not predicted, or empty: software without one, and, of MoE
/// models, sharded gradients.
std::optional<std::string> why_model_unlisted(const RunConfig& config, const Software& software);

}  // namespace plumbline
