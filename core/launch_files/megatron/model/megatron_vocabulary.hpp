// Vocabulary of a model of Megatron-LM's arguments.
#pragma once

#include "core/base/json_keys.hpp"
#include "core/launch_files/arguments/launch_arguments.hpp"

namespace plumbline {

/// Sets vocab_size of `model`, a config.json: from a number, a known tokenizer, or the preset of its shape.
/// Throws InputError when none gives it.
void set_megatron_vocabulary(LaunchArguments& arguments, Json& model);

}  // namespace plumbline
