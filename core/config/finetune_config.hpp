// Parameters that train.
#pragma once

#include <cstdint>

namespace plumbline {

/// lora: the model's own parameters are frozen; low-rank adapters alongside linear layers train (Hu et al.
/// 2021, arXiv:2106.09685).
enum class Frozen { none, lora };
/// Linear layers with an adapter: only that of queries, keys and values, also the projection, or all four of
/// a layer.
enum class LoraTargets { qkv, attention, all };

struct FinetuneConfig {
  Frozen frozen = Frozen::none;
  std::int64_t lora_rank = 16;
  LoraTargets lora_targets = LoraTargets::attention;
  bool lora() const { return frozen == Frozen::lora; }
};

}  // namespace plumbline
