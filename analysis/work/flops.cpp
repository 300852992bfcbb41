#include "analysis/work/flops.hpp"

namespace plumbline {

namespace {

/// Of attention: with latent attention of the products with the short vectors.
std::int64_t attention_parameters(const ModelConfig& model) {
  const std::int64_t q = model.heads * model.head_dim;
  const std::int64_t k = model.kv_heads * model.head_dim;
  const LatentAttention& l = model.latent;
  if (!l) return model.hidden * (q + 2 * k + q);
  const std::int64_t queries = l.query_rank > 0 ? l.query_rank * (model.hidden + q) : model.hidden * q;
  return queries + model.hidden * (l.kv_rank + l.rope_dim) +
         l.kv_rank * model.heads * (l.nope_dim + l.value_dim) + model.heads * l.value_dim * model.hidden;
}

}  // namespace

std::int64_t matmul_parameters(const ModelConfig& model) {
  const std::int64_t gates = is_gated(model.activation) ? 3 : 2;  // products of a feed-forward layer
  const Mixture& mixture = model.mixture;
  const std::int64_t with_experts =
      gates * (mixture.top_k * model.ffn + mixture.shared) + mixture.experts +
      (mixture.shared > 0 && mixture.shared_gated ? 1 : 0);
  const std::int64_t mixtures = model.mixture_layers();
  const std::int64_t dense = (model.layers - mixtures) * gates * (mixture ? mixture.dense_ffn : model.ffn);
  return model.layers * attention_parameters(model) + model.hidden * (mixtures * with_experts + dense) +
         model.vocab * model.hidden;
}

std::int64_t adapter_parameters(const ModelConfig& model, const FinetuneConfig& finetune) {
  if (!finetune.lora()) return 0;
  const std::int64_t q = model.heads * model.head_dim;
  const std::int64_t k = model.kv_heads * model.head_dim;
  const std::int64_t up = (is_gated(model.activation) ? 2 : 1) * model.ffn;
  std::int64_t widths = model.hidden + q + 2 * k;
  if (finetune.lora_targets != LoraTargets::qkv) widths += q + model.hidden;
  if (finetune.lora_targets == LoraTargets::all) widths += model.hidden + up + model.ffn + model.hidden;
  return model.layers * finetune.lora_rank * widths;
}

Flops model_flops_per_token(const ModelConfig& model, std::int64_t seq_length, std::int64_t prefix) {
  // Scores are as wide as heads of keys, their products with values as those of values.
  const double width = static_cast<double>(model.heads * (model.head_dim + model.value_dim())) / 2;
  const double attention =
      12.0 * static_cast<double>(model.layers) * width * model.mean_keys(seq_length, prefix);
  return {6.0 * static_cast<double>(matmul_parameters(model)) + attention};
}

Flops model_flops_per_token(const RunConfig& config) {
  const BatchConfig& batch = config.batch;
  Flops student = model_flops_per_token(config.model, batch.seq_length, batch.prefix_length);
  if (config.finetune.lora()) {
    const auto adapters = static_cast<double>(adapter_parameters(config.model, config.finetune));
    student += Flops{6.0 * adapters - 2.0 * static_cast<double>(matmul_parameters(config.model))};
  }
  if (!config.distillation.teacher) return student;
  return student +
         model_flops_per_token(*config.distillation.teacher, batch.seq_length, batch.prefix_length) / 3.0;
}

StageFlops stage_flops(const StageShape& shape) {
  StageFlops flops;
  for (const OperatorCall& call : forward_calls(shape)) flops.forward += flops_of(call);
  for (const OperatorCall& call : backward_calls(shape)) flops.backward += flops_of(call);
  if (shape.vocabulary.carries) {
    for (const OperatorCall& call : calls_of(work_of(shape, ActionType::vocab_forward))) {
      flops.forward += flops_of(call);
    }
    for (const OperatorCall& call : calls_of(work_of(shape, ActionType::vocab_backward))) {
      flops.backward += flops_of(call);
    }
  }
  return flops;
}

Flops executed_flops_per_token(const RunConfig& config, int stages) {
  Flops microbatch;
  for (const StageShape& shape : stage_shapes(config, stages)) {
    const StageFlops flops = stage_flops(shape);
    microbatch +=
        (flops.forward + flops.backward) * static_cast<double>(std::int64_t{shape.tensor} * shape.context);
  }
  if (config.distillation.teacher) {
    RunConfig evaluated = config;
    evaluated.model = *config.distillation.teacher;
    evaluated.distillation.teacher.reset();
    for (const StageShape& shape : stage_shapes(evaluated, 1)) {
      microbatch +=
          stage_flops(shape).forward * static_cast<double>(std::int64_t{shape.tensor} * shape.context);
    }
  }
  return microbatch / static_cast<double>(config.batch.micro_batch_size * config.batch.seq_length);
}

}  // namespace plumbline
