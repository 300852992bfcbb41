#include "analysis/work/flops.hpp"

#include "analysis/step/software_of.hpp"
#include "analysis/step/stage_kinds.hpp"
#include "analysis/step/stage_shapes.hpp"

namespace plumbline {

namespace {

/// Parameters of a layer's queries, keys, values and projection.
std::int64_t attention_parameters(const ModelConfig& model) {
  const std::int64_t q = model.heads * model.head_dim;
  const std::int64_t k = model.kv_heads * model.head_dim;
  const LatentAttention& latent = model.latent;
  if (!latent) return model.hidden * (q + 2 * k + q);
  const std::int64_t values = model.heads * latent.value_dim;
  const std::int64_t queries =
      latent.query_rank == 0 ? model.hidden * q : latent.query_rank * (model.hidden + q);
  return queries + model.hidden * (latent.kv_rank + latent.rope_dim) +
         latent.kv_rank * (model.heads * latent.nope_dim + values) + values * model.hidden;
}

/// Parameters of the experts that one token uses, in an MoE layer.
std::int64_t mixture_parameters(const ModelConfig& model, std::int64_t projections) {
  const Mixture& mixture = model.mixture;
  const std::int64_t gate = mixture.shared > 0 && mixture.shared_gated ? 1 : 0;
  return projections * mixture.top_k * model.ffn * model.expert_width() +
         model.hidden * (projections * mixture.shared + 2 * mixture.latent + mixture.experts + gate);
}

/// FLOPs of a token in the scans of all Mamba mixers, both passes (Megatron-LM, training.py,
/// mamba_layer_flops).
double scan_flops(const ModelConfig& model) {
  constexpr double kScan = 7;
  const Mamba& mamba = model.hybrid.mamba;
  return 3 * kScan * static_cast<double>(model.mamba_layers() * mamba.inner() * mamba.state);
}

}  // namespace

std::int64_t matmul_parameters(const ModelConfig& model) {
  const std::int64_t projections = is_gated(model.activation) ? 3 : 2;
  const Mamba& mamba = model.hybrid.mamba;
  return model.attention_layers() * attention_parameters(model) +
         model.mamba_layers() * model.hidden * (mamba.projected() + mamba.inner()) +
         (model.feed_forward_layers() - model.mixture_layers()) * model.hidden * projections *
             model.dense_ffn() +
         model.mixture_layers() * mixture_parameters(model, projections) + model.vocab * model.hidden;
}

std::int64_t adapter_parameters(const RunConfig& config) {
  const ModelConfig& model = config.model;
  const FinetuneConfig& finetune = config.finetune;
  if (!finetune.lora()) return 0;
  const LayersApart apart = layers_apart(config);
  const std::int64_t q = model.heads * model.head_dim;
  const std::int64_t k = model.kv_heads * model.head_dim;
  const std::int64_t up = (is_gated(model.activation) ? 2 : 1) * model.ffn;
  std::int64_t widths = (apart.qkv ? 3 : 1) * model.hidden + q + 2 * k;
  if (finetune.lora_targets != LoraTargets::qkv) widths += q + model.hidden;
  if (finetune.lora_targets == LoraTargets::all)
    widths += (apart.fc1 ? 2 : 1) * model.hidden + up + model.ffn + model.hidden;
  return model.layers * finetune.lora_rank * widths;
}

Flops model_flops_per_token(const ModelConfig& model, std::int64_t seq_length, std::int64_t prefix) {
  // Scores are as wide as queries, their product with the values as these.
  const double width = static_cast<double>(model.heads * (model.head_dim + model.value_dim())) / 2;
  const double attention =
      12.0 * static_cast<double>(model.attention_layers()) * width * model.mean_keys(seq_length, prefix);
  return {6.0 * static_cast<double>(matmul_parameters(model)) + attention + scan_flops(model)};
}

namespace {

/// FLOPs of MTP modules: each a layer like the last, the product that makes its input and one
/// with the output layer.
Flops module_flops_per_token(const RunConfig& config) {
  const ModelConfig& model = config.model;
  if (model.prediction_modules == 0) return {};
  ModelConfig more = model;
  ++more.layers;
  const std::int64_t seq = config.batch.seq_length;
  const double layer = model_flops_per_token(more, seq).value - model_flops_per_token(model, seq).value;
  const double ends = 6.0 * static_cast<double>(model.hidden * (2 * model.hidden + model.vocab));
  return Flops{(layer + ends) * static_cast<double>(model.prediction_modules)};
}

/// FLOPs of the vision tower for a token of the sequence: its own and its gradients' where they are computed.
Flops tower_flops_per_token(const RunConfig& config) {
  const VisionTower& tower = config.model.predicted.vision;
  const BatchConfig& batch = config.batch;
  if (batch.images_per_sequence == 0) return {};
  const std::int64_t tokens = batch.image_tokens;
  const std::int64_t patches = tokens * tower.square();
  const std::int64_t windowed =
      tower.window > 0 && tower.window < patches ? tower.layers - tower.full_layers : 0;
  const std::int64_t seen = (tower.layers - windowed) * patches + windowed * tower.window;
  const std::int64_t of_patch =
      tower.patch * tower.hidden + 2 * seen * tower.hidden +
      tower.layers * tower.hidden * (4 * tower.hidden + (tower.gated ? 3 : 2) * tower.ffn);
  const std::int64_t of_token = (1 + tower.deepstack) * tower.merged() * (tower.merged() + tower.out);
  const bool layers = !config.finetune.freeze_vision_model;
  const bool mergers = !config.finetune.freeze_vision_projection;
  const double image =
      2.0 * static_cast<double>(patches * of_patch) * (layers ? 3 : 1) +
      2.0 * static_cast<double>(tokens * of_token) * (1 + (layers || mergers ? 1 : 0) + (mergers ? 1 : 0));
  return Flops{image * static_cast<double>(batch.images_per_sequence) /
               static_cast<double>(batch.seq_length)};
}

}  // namespace

Flops model_flops_per_token(const RunConfig& config) {
  const BatchConfig& batch = config.batch;
  const auto flops_of_model = [&](const ModelConfig& model) {
    const double products = 6.0 * static_cast<double>(matmul_parameters(model));
    const double all = model_flops_per_token(model, batch.seq_length, batch.prefix_length).value;
    return batch.packed.on() ? Flops{products + (all - products) * batch.packed.mean} : Flops{all};
  };
  Flops student = flops_of_model(config.model) + module_flops_per_token(config);
  if (config.finetune.lora()) {
    const auto adapters = static_cast<double>(adapter_parameters(config));
    student += Flops{6.0 * adapters - 2.0 * static_cast<double>(matmul_parameters(config.model))};
  }
  if (config.finetune.freeze_language_model)  // no weight gradients
    student += Flops{-2.0 * static_cast<double>(matmul_parameters(config.model))};
  student += tower_flops_per_token(config);
  if (!config.distillation.teacher) return student;
  return student + flops_of_model(*config.distillation.teacher) / 3.0;
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
  RunConfig mean = config;  // of all ranks
  mean.batch.packed.slowest = mean.batch.packed.mean;
  mean.batch.packed.waiting = 1;
  const std::vector<StageShape> shapes = stage_shapes(mean, stages);
  StageFlops flops;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const StageShape& shape = shapes[i];
    if (i == 0 || !differ_in_place_only(shapes[i - 1], shape)) flops = stage_flops(shape);
    microbatch += (flops.forward + flops.backward) *
                  static_cast<double>(std::int64_t{shape.sharding.tensor} * shape.cp.ranks);
  }
  if (config.distillation.teacher) {
    RunConfig evaluated = evaluated_teacher(mean);
    evaluated.distillation.teacher.reset();
    for (const StageShape& shape : stage_shapes(evaluated, 1)) {
      microbatch += stage_flops(shape).forward *
                    static_cast<double>(std::int64_t{shape.sharding.tensor} * shape.cp.ranks);
    }
  }
  return microbatch / static_cast<double>(config.batch.micro_batch_size * config.batch.seq_length);
}

}  // namespace plumbline
