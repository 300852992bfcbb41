// The model of a published run: a preset, or columns that are keys of a config.json.
#pragma once

#include <string>

#include "analysis/published/dialect/table_header.hpp"
#include "core/config/model_config.hpp"

namespace plumbline {

/// The model of the cells: `model` (a preset or the path of a config.json) overridden by the other model
/// columns, or these alone. Names are those of Llama's config.json for every model_type (gpt2's n_embd is
/// hidden_size, as transformers maps them). Megatron-LM's are normalization, swiglu, add_bias_linear and
/// position_embedding_type. max_position_embeddings defaults to the sequence length, as in Megatron-LM's
/// launch scripts. Relative paths are of `folder`. Throws InputError with `origin`.
ModelConfig published_model(const Cells& cells, const std::string& origin, const std::string& folder);

}  // namespace plumbline
