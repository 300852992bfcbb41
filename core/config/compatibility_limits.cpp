#include "core/config/compatibility_limits.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "core/base/one_line.hpp"
#include "core/config/compatibility_features.hpp"
#include "core/config/layer_distribution.hpp"

namespace plumbline::features {
namespace {

constexpr std::int64_t kMostMicrobatches = 1'000'000;  // a schedule lists every one
constexpr std::int64_t kMostTokens = std::int64_t{1} << 30;

std::int64_t tokens_per_rank(const C& c) {
  return c.batch.micro_batch_size * c.batch.seq_length / c.parallel.context;
}

/// Sizes of products that are no multiple of 16, the matrix units' condition for both extents.
std::optional<std::string> why_not_sixteens(const C& c, const std::string& found) {
  const ModelConfig& model = c.model;
  const std::int64_t t = c.parallel.tensor;
  const std::int64_t query = model.heads / t * model.head_dim;
  const std::int64_t key = std::max<std::int64_t>(1, model.kv_heads / t) * model.head_dim;
  const std::pair<const char*, std::int64_t> sizes[] = {
      {c.parallel.context > 1 ? "micro_batch_size x seq_length / context_parallel_size"
                              : "micro_batch_size x seq_length",
       tokens_per_rank(c)},
      // Overlapped products are of a tensor rank's rows each.
      {"micro_batch_size x seq_length per tensor rank",
       tokens_per_rank(c) / (c.parallel.effective_tp_comm_overlap() ? t : 1)},
      {"hidden columns", model.hidden},
      {"query, key and value columns per tensor rank", query + 2 * key},
      {"query columns per tensor rank", query},
      {"feed-forward columns per tensor rank", model.ffn / t},
  };
  for (const auto& [what, size] : sizes) {
    if (size % 16 != 0) return fmt::format("{} with {} = {}, expected a multiple of 16", found, what, size);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> sequence_limit(const C& c) {
  const std::int64_t ranks = c.parallel.context;
  if (!c.parallel.effective_sequence_parallel() || c.batch.seq_length / ranks % c.parallel.tensor == 0)
    return std::nullopt;
  return fmt::format(
      "sequence_parallel: found true with seq_length {}{}, expected one that {} tensor ranks divide",
      c.batch.seq_length, ranks > 1 ? fmt::format(" over {} context ranks", ranks) : "", c.parallel.tensor);
}

std::optional<std::string> positions_limit(const C& c) {
  // The first of a block's positions is that of what is no part of it.
  const std::int64_t positions = c.model.position.max - (c.model.position.of_blocks ? 1 : 0);
  if (c.model.position.kind != Positions::learned || c.batch.seq_length <= positions) return std::nullopt;
  return fmt::format("seq_length: found {}, expected at most the {} learned positions of {}",
                     c.batch.seq_length, positions, c.model.name);
}

std::optional<std::string> batch_limit(const C& c) {
  if (c.generation.on()) return std::nullopt;  // a replica has one batch
  const std::int64_t samples = c.batch.micro_batch_size * c.parallel.data();
  const std::int64_t batch = c.batch.global_batch_size;
  if (batch % samples != 0) {
    return fmt::format(
        "global_batch_size: found {}, expected a multiple of micro_batch_size x data parallel size = {} x {}",
        batch, c.batch.micro_batch_size, c.parallel.data());
  }
  if (batch / samples <= kMostMicrobatches) return std::nullopt;
  return fmt::format("global_batch_size: found {}, which makes {} micro-batches; expected at most {}", batch,
                     batch / samples, kMostMicrobatches);
}

std::optional<std::string> tokens_limit(const C& c) {
  if (c.batch.micro_batch_size <= kMostTokens / c.batch.seq_length) return std::nullopt;
  return fmt::format("micro_batch_size: found {} with seq_length {}, expected at most {} tokens together",
                     c.batch.micro_batch_size, c.batch.seq_length, kMostTokens);
}

std::optional<std::string> fp8_limit(const C& c) {
  return kFp8.on(c) ? why_not_sixteens(c, "fp8_format: found " + kFp8.found(c)) : std::nullopt;
}
std::optional<std::string> fp4_limit(const C& c) {
  return kFp4.on(c) ? why_not_sixteens(c, "fp4_format: found e2m1") : std::nullopt;
}

std::optional<std::string> loss_scale_limit(const C& c) {
  const LossScaleConfig& of = c.numerics.loss_scale;
  const LossScaleConfig plain;
  const bool fp16 = c.numerics.precision == DType::fp16;
  if (of.constant && !fp16)
    return fmt::format("loss_scale: found {} with {}, expected auto, or precision fp16", *of.constant,
                       name_of(c.numerics.precision));
  const auto changed = [&](const char* key, auto value, auto usual) -> std::optional<std::string> {
    if (value == usual || (fp16 && !of.constant)) return std::nullopt;
    return fmt::format("{}: found {} with {}, expected {}, or precision fp16 and loss_scale auto", key, value,
                       fp16 ? "a constant loss_scale" : name_of(c.numerics.precision), usual);
  };
  auto refusal = changed("initial_loss_scale", of.initial, plain.initial);
  if (!refusal) refusal = changed("min_loss_scale", of.least, plain.least);
  if (!refusal) refusal = changed("loss_scale_window", of.window, plain.window);
  if (!refusal) refusal = changed("hysteresis", of.hysteresis, plain.hysteresis);
  if (!refusal && of.least > of.initial)
    refusal =
        fmt::format("min_loss_scale: found {}, expected at most initial_loss_scale {}", of.least, of.initial);
  return refusal;
}

std::optional<std::string> wide_ends_limit(const C& c) {
  const NumericsConfig& numerics = c.numerics;
  const std::int64_t start = numerics.num_layers_at_start_in_bf16, end = numerics.num_layers_at_end_in_bf16;
  if (!kWideEnds.on(c) || start + end <= c.model.layers) return std::nullopt;
  return fmt::format(
      "num_layers_at_start_in_bf16: found {} with num_layers_at_end_in_bf16 {}, expected at most {} together",
      start, end, c.model.layers);
}

std::optional<std::string> graph_modules_limit(const C& c) {
  constexpr std::string_view kParts[] = {"attn", "mlp", "mamba", "moe_router", "moe_preprocess"};
  const std::string& modules = c.machine.cuda_graph_modules;
  for (std::size_t begin = 0; modules != "all" && begin <= modules.size();) {
    const std::size_t end = std::min(modules.find(',', begin), modules.size());
    const std::string_view name = std::string_view(modules).substr(begin, end - begin);
    if (std::find(std::begin(kParts), std::end(kParts), name) == std::end(kParts)) {
      return fmt::format("cuda_graph_modules: found {}, expected all or some of {}", printable(modules),
                         fmt::join(kParts, ","));
    }
    begin = end + 1;
  }
  return std::nullopt;
}

std::optional<std::string> prefix_limit(const C& c) {
  if (c.batch.prefix_length <= c.batch.seq_length) return std::nullopt;
  return fmt::format("prefix_length: found {}, expected at most the seq_length {}", c.batch.prefix_length,
                     c.batch.seq_length);
}

std::optional<std::string> task_limit(const C& c) {
  if (c.reinforces())
    return fmt::format("task: found {}, expected train or sft; `plumbline predict` predicts it",
                       task_name(c.generation.task));
  if (!c.generation.on()) return std::nullopt;
  return "task: found generate, expected train or sft; `plumbline generate` executes it, `plumbline predict` "
         "predicts "
         "it";
}

std::optional<std::string> chat_file_limit(const C& c) {
  const bool chats = c.files.data.ends_with(".jsonl");
  if (c.generation.on() || c.files.data.empty() || chats == c.fine_tunes()) return std::nullopt;
  return fmt::format("data: found {} with task {}, expected {}; set task: {}", printable(c.files.data, 400),
                     chats ? "train" : "sft", chats ? "token ids (.npy or raw)" : "chats (.jsonl)",
                     chats ? "sft" : "train");
}

std::optional<std::string> dynamic_context_limit(const C& c) {
  const auto ranks = static_cast<unsigned>(c.parallel.context);
  if (!c.batch.dynamic_context_parallel || std::has_single_bit(ranks)) return std::nullopt;
  return fmt::format(
      "dynamic_context_parallel: found true with context_parallel_size {}, expected a power of two, such as "
      "{}",
      ranks, std::bit_ceil(ranks));
}

std::optional<std::string> generated_limit(const C& c) {
  if (!c.generation.on() && !c.reinforces()) return std::nullopt;
  const std::int64_t prompt = c.generation.prompt_length;
  const std::int64_t fresh = c.generation.max_new_tokens;
  const std::int64_t all = c.batch.seq_length;
  if (prompt == 0 && fresh >= all) {
    return fmt::format(
        "max_new_tokens: found {} with seq_length {}, expected fewer, to leave a token of prompt", fresh,
        all);
  }
  if (prompt + fresh <= all) return std::nullopt;
  return fmt::format(
      "prompt_length: found {} and max_new_tokens {}, expected at most seq_length {} together; raise "
      "seq_length",
      prompt, fresh, all);
}

std::optional<std::string> group_limit(const C& c) {
  if (c.generation.task != RunTask::grpo || c.reinforcement.group_size > 1) return std::nullopt;
  return "num_generations_per_prompt: found 1 with task grpo, whose advantages are relative to a group; "
         "expected at least 2, or task ppo";
}

std::optional<std::string> responses_limit(const C& c) {
  const ReinforcementConfig& of = c.reinforcement;
  if (!c.reinforces() || of.responses() % c.batch.global_batch_size == 0) return std::nullopt;
  return fmt::format(
      "global_batch_size: found {}, expected a divisor of num_prompts_per_step x num_generations_per_prompt "
      "= "
      "{} x {}",
      c.batch.global_batch_size, of.prompts, of.group_size);
}

std::optional<std::string> response_length_limit(const C& c) {
  const RolloutConfig& of = c.reinforcement.rollout;
  const auto most = static_cast<double>(c.generation.max_new_tokens);
  if (c.reinforces() && of.length_mean > 0 && !of.lengths.empty())
    return fmt::format("response_lengths: found a file with response_length_mean {}, expected one of both",
                       of.length_mean);
  if (!c.reinforces() || of.length_mean == 0 || (of.length_mean >= 1 && of.length_mean <= most))
    return std::nullopt;
  return fmt::format("response_length_mean: found {}, expected 1 to max_new_tokens {}, or 0 for as many",
                     of.length_mean, c.generation.max_new_tokens);
}

std::optional<std::string> rollout_ranks_limit(const C& c) {
  const RolloutConfig& of = c.reinforcement.rollout;
  if (!c.reinforces() || of.own_ranks() == (of.world > 0)) return std::nullopt;
  if (of.own_ranks())
    return "rollout_world_size: found 0 with ranks of their own for the rollout, expected how many there "
           "are; "
           "or change rollout_placement to colocated";
  return fmt::format(
      "rollout_world_size: found {} with a rollout on the ranks that train, expected 0; or change "
      "rollout_placement to split",
      of.world);
}

std::optional<std::string> rollout_sizes_limit(const C& c) {
  if (!c.reinforces()) return std::nullopt;
  const RolloutConfig& of = c.reinforcement.rollout;
  const int ranks = of.world > 0 ? of.world : c.parallel.world_size;
  const int tensor = of.tensor > 0 ? of.tensor : c.parallel.tensor;
  const int pipeline = of.pipeline > 0 ? of.pipeline : c.parallel.pipeline;
  if (ranks % (tensor * pipeline) == 0) return std::nullopt;
  return fmt::format(
      "rollout_tensor_model_parallel_size: found {} with rollout_pipeline_model_parallel_size {}, expected "
      "sizes whose product divides the {} ranks of the rollout",
      tensor, pipeline, ranks);
}

std::optional<std::string> scored_vocabulary_limit(const C& c) {
  const auto refusal = [&](const char* key, const std::optional<ModelConfig>& model) -> std::string {
    if (!c.reinforces() || !model || model->vocab == c.model.vocab) return {};
    return fmt::format("{}: found {} with a vocabulary of {}, expected the {} of {}, whose ids it reads", key,
                       model->name, model->vocab, c.model.vocab, c.model.name);
  };
  std::string refused = refusal("reward_model", c.reinforcement.reward);
  if (refused.empty()) refused = refusal("critic", c.reinforcement.critic);
  if (refused.empty()) return std::nullopt;
  return refused;
}

std::optional<std::string> rollout_engine_limit(const C& c) {
  const std::string& name = c.reinforcement.rollout.software;
  if (!c.reinforces() || name == "plumbline" || is_inference_engine(name)) return std::nullopt;
  return fmt::format("rollout_software: found {}, expected plumbline, sglang, tensorrt-llm or vllm",
                     printable(name, 100));
}

std::optional<std::string> images_limit(const C& c) {
  const VisionTower& tower = c.model.predicted.vision;
  if (c.batch.images_per_sequence > 0 && tower && tower.out != c.model.hidden) {
    return fmt::format(
        "images_per_sequence: found {} with a vision tower of out_hidden_size {}, expected the {} of {}; "
        "change its vision_config",
        c.batch.images_per_sequence, tower.out, c.model.hidden, c.model.name);
  }
  const std::int64_t room = c.batch.seq_length / std::max<std::int64_t>(1, c.batch.images_per_sequence);
  if (c.batch.images_per_sequence == 0 || c.batch.image_tokens <= room) return std::nullopt;
  return fmt::format("image_tokens: found {} of each of {} images, expected at most {} in a sequence of {}",
                     c.batch.image_tokens, c.batch.images_per_sequence, room, c.batch.seq_length);
}

std::optional<std::string> tower_tensor_limit(const C& c) {
  const VisionTower& tower = c.model.predicted.vision;
  const std::int64_t t = c.parallel.tensor;
  if (c.batch.images_per_sequence == 0 || !tower.split || (tower.heads % t == 0 && tower.ffn % t == 0))
    return std::nullopt;
  return fmt::format(
      "tensor_model_parallel_size: found {}, expected a divisor of the {} heads and {} columns of {}'s "
      "vision tower",
      t, tower.heads, tower.ffn, c.model.name);
}

std::optional<std::string> frozen_parts_limit(const C& c) {
  const FinetuneConfig& f = c.finetune;
  if (!f.freeze_language_model || !f.freeze_vision_model || !f.freeze_vision_projection) return std::nullopt;
  return "freeze_vision_projection: found true with the language model and the tower frozen, expected false: "
         "nothing trains";
}

std::optional<std::string> moments_limit(const C& c) {
  const OptimizerConfig& o = c.optimizer;
  if (o.kind != Optimizer::adam) {
    const auto refused = [&](const char* key, const char* found, const char* expected) {
      return fmt::format("{}: found {} with optimizer {}, expected {}, or optimizer adam", key, found,
                         optimizer_name(o.kind), expected);
    };
    if (o.exp_avg_dtype != MomentDType::fp32)
      return refused("exp_avg_dtype", moment_dtype_name(o.exp_avg_dtype), "fp32");
    if (o.exp_avg_sq_dtype != MomentDType::fp32)
      return refused("exp_avg_sq_dtype", moment_dtype_name(o.exp_avg_sq_dtype), "fp32");
    if (o.store_param_remainders) return refused("store_param_remainders", "true", "false");
  }
  if (!o.blockwise() || o.exp_avg_dtype == o.exp_avg_sq_dtype) return std::nullopt;
  return fmt::format("exp_avg_dtype: found {} with exp_avg_sq_dtype {}, expected int8 for both or none",
                     moment_dtype_name(o.exp_avg_dtype), moment_dtype_name(o.exp_avg_sq_dtype));
}

std::optional<std::string> muon_tensor_limit(const C& c) {
  const OptimizerConfig& o = c.optimizer;
  const int tensor = c.parallel.tensor;
  if (!o.muons() || o.muon.tp_mode != MuonTensorMode::duplicated || tensor == 1) return std::nullopt;
  if (!c.model.latent && c.model.kv_heads < tensor)
    return fmt::format(
        "muon_tp_mode: found duplicated with {} tensor ranks, which share {} key/value heads; expected "
        "blockwise, or tensor_model_parallel_size at most {}",
        tensor, c.model.kv_heads, c.model.kv_heads);
  const int experts = c.model.mixture ? c.parallel.effective_expert_tensor() : tensor;
  if (experts != tensor && experts != 1)
    return fmt::format(
        "muon_tp_mode: found duplicated with expert_tensor_parallel_size {}, expected blockwise, or experts "
        "that are whole or cut as other layers",
        experts);
  return std::nullopt;
}

std::optional<std::string> adapter_limit(const C& c) {
  if (!c.finetune.lora() || c.finetune.lora_rank <= c.model.hidden) return std::nullopt;
  return fmt::format("lora_rank: found {}, expected at most the hidden size {}", c.finetune.lora_rank,
                     c.model.hidden);
}

std::optional<std::string> slow_ranks_limit(const C& c) {
  const std::vector<SlowedRank>& ranks = c.measure.slow_ranks;
  for (auto at = ranks.begin(); at != ranks.end(); ++at) {
    if (at->rank >= c.parallel.world_size)
      return fmt::format("slow_ranks: found rank {} of {}, expected one of them", at->rank,
                         c.parallel.world_size);
    if (std::any_of(ranks.begin(), at, [&](const SlowedRank& before) { return before.rank == at->rank; }))
      return fmt::format("slow_ranks: found rank {} twice, expected each once", at->rank);
  }
  return std::nullopt;
}

std::optional<std::string> offload_limit(const C& c) {
  if (c.offload.num_layers < c.model.layers || !c.offload.on()) return std::nullopt;
  return fmt::format(
      "cpu_offloading_num_layers: found {} with the {} layers of {}, expected fewer: the last layer of a "
      "stage stays, "
      "since its backward comes next",
      c.offload.num_layers, c.model.layers, c.model.name);
}

std::optional<std::string> emulated_hardware_limit(const C& c) {
  if (!c.machine.hardware.empty()) return std::nullopt;
  return "hardware: missing, the emulated backend needs a preset such as h100-sxm-80gb or a profile file";
}

std::optional<std::string> own_software_limit(const C& c) {
  if (is_own(c)) return std::nullopt;
  return fmt::format("software: found {}, expected plumbline: only its own training step is executed",
                     c.machine.software);
}

std::optional<std::string> no_backend_limit(const C& c) {
  if (c.machine.backend == Backend::cpu) return std::nullopt;
  return fmt::format("backend: found one with {}, expected none: other software is only predicted",
                     "software " + c.machine.software);
}

}  // namespace plumbline::features
