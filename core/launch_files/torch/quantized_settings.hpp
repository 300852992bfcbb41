// Quantized frozen weights and 8-bit optimizer states in files of Hugging Face's Trainer.
#pragma once

#include <string>

#include "core/launch_files/arguments/launch_arguments.hpp"

namespace plumbline {

/// Sets frozen_weights from the keys of transformers' BitsAndBytesConfig, LLaMA-Factory and ms-swift, or from
/// the checkpoint's name; other methods, and quantized weights without adapters, are not modelled. `nested`:
/// scales are quantized, too, unless the file says otherwise.
void set_quantized_weights(LaunchArguments& from, bool nested);

/// Sets the type of both moments by the optimizer's name in transformers' OptimizerNames. Returns false for a
/// name that is no AdamW.
bool set_adam_states(LaunchArguments& from, const std::string& key, const std::string& optimizer);

}  // namespace plumbline
