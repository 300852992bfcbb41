// Distribution of a model's layers on the stages of a pipeline.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/config/run_config.hpp"

namespace plumbline {

/// As even as possible, earlier stages take the remainder; nothing is moved for embeddings or the output
/// layer.
std::vector<int> even_layers(std::int64_t layers, int stages);

/// Layers of each stage of one route, first to last, by `layer_distribution`: `even`, the given numbers,
/// `balanced`, or equal parts in which the embedding, the loss or both count as a layer each:
/// `embedding`, `loss`, `embedding+loss` (Megatron-LM's account_for_embedding_in_pipeline_split and
/// account_for_loss_in_pipeline_split). `9,*,6` gives layers of the first and the last rank, of which one may
/// be missing, and equal parts to the others. `balanced` gives the last stage, which has the output layer,
/// so few layers that the largest FLOPs of a stage are minimal. The others share the rest evenly; later
/// ones take the remainder, because the first holds the embedding (the "Redis" baseline of Yeung et al.,
/// arXiv:2411.05288 §6). Only the last of several stages may have no layers; with other software than
/// plumbline also the first, which then holds the embedding alone. With vocabulary parallelism `balanced`
/// is even. Throws InputError unless `stages` numbers are given, or parts are equal.
std::vector<int> layers_per_stage(const RunConfig& config, int stages);

/// Stages at the ends that may be left without a layer, where the software allows it: 0 to 2.
int ends_without_layers(const RunConfig& config);

/// FLOPs of the output layer's forward, in forwards of one transformer layer.
double output_layer_in_layers(const RunConfig& config);

/// Why `layer_distribution` cannot be, or empty. One line: key, found, expected. Part of why_invalid.
std::optional<std::string> why_layer_distribution_invalid(const RunConfig& config);

}  // namespace plumbline
