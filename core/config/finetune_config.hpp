// Parameters that train.
#pragma once

#include <cstdint>

namespace plumbline {

/// lora: the model's own parameters are frozen; low-rank adapters alongside linear layers train (Hu et al.
/// 2021, arXiv:2106.09685), with one A for queries, keys and values, and one for gate and up, as
/// Megatron-Bridge's LoRA. canonical_lora: each of these has its own A, as PEFT's and Megatron-Bridge's
/// CanonicalLoRA.
enum class Frozen { none, lora, canonical_lora };
/// Linear layers with an adapter: only that of queries, keys and values, also the projection, or all four of
/// a layer.
enum class LoraTargets { qkv, attention, all };

/// Storage of frozen linear weights of a model's layers; embedding, norms and output layer keep their type.
/// nf4: bitsandbytes' 4-bit floats (NF4 or FP4) in blocks of 64 with fp32 scales, nf4_double: with 8-bit
/// scales in blocks of 256 (QLoRA, arXiv:2305.14314, section 3); int8: LLM.int8(), arXiv:2208.07339; int4:
/// GPTQ's and AWQ's 4-bit integers in groups of 128.
enum class FrozenWeights { native, nf4, nf4_double, int8, int4 };

/// "nf4_double".
constexpr const char* frozen_weights_name(FrozenWeights weights) {
  constexpr const char* kNames[] = {"native", "nf4", "nf4_double", "int8", "int4"};
  return kNames[static_cast<int>(weights)];
}

struct FinetuneConfig {
  Frozen frozen = Frozen::none;
  std::int64_t lora_rank = 16;
  double lora_alpha = 32;  // Megatron-Bridge's default; an adapter's result is multiplied by alpha / rank
  LoraTargets lora_targets = LoraTargets::attention;
  FrozenWeights frozen_weights = FrozenWeights::native;
  // Parts of a model with a vision tower (Megatron-Bridge's names): the language model; the tower without its
  // mergers; these.
  bool freeze_language_model = false;
  bool freeze_vision_model = false;
  bool freeze_vision_projection = false;
  /// Factor of an adapter's result.
  double scale() const { return lora_alpha / static_cast<double>(lora_rank); }
  bool freezes_parts() const {
    return freeze_language_model || freeze_vision_model || freeze_vision_projection;
  }
  bool quantized() const { return frozen_weights != FrozenWeights::native; }
  bool lora() const { return frozen != Frozen::none; }
  /// Linear layers that are one matrix here have an A each.
  bool canonical() const { return frozen == Frozen::canonical_lora; }
};

}  // namespace plumbline
