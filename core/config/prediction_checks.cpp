#include "core/config/prediction_checks.hpp"

#include <fmt/format.h>

namespace plumbline {
namespace {

/// What a model has that its modules would need and do not have here; null: nothing.
const char* foreign_to_modules(const ModelConfig& model) {
  if (model.norm != Norm::rms || model.norm_less_one) return "whose norms are no plain RMSNorm";
  if (model.block != Block::sequential) return "whose blocks are parallel";
  if (model.positions != Positions::rotary || model.block_positions)
    return "whose positions are not plainly rotary";
  if (model.linear_bias || model.output_bias) return "whose linear layers have biases";
  if (model.normed_output || model.normed_residual != 0 || model.embedding_norm || model.embedding_scale != 1)
    return "whose ends are other than an embedding, a norm and an output layer";
  return nullptr;
}

}  // namespace

std::optional<std::string> why_prediction_does_not_fit(const RunConfig& config) {
  const ModelConfig& model = config.model;
  if (model.prediction_modules == 0) {
    if (config.prediction.loss_scaling_factor == PredictionConfig().loss_scaling_factor) return std::nullopt;
    return fmt::format(
        "mtp_loss_scaling_factor: found {} without mtp_num_layers, expected modules that it is for",
        config.prediction.loss_scaling_factor);
  }
  if (config.machine.software != "plumbline") return std::nullopt;
  const auto with = [&](const std::string& found, const char* expected) {
    return fmt::format("mtp_num_layers: found {} with {}, expected {}", model.prediction_modules, found,
                       expected);
  };
  if (const char* foreign = foreign_to_modules(model))
    return with(fmt::format("{}, {}", model.name, foreign), "0, or a model such as llama or deepseek_v3");
  if (model.prediction_modules >= config.batch.seq_length)
    return with(fmt::format("seq_length {}", config.batch.seq_length), "fewer modules than tokens");
  if (model.sliding_window > 0 && model.sliding_window < config.batch.seq_length)
    return with("a sliding window", "0: a module's attention has none");
  if (config.batch.prefix_length > 0) return with("a prefix_length", "0: modules are causal");
  if (config.batch.packed.on()) return with("packed sequences", "0: tokens ahead are those of one sequence");
  if (config.distillation.teacher) return with("a teacher", "0, or none");
  if (config.finetune.lora()) return with("frozen lora", "0, or none");
  if (config.parallel.splits_vocabulary())
    return with("vocab_parallel", "0, or none: modules stand on the last stage");
  if (config.parallel.context > 1)
    return with(fmt::format("context_parallel_size {}", config.parallel.context),
                "0, or 1: a rank has whole sequences");
  if (config.parallel.effective_tp_comm_overlap()) return with("tp_comm_overlap true", "0, or false");
  if (config.numerics.fp8.on()) return with("fp8_format", "0, or none");
  if (config.numerics.hidden_dropout > 0 || config.numerics.attention_dropout > 0)
    return with("dropout", "0, or none");
  RecomputeModules others = config.recompute.selected();
  others.core_attn = false;
  if (others != RecomputeModules())
    return with(fmt::format("recompute_modules {}", to_string(config.recompute.modules)), "0, or core_attn");
  const std::int64_t t = config.parallel.tensor;
  if (model.hidden % t != 0 || model.kv_heads < t)
    return with(fmt::format("tensor_model_parallel_size {}", t),
                "0, or a divisor of the hidden size that is at most the key/value heads");
  if (config.mixture.routing != "balanced")
    return with(fmt::format("moe_routing {}", config.mixture.routing), "0, or balanced");
  return std::nullopt;
}

}  // namespace plumbline
