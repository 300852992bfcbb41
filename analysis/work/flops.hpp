// FLOPs of a training step: model FLOPs and executed FLOPs.
#pragma once

#include "analysis/work/operator_list.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// Weights that take part in a token's matrix products: every linear layer and the output layer (tied or
/// not), vocabulary not padded; no norms, biases or lookups. In MoE layers the router and top_k experts.
std::int64_t matmul_parameters(const ModelConfig& model);

/// Parameters of LoRA's adapters in the whole model; 0 without.
std::int64_t adapter_parameters(const RunConfig& config);

/// FLOPs of the model per trained token, forward and backward, nothing recomputed:
///   6·N + 12·Σ (a·d)·n
/// N = matmul_parameters; a query heads of size d; n = keys_per_query, the keys that a query of a layer sees
/// on average over a sequence of s tokens (s/2 without a window: 6·L·(a·d)·s with L layers). The second
/// term is attention: two products of 2·n·a·d FLOPs per token, times three (backward is twice forward).
/// Masked pairs, causal or outside a window, are not counted. A model with windows has fewer FLOPs and gains
/// no MFU by skipping them. PaLM (Chowdhery et al., arXiv:2204.02311, appendix B) counts the full square,
/// 12·L·a·d·s.
/// MFU = this × tokens/s ÷ (ranks × peak).
Flops model_flops_per_token(const ModelConfig& model, std::int64_t seq_length, std::int64_t prefix = 0);
/// The same for a run. A teacher adds its forward, a third of its FLOPs. With LoRA the frozen weights have no
/// gradient (4·N); the adapters' parameters have all three products.
Flops model_flops_per_token(const RunConfig& config);

/// FLOPs that one tensor rank executes for one micro-batch of a stage. They include scores computed again in
/// attention's backward, recomputed layers and the padding of the vocabulary. I and W together are B. On a
/// stage that carries shards of the vocabulary S counts as forward, T as backward.
struct StageFlops {
  Flops forward;
  Flops backward;
};
StageFlops stage_flops(const StageShape& shape);

/// FLOPs that all ranks together execute per trained token, the model split into `stages`, a teacher's
/// forward included. HFU = this × tokens/s ÷ (ranks × peak).
Flops executed_flops_per_token(const RunConfig& config, int stages);

}  // namespace plumbline
