// The model of a published run: a preset, or columns that are keys of a config.json.
#pragma once

#include <string>

#include "analysis/published/dialect/table_header.hpp"
#include "core/config/model_config.hpp"

namespace plumbline::cluster {

/// The model that the cells say: `model` (a preset or the path of a config.json) with the other model columns
/// put over it, or these alone. Names are those of Llama's config.json for every model_type (gpt2's n_embd is
/// hidden_size, as transformers maps them); normalization, swiglu, add_bias_linear and position_embedding_type
/// are Megatron-LM's. Where max_position_embeddings is not given it is the sequence length, as in Megatron-LM's
/// launch scripts. Throws InputError with `origin`.
ModelConfig published_model(const Cells& cells, const std::string& origin);

}  // namespace plumbline::cluster
