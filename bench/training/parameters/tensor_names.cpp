#include "bench/training/parameters/tensor_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/base/error.hpp"

namespace plumbline::training {
namespace {

constexpr TensorNames kTensorNames[] = {
    {.architecture = "llama"},
    {.architecture = "mistral"},
    {.architecture = "qwen2"},
    {.architecture = "qwen3"},
    {.architecture = "gemma"},
    {.architecture = "nemotron", .fc1 = "mlp.up_proj", .up = ""},
    {.architecture = "gpt2",
     .embedding = "transformer.wte",
     .positions = "transformer.wpe",
     .layers = "transformer.h",
     .norm1 = "ln_1",
     .norm2 = "ln_2",
     .fused = FusedQkv::stacked,
     .query = "attn.c_attn",
     .projection = "attn.c_proj",
     .fc1 = "mlp.c_fc",
     .up = "",
     .fc2 = "mlp.c_proj",
     .final_norm = "transformer.ln_f",
     .transposed = true},
    // With one key/value head, stacked and per group are the same.
    {.architecture = "gpt_bigcode",
     .embedding = "transformer.wte",
     .positions = "transformer.wpe",
     .layers = "transformer.h",
     .norm1 = "ln_1",
     .norm2 = "ln_2",
     .fused = FusedQkv::per_group,
     .query = "attn.c_attn",
     .projection = "attn.c_proj",
     .fc1 = "mlp.c_fc",
     .up = "",
     .fc2 = "mlp.c_proj",
     .final_norm = "transformer.ln_f"},
    {.architecture = "starcoder2", .fc1 = "mlp.c_fc", .up = "", .fc2 = "mlp.c_proj"},
    {.architecture = "bloom",
     .embedding = "transformer.word_embeddings",
     .embedding_norm = "transformer.word_embeddings_layernorm",
     .layers = "transformer.h",
     .fused = FusedQkv::per_group,
     .query = "self_attention.query_key_value",
     .projection = "self_attention.dense",
     .fc1 = "mlp.dense_h_to_4h",
     .up = "",
     .fc2 = "mlp.dense_4h_to_h",
     .final_norm = "transformer.ln_f"},
    {.architecture = "falcon",
     .embedding = "transformer.word_embeddings",
     .layers = "transformer.h",
     .parallel_norm1 = "ln_attn",
     .parallel_norm2 = "ln_mlp",
     .fused = FusedQkv::per_group,
     .query = "self_attention.query_key_value",
     .projection = "self_attention.dense",
     .fc1 = "mlp.dense_h_to_4h",
     .up = "",
     .fc2 = "mlp.dense_4h_to_h",
     .final_norm = "transformer.ln_f"},
    {.architecture = "opt",
     .embedding = "model.decoder.embed_tokens",
     .positions = "model.decoder.embed_positions",
     .layers = "model.decoder.layers",
     .norm1 = "self_attn_layer_norm",
     .norm2 = "final_layer_norm",
     .projection = "self_attn.out_proj",
     .fc1 = "fc1",
     .up = "",
     .fc2 = "fc2",
     .final_norm = "model.decoder.final_layer_norm"},
    {.architecture = "glm", .fc1 = "mlp.gate_up_proj", .up = ""},
    {.architecture = "chatglm",
     .embedding = "transformer.embedding.word_embeddings",
     .layers = "transformer.encoder.layers",
     .fused = FusedQkv::stacked,
     .query = "self_attention.query_key_value",
     .projection = "self_attention.dense",
     .fc1 = "mlp.dense_h_to_4h",
     .up = "",
     .fc2 = "mlp.dense_4h_to_h",
     .final_norm = "transformer.encoder.final_layernorm",
     .output = "transformer.output_layer"},
    {.architecture = "baichuan", .fused = FusedQkv::stacked, .query = "self_attn.W_pack"},
};

}  // namespace

const TensorNames& tensor_names(const ModelConfig& model) {
  const auto* found =
      std::find_if(std::begin(kTensorNames), std::end(kTensorNames),
                   [&](const TensorNames& names) { return names.architecture == model.architecture; });
  if (found == std::end(kTensorNames)) {
    throw Error(fmt::format("no names for the tensors of architecture \"{}\"", model.architecture));
  }
  return *found;
}

}  // namespace plumbline::training
