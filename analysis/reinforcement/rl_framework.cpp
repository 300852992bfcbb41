#include "analysis/reinforcement/rl_framework.hpp"

namespace plumbline {
namespace {

std::int64_t attention_tensors(const ModelConfig& model) {
  if (model.latent) return (model.latent.query_rank > 0 ? 3 : 1) + 3 + 1;
  const bool normed = model.norms.qk && model.predicted.query_norm != QueryNorm::plain;
  return 4 + (model.biases.qkv ? 3 : 0) + (model.has_projection_bias() ? 1 : 0) + (normed ? 2 : 0);
}

}  // namespace

FrameworkCosts framework_costs(RlFramework framework) {
  switch (framework) {
    case RlFramework::none:
      return {};
    case RlFramework::nemo_rl:
      // "Transfer and update" of three mixtures with 6,100 to 37,000 tensors on B200: 3.56, 9.67 and 18.4 s,
      // 0.50 to 0.58 ms a tensor (NVIDIA-NeMo/RL pull request 3294). Tensor.to("cpu") moves optimizer states
      // to memory that is not pinned (megatron_policy_worker.py at 7ea279a): 2.8 GB/s on an H200
      // (sgl-project/sglang pull request 32032). The way back is taken to be as slow. Its vLLM sleeps at
      // level 1, which saves weights (vllm_worker.py).
      return {{0.5e-3}, 2.8e9, true};
    case RlFramework::slime:
      // 7 s for the 18,867 tensors of Qwen3-30B-A3B on H100, in buckets of flattened tensors
      // (hebiao064.github.io/rl-weight-sync). States are saved in pinned memory.
      return {{0.37e-3}, 0, false};
    case RlFramework::verl:
      // Its pages print no time for a tensor. Its vLLM sleeps at level 2, which drops weights
      // (volcengine/verl@b178a3cd verl/workers/rollout/vllm_rollout/vllm_async_server.py).
      return {};
  }
  return {};
}

FrameworkReleases framework_releases(const RunConfig& config) {
  if (config.reinforcement.rollout.framework != RlFramework::verl) return {};
  // free_cache_engine is on by default (verl/trainer/config/rollout/rollout.yaml). FSDP's reference and
  // reward model have CPUOffload, and zero_grad() frees gradients (verl/workers/fsdp_workers.py,
  // actor/dp_actor.py); Megatron-Core keeps its gradient buffers.
  const bool fsdp = config.parallel.dp.zero_stage == 3;
  return {true, fsdp, fsdp};
}

std::int64_t checkpoint_tensors(const ModelConfig& model) {
  constexpr std::int64_t kMambaTensors =
      8;  // two products, convolution and its bias, A, D, steps' bias, norm
  const std::int64_t of_product = model.has_feed_forward_bias() ? 2 : 1;
  const std::int64_t feed_forward = (is_gated(model.activation) ? 3 : 2) * of_product;
  const Mixture& mixture = model.mixture;
  std::int64_t of_mixture = 0;
  if (mixture) {
    of_mixture = mixture.experts * feed_forward + 1 + (mixture.expert_bias ? 1 : 0);
    if (mixture.shared > 0) of_mixture += feed_forward + (mixture.shared_gated ? 1 : 0);
    if (mixture.latent > 0) of_mixture += 2;
  }
  const std::int64_t mixtures = model.mixture_layers();
  const std::int64_t ends = 1 + model.norm_vectors() + (model.position_rows() > 0 ? 1 : 0) +
                            (model.embedding.tied ? 0 : 1) + (model.biases.output ? 1 : 0);
  return model.attention_layers() * attention_tensors(model) + model.mamba_layers() * kMambaTensors +
         model.norm_count() * model.norm_vectors() + mixtures * of_mixture +
         (model.feed_forward_layers() - mixtures) * feed_forward + ends;
}

}  // namespace plumbline
