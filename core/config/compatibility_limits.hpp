// Limits of the compatibility table (compatibility.hpp): sizes that divide, and requirements of models. Each
// gives a whole refusal, "KEY: found X, expected Y", or nothing.
#pragma once

#include <optional>
#include <string>

#include "core/config/run_config.hpp"

namespace plumbline::features {

using Limit = std::optional<std::string>(const RunConfig& config);

// compatibility_limits.cpp
Limit world_size_limit, tensor_limit, stages_limit, chunks_limit, hierarchical_limit, exchanged_heads_limit,
    sequence_limit, positions_limit, batch_limit, tokens_limit, fp8_limit, fp4_limit, loss_scale_limit,
    wide_ends_limit, graph_modules_limit, instances_limit, expert_instances_limit, secondary_limit,
    prefix_limit, adapter_limit, moments_limit, muon_tensor_limit, images_limit, tower_tensor_limit,
    frozen_parts_limit, slow_ranks_limit, distribution_limit, passes_limit, passes_of_schedule_limit,
    vocabulary_limit, offload_limit, emulated_hardware_limit, own_software_limit, no_backend_limit,
    task_limit, generated_limit, chat_file_limit, dynamic_context_limit, group_limit, responses_limit,
    response_length_limit, rollout_ranks_limit, rollout_sizes_limit, scored_vocabulary_limit,
    rollout_engine_limit;
// mixture_limits.cpp
Limit capacity_limit, routing_limit, other_routing_limit, experts_limit, fp8_experts_limit, modules_limit,
    offload_modules_limit, foreign_model_limit, module_tokens_limit, module_tensor_limit;
// distillation_limits.cpp
Limit teacher_queries_limit, teacher_schedule_limit, teacher_vocabulary_limit, teacher_stages_limit,
    teacher_tensor_limit, teacher_positions_limit;

}  // namespace plumbline::features
