// Sharding of parameters, gradients and optimizer states as Megatron-LM's arguments set it.
#pragma once

#include "core/launch_files/arguments/launch_arguments.hpp"
#include "core/launch_files/megatron/model/megatron_dialect.hpp"

namespace plumbline {

/// Sets software, zero_stage and overlap_param_gather; for a recipe also overlap_grad_reduce. Throws
/// InputError (place, flag, found, expected).
void set_megatron_sharding(LaunchArguments& from, const MegatronDialect& dialect);

/// Lists buffers and types of Megatron-FSDP that are not predicted among the refused arguments; predicted are
/// those of Megatron-Bridge's recipes.
void check_megatron_fsdp(LaunchArguments& from, bool bf16, bool fp16);

}  // namespace plumbline
