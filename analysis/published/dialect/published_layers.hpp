// Rules for the distribution of layers on stages, where a source gives a rule instead of numbers.
#pragma once

#include <string>

#include "analysis/published/dialect/table_header.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// Puts the rules of a row into the configuration, as chunks and layer_distribution:
/// - num_layers_per_virtual_pipeline_stage n: chunks such that stages have n layers
/// - account_for_embedding_in_pipeline_split, account_for_loss_in_pipeline_split: both ends count as a layer
///   each; stages are even then
/// - layer_distribution: redistributed: VocabularyParallelism's baseline (arXiv:2411.05288 §6, "Redis"). The
///   output layer counts as a whole number of layers by FLOPs, stages are filled evenly, later ones take the
///   remainder
/// Without pipeline_schedule, several chunks mean `interleaved`, as in Megatron-LM. Throws InputError.
void put_layers(const Cells& cells, const std::string& origin, RunConfig& config);

}  // namespace plumbline
