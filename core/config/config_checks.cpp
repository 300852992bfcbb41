#include "core/config/config_checks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/one_line.hpp"
#include "core/config/layer_distribution.hpp"
#include "core/config/mixture_checks.hpp"
#include "core/config/offload_checks.hpp"
#include "core/config/prediction_checks.hpp"
#include "core/config/recompute_checks.hpp"
#include "core/config/sharding_checks.hpp"
#include "core/schedule/schedule_traits.hpp"

namespace plumbline {
namespace {

/// Of the sizes of a2a+p2p.
std::optional<std::string> why_not_hierarchical(const ParallelConfig& parallel) {
  const HierarchicalContext& sizes = parallel.hierarchical_context;
  const std::string found = sizes.given() ? fmt::format("{},{}", sizes.heads, sizes.ring) : "none";
  if (!parallel.hierarchical()) {
    if (!sizes.given()) return std::nullopt;
    return fmt::format(
        "hierarchical_context_parallel_sizes: found {} with cp_comm_type {} and context_parallel_size {}, "
        "expected none: they are those of a2a+p2p",
        found, cp_comm_type_name(parallel.cp_comm_type), parallel.context);
  }
  if (std::int64_t{sizes.heads} * sizes.ring != parallel.context || sizes.heads == 1 || sizes.ring == 1) {
    return fmt::format(
        "hierarchical_context_parallel_sizes: found {} with cp_comm_type a2a+p2p, expected two sizes of at "
        "least 2 that multiply to context_parallel_size {}; with one alone it is a2a or p2p",
        found, parallel.context);
  }
  return std::nullopt;
}

/// Context and sequence parallelism's part of why_invalid.
std::optional<std::string> why_sequence_does_not_split(const RunConfig& config) {
  const std::int64_t t = config.parallel.tensor;
  const std::int64_t ranks = config.parallel.context;
  const std::int64_t seq = config.batch.seq_length;
  const auto& teacher = config.distillation.teacher;
  const bool blocks = config.model.block_positions || (teacher && teacher->block_positions);
  if (ranks > 1 && (config.batch.prefix_length > 0 || blocks)) {
    return fmt::format(
        "context_parallel_size: found {} with {}, expected 1: chunks are of causal sequences with plain "
        "positions",
        ranks, config.batch.prefix_length > 0 ? "a prefix_length" : "positions in blocks");
  }
  if (ranks > 1 && !config.parallel.cp_load_balance && config.machine.software != "plumbline") {
    return fmt::format("cp_load_balance: found false with software {}, expected true: it balances by itself",
                       config.machine.software);
  }
  if (ranks > 1 && seq % (2 * ranks) != 0) {
    return fmt::format(
        "context_parallel_size: found {} with seq_length {}, expected a seq_length that is a multiple of 2 x "
        "context_parallel_size = {}: every rank has two chunks of a sequence",
        ranks, seq, 2 * ranks);
  }
  std::int64_t key_heads = std::max<std::int64_t>(1, config.model.kv_heads / t);
  if (teacher) key_heads = std::gcd(key_heads, std::max<std::int64_t>(1, teacher->kv_heads / t));
  if (auto reason = why_not_hierarchical(config.parallel)) return reason;
  const std::int64_t head_ranks = config.parallel.head_ranks();
  if (head_ranks > 1 && key_heads % head_ranks != 0) {
    const bool whole = head_ranks == ranks;
    return fmt::format(
        "cp_comm_type: found {} with {} {} and {} key/value heads per tensor rank, "
        "expected a multiple of {}; p2p and all_gather take any",
        cp_comm_type_name(config.parallel.cp_comm_type),
        whole ? "context_parallel_size" : "an exchange of heads over", head_ranks, key_heads,
        whole ? "context_parallel_size" : "the first of hierarchical_context_parallel_sizes");
  }
  if (config.parallel.effective_sequence_parallel() && seq / ranks % t != 0) {
    return fmt::format(
        "sequence_parallel: found true with seq_length {}{}, expected one that {} tensor ranks divide", seq,
        ranks > 1 ? fmt::format(" over {} context ranks", ranks) : "", t);
  }
  return std::nullopt;
}

/// The model's part of why_invalid.
std::optional<std::string> why_model_does_not_split(const RunConfig& config) {
  const ModelConfig& model = config.model;
  const std::int64_t t = config.parallel.tensor;
  if (auto reason = why_tensor_split_invalid(model, t)) return reason;
  const std::int64_t stages = std::int64_t{config.parallel.pipeline} * config.parallel.virtual_chunks;
  if (model.layers < stages - ends_without_layers(config)) {
    return fmt::format(
        "pipeline_model_parallel_size: {} stages, expected at most the {} layers of {}: every stage holds "
        "one",
        stages, model.layers, model.name);
  }
  if (config.parallel.tp_comm_overlap && t > 1 && !config.parallel.sequence_parallel) {
    return "tp_comm_overlap: found true with sequence_parallel false, expected sequence_parallel true, whose "
           "collectives are cut into pieces";
  }
  if (auto reason = why_sequence_does_not_split(config)) return reason;
  // The first of a block's positions is that of what is no part of it.
  const std::int64_t positions = model.max_positions - (model.block_positions ? 1 : 0);
  if (model.positions == Positions::learned && config.batch.seq_length > positions) {
    return fmt::format("seq_length: found {}, expected at most the {} learned positions of {}",
                       config.batch.seq_length, positions, model.name);
  }
  return std::nullopt;
}

std::optional<std::string> why_graphs_do_not_fit(const RunConfig& config) {
  const MachineConfig& machine = config.machine;
  if (machine.cuda_graph_impl != CudaGraphImpl::none && machine.software == "plumbline") {
    return fmt::format(
        "cuda_graph_impl: found {} with software plumbline, which captures none; expected none",
        cuda_graph_impl_name(machine.cuda_graph_impl));
  }
  const std::string& modules = machine.cuda_graph_modules;
  if (modules == "all") return std::nullopt;
  if (machine.cuda_graph_impl != CudaGraphImpl::local &&
      machine.cuda_graph_impl != CudaGraphImpl::transformer_engine) {
    return fmt::format(
        "cuda_graph_modules: found {} with cuda_graph_impl {}, expected all, or local or transformer_engine, "
        "which "
        "capture parts of layers",
        printable(modules), cuda_graph_impl_name(machine.cuda_graph_impl));
  }
  constexpr std::string_view kModules[] = {"attn", "mlp", "moe_router", "moe_preprocess"};
  for (std::size_t begin = 0; begin <= modules.size();) {
    const std::size_t end = std::min(modules.find(',', begin), modules.size());
    const std::string_view name = std::string_view(modules).substr(begin, end - begin);
    if (std::find(std::begin(kModules), std::end(kModules), name) == std::end(kModules)) {
      return fmt::format("cuda_graph_modules: found {}, expected all or some of {}", printable(modules),
                         fmt::join(kModules, ","));
    }
    begin = end + 1;
  }
  return std::nullopt;
}

/// What hides exchanges of experts behind another micro-batch's computation, and what plumbline's own step does not do
/// together with it.
std::optional<std::string> why_exchanges_do_not_overlap(const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  if (!parallel.overlap_moe_expert_parallel_comm) return std::nullopt;
  const auto found = [](const std::string& with) {
    return "overlap_moe_expert_parallel_comm: found true with " + with;
  };
  if (config.machine.software != "plumbline") {
    if (parallel.expert > 1) return std::nullopt;
    return found("expert_model_parallel_size 1, expected experts that are spread over ranks");
  }
  if (!config.spreads_experts())
    return found("expert_model_parallel_size 1, expected experts that are spread over ranks");
  if (config.distillation.teacher)
    return found("a teacher, whose schedules have no pairs; expected false, or none");
  if (parallel.token_dispatcher == TokenDispatcher::allgather)
    return found("moe_token_dispatcher_type allgather, whose exchanges are awaited; expected alltoall");
  if (config.recompute.granularity == Recompute::full)
    return found("recompute_granularity full, expected selective or none");
  if (parallel.effective_zero_stage() == 3)
    return found("zero_stage 3, whose gathers of two actions would mix; expected zero_stage 0, 1 or 2");
  if (parallel.splits_vocabulary())
    return found(
        fmt::format("vocab_parallel {}, expected none", vocab_parallel_name(parallel.vocab_parallel)));
  if (config.numerics.fp8.on()) return found("fp8_format, expected none");
  if (config.model.prediction_modules > 0) return found("mtp_num_layers, expected 0");
  const std::string& schedule = parallel.schedule;
  const ScheduleTraits* traits = find_schedule_traits(schedule);
  if (traits == nullptr || traits->pairs) return std::nullopt;
  return found(
      fmt::format("pipeline_schedule {}, expected 1f1b, interleaved, dualpipe or dualpipev, which have a "
                  "forward next to a "
                  "backward that does not need it",
                  printable(schedule)));
}

/// What a prefix whose tokens see each other does not go together with.
std::optional<std::string> why_prefix_does_not_fit(const RunConfig& config) {
  const std::int64_t prefix = config.batch.prefix_length;
  if (prefix == 0) return std::nullopt;
  if (prefix > config.batch.seq_length) {
    return fmt::format("prefix_length: found {}, expected at most the seq_length {}", prefix,
                       config.batch.seq_length);
  }
  for (const ModelConfig* model :
       {&config.model, config.distillation.teacher ? &*config.distillation.teacher : &config.model}) {
    const bool alibi = model->positions == Positions::alibi;
    if (!alibi && model->sliding_window == 0) continue;
    return fmt::format("prefix_length: found {} with {}, which has {}; expected 0", prefix, model->name,
                       alibi ? "ALiBi" : "a sliding window");
  }
  if (config.machine.software != "plumbline") {
    return fmt::format("prefix_length: found {} with software {}, expected 0", prefix,
                       config.machine.software);
  }
  return std::nullopt;
}

/// What the switches of a model's output layer and residual do not go together with.
std::optional<std::string> why_switches_do_not_fit(const RunConfig& config) {
  const ModelConfig& model = config.model;
  if (config.numerics.fp8.on() && model.normed_residual != 0) {
    return fmt::format(
        "fp8_format: found {} with {}, whose residual is the output of its norms; expected none",
        config.numerics.fp8.format == Fp8Format::e4m3 ? "e4m3" : "hybrid", model.name);
  }
  if (config.parallel.splits_vocabulary() && (model.output_bias || model.normed_output)) {
    return fmt::format("vocab_parallel: found {} with {}, whose output layer has {}; expected none",
                       vocab_parallel_name(config.parallel.vocab_parallel), model.name,
                       model.output_bias ? "biases" : "normalised rows");
  }
  if (config.numerics.deterministic_mode && config.machine.software != "plumbline") {
    return fmt::format(
        "deterministic_mode: found true with software {}, whose deterministic kernels are not predicted; "
        "expected false",
        config.machine.software);
  }
  return std::nullopt;
}

/// What linear layers in FP8 require of the sizes on a rank.
std::optional<std::string> why_fp8_does_not_fit(const RunConfig& config) {
  constexpr std::int64_t kMultiple = 16;  // of both extents of every product: the matrix units' condition
  const bool fp4 = config.numerics.fp4_format != Fp4Format::none;
  if (fp4 && config.numerics.fp8.on()) return "fp4_format: found e2m1 with fp8_format, expected one of them";
  if (fp4 && config.machine.software == "plumbline")
    return "fp4_format: found e2m1 with software plumbline, which has no products of 4 bits; expected none";
  if (!fp4 && !config.numerics.fp8.on()) return std::nullopt;
  const ModelConfig& model = config.model;
  const std::int64_t t = config.parallel.tensor;
  const std::int64_t query = model.heads / t * model.head_dim;
  const std::int64_t key = std::max<std::int64_t>(1, model.kv_heads / t) * model.head_dim;
  const std::int64_t ffn = model.ffn / t;
  const std::int64_t tokens =
      config.batch.micro_batch_size * config.batch.seq_length / config.parallel.context;
  const std::pair<const char*, std::int64_t> sizes[] = {
      {config.parallel.context > 1 ? "micro_batch_size x seq_length / context_parallel_size"
                                   : "micro_batch_size x seq_length",
       tokens},
      // Overlapped products are of a tensor rank's rows each.
      {"micro_batch_size x seq_length per tensor rank",
       tokens / (config.parallel.effective_tp_comm_overlap() ? t : 1)},
      {"hidden columns", model.hidden},
      {"query, key and value columns per tensor rank", query + 2 * key},
      {"query columns per tensor rank", query},
      {"feed-forward columns per tensor rank", ffn},
  };
  for (const auto& [what, size] : sizes) {
    if (size % kMultiple == 0) continue;
    return fmt::format("{}: found {} with {} = {}, expected a multiple of {}",
                       fp4 ? "fp4_format" : "fp8_format",
                       fp4                                             ? "e2m1"
                       : config.numerics.fp8.format == Fp8Format::e4m3 ? "e4m3"
                                                                       : "hybrid",
                       what, size, kMultiple);
  }
  return std::nullopt;
}

/// Vocabulary parallelism's part of why_invalid.
std::optional<std::string> why_vocabulary_does_not_split(const RunConfig& config) {
  const std::string& schedule = config.parallel.schedule;
  if (const ScheduleTraits traits = schedule_traits(schedule); !traits.base.empty()) {
    return fmt::format("pipeline_schedule: found {}, expected {} with vocab_parallel: {}", schedule,
                       traits.base, vocab_parallel_name(traits.vocab));
  }
  if (!config.parallel.splits_vocabulary()) return std::nullopt;
  const std::string found =
      fmt::format("vocab_parallel: found {} with", vocab_parallel_name(config.parallel.vocab_parallel));
  if (find_with_passes(schedule, config.parallel.vocab_parallel) == nullptr) {
    std::vector<std::string_view> bases;
    for (const ScheduleTraits& traits : known_schedules()) {
      if (traits.vocab == config.parallel.vocab_parallel) bases.push_back(traits.base);
    }
    return fmt::format("{} pipeline_schedule {}, expected {}", found, schedule, fmt::join(bases, " or "));
  }
  if (config.parallel.effective_sequence_parallel()) return found + " sequence_parallel, expected it off";
  if (config.model.vocab < config.parallel.vocab_shards()) {
    return fmt::format(
        "{} a vocabulary of {}, expected at least one token id for each of the {} ranks it is "
        "split over (pipeline x tensor)",
        found, config.model.vocab, config.parallel.vocab_shards());
  }
  return std::nullopt;
}

/// What adapters do not go together with.
std::optional<std::string> why_adapters_do_not_fit(const RunConfig& config) {
  if (!config.finetune.lora()) return std::nullopt;
  if (config.distillation.teacher) return "frozen: found lora with a teacher, expected none";
  if (config.parallel.splits_vocabulary()) {
    return fmt::format("frozen: found lora with vocab_parallel {}, expected none",
                       vocab_parallel_name(config.parallel.vocab_parallel));
  }
  if (config.finetune.lora_rank > config.model.hidden) {
    return fmt::format("lora_rank: found {}, expected at most the hidden size {}", config.finetune.lora_rank,
                       config.model.hidden);
  }
  return std::nullopt;
}

/// Of sequences that ranks share, what this build executes.
std::optional<std::string> why_slow_ranks_do_not_fit(const RunConfig& config) {
  const std::vector<SlowedRank>& ranks = config.measure.slow_ranks;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].rank >= config.parallel.world_size) {
      return fmt::format("slow_ranks: found rank {} of {}, expected one of them", ranks[i].rank,
                         config.parallel.world_size);
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (ranks[j].rank == ranks[i].rank)
        return fmt::format("slow_ranks: found rank {} twice, expected each once", ranks[i].rank);
    }
  }
  return std::nullopt;
}

std::optional<std::string> why_context_unsupported(const RunConfig& config) {
  if (config.parallel.context == 1) return std::nullopt;
  const auto with = [&](const char* key, const char* found, const char* expected) {
    return fmt::format("{}: found {} with context_parallel_size {}, this build executes {}", key, found,
                       config.parallel.context, expected);
  };
  const auto& teacher = config.distillation.teacher;
  const bool normed = config.model.qk_norm || (teacher && teacher->qk_norm);
  if (config.parallel.head_ranks() > 1 && normed) {
    return with("cp_comm_type",
                config.parallel.hierarchical() ? "a2a+p2p and norms of queries and keys"
                                               : "a2a and norms of queries and keys",
                "them with p2p and all_gather");
  }
  return std::nullopt;
}

/// The output layer's weight gradients at the end (bench/training/overlap.md).
std::optional<std::string> why_gradients_are_not_deferred(const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  if (!parallel.defer_embedding_wgrad_compute) return std::nullopt;
  const auto refused = [](const std::string& why) {
    return fmt::format("defer_embedding_wgrad_compute: found true with {}, expected false", why);
  };
  if (config.machine.software != "plumbline")
    return refused(fmt::format("software {}, whose step is predicted without", config.machine.software));
  if (parallel.pipeline == 1) return refused("one pipeline rank, which has no bubble to compute them in");
  const ScheduleTraits* traits = find_schedule_traits(parallel.schedule);
  if (traits == nullptr || traits->split_backward) {
    return fmt::format(
        "defer_embedding_wgrad_compute: found true with pipeline_schedule {}, expected false, or gpipe, 1f1b "
        "or "
        "interleaved, whose backwards are whole",
        parallel.schedule);
  }
  if (parallel.splits_vocabulary()) return refused("vocab_parallel, whose passes are spread over all ranks");
  if (config.distillation.teacher) return refused("a teacher, whose outputs last stages keep");
  if (config.model.prediction_modules > 0)
    return refused("mtp_num_layers, whose modules share the output layer");
  if (parallel.overlap_moe_expert_parallel_comm)
    return refused("overlap_moe_expert_parallel_comm true, whose pairs have whole backwards");
  return std::nullopt;
}

/// The reason why a model is predicted and not executed.
std::optional<std::string> why_model_is_predicted_only(const ModelConfig& model, Backend backend) {
  if (!model.rope_scaling.predicted_type.empty() && backend != Backend::emulated) {
    return fmt::format(
        "model: found rope_type {} in {}, this build executes default and llama3, and predicts it",
        model.rope_scaling.predicted_type, model.name);
  }
  if (model.latent && model.latent.query_rank == 0) {
    return fmt::format(
        "model: found {} without q_lora_rank, this build executes queries that are compressed, and predicts "
        "it",
        model.name);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> why_invalid(const RunConfig& config) {
  constexpr std::int64_t kMostMicrobatches = 1'000'000;  // a schedule lists every one
  constexpr std::int64_t kMaxTokens = std::int64_t{1} << 30;
  if (config.parallel.world_size % config.parallel.model_ranks() != 0) {
    return fmt::format(
        "world_size: found {}, expected a multiple of tensor x pipeline x context parallel size = {} x {} x "
        "{}",
        config.parallel.world_size, config.parallel.tensor, config.parallel.pipeline,
        config.parallel.context);
  }
  if (auto reason = why_model_does_not_split(config)) return reason;
  const std::int64_t replicas = config.parallel.data();
  const std::int64_t samples = config.batch.micro_batch_size * replicas;
  if (config.batch.global_batch_size % samples != 0) {
    return fmt::format(
        "global_batch_size: found {}, expected a multiple of micro_batch_size x data parallel size = {} x {}",
        config.batch.global_batch_size, config.batch.micro_batch_size, replicas);
  }
  if (config.batch.global_batch_size / samples > kMostMicrobatches) {
    return fmt::format("global_batch_size: found {}, which makes {} micro-batches; expected at most {}",
                       config.batch.global_batch_size, config.batch.global_batch_size / samples,
                       kMostMicrobatches);
  }
  if (config.batch.micro_batch_size > kMaxTokens / config.batch.seq_length) {
    return fmt::format("micro_batch_size: found {} with seq_length {}, expected at most {} tokens together",
                       config.batch.micro_batch_size, config.batch.seq_length, kMaxTokens);
  }
  if (auto reason = why_fp8_does_not_fit(config)) return reason;
  if (auto reason = why_graphs_do_not_fit(config)) return reason;
  if (auto reason = why_exchanges_do_not_overlap(config)) return reason;
  if (auto reason = why_sharding_does_not_fit(config)) return reason;
  if (auto reason = why_prefix_does_not_fit(config)) return reason;
  if (auto reason = why_switches_do_not_fit(config)) return reason;
  if (auto reason = why_mixture_does_not_fit(config)) return reason;
  if (auto reason = why_modules_do_not_fit(config)) return reason;
  if (auto reason = why_offload_does_not_fit(config)) return reason;
  if (auto reason = why_gradients_are_not_deferred(config)) return reason;
  if (auto reason = why_prediction_does_not_fit(config)) return reason;
  if (auto reason = why_adapters_do_not_fit(config)) return reason;
  if (auto reason = why_slow_ranks_do_not_fit(config)) return reason;
  if (config.machine.emulated_clock == EmulatedTime::virtual_time &&
      config.machine.emulated_time_factor != 1) {
    return fmt::format("emulated_time_factor: found {} with emulated_clock virtual, expected 1",
                       config.machine.emulated_time_factor);
  }
  if (auto reason = why_layer_distribution_invalid(config)) return reason;
  if (auto reason = why_vocabulary_does_not_split(config)) return reason;
  if (!config.files.loss_mask.empty() && config.files.data.empty()) {
    return "loss_mask: found without data, expected the token ids that it belongs to";
  }
  return why_distillation_invalid(config);
}

std::optional<std::string> why_unsupported(const RunConfig& config) {
  const auto only = [](const char* key, const auto& found, const char* supported) {
    return fmt::format("{}: found {}, this build executes {}", key, found, supported);
  };
  if (config.machine.backend == Backend::emulated && config.machine.hardware.empty()) {
    return "hardware: missing, the emulated backend needs a preset such as h100-sxm-80gb or a profile file";
  }
  if (config.machine.software != "plumbline") {
    return only("software", config.machine.software, "plumbline's own training step only");
  }
  if (config.finetune.lora())
    return "frozen: found lora, this build executes none only and predicts it with the software of others";
  const Fp8Recipe recipe = config.numerics.fp8.recipe;
  if (config.numerics.fp8.on() && (recipe == Fp8Recipe::blockwise || recipe == Fp8Recipe::mxfp8)) {
    return only("fp8_recipe", recipe == Fp8Recipe::mxfp8 ? "mxfp8" : "blockwise", "delayed and tensorwise");
  }
  if (config.numerics.fp8.on() && config.numerics.fp8.param_gather)
    return only("fp8_param_gather", "true", "false only");
  if (auto reason = why_context_unsupported(config)) return reason;
  if (!config.measure.slow_ranks.empty() && config.machine.backend == Backend::cuda)
    return only("slow_ranks", "ranks with backend cuda", "none there, and any on cpu and emulated");
  const auto& teacher = config.distillation.teacher;
  if (auto reason = why_model_is_predicted_only(config.model, config.machine.backend)) return reason;
  if (teacher) {
    if (auto reason = why_model_is_predicted_only(*teacher, config.machine.backend)) return reason;
  }
  if (!config.model.mixture && !(teacher && teacher->mixture)) {
    if (config.parallel.expert != 1)
      return only("expert_model_parallel_size", config.parallel.expert, "1 only without experts");
    if (config.parallel.effective_expert_tensor() != config.parallel.tensor) {
      return only("expert_tensor_parallel_size", config.parallel.expert_tensor,
                  "tensor_model_parallel_size only");
    }
    if (config.parallel.token_dispatcher != TokenDispatcher::automatic) {
      return only("moe_token_dispatcher_type", token_dispatcher_name(config.parallel.token_dispatcher),
                  "auto only without experts");
    }
  }
  if (config.numerics.attention_backend == AttentionBackend::unfused &&
      config.machine.backend != Backend::emulated) {
    return only("attention_backend", "unfused", "fused on cpu and cuda, unfused on emulated");
  }
  if (config.numerics.precision == DType::fp16 && config.machine.backend != Backend::emulated) {
    return only("precision", "fp16", "fp32 and bf16 on cpu and cuda, fp16 on emulated");
  }
  return std::nullopt;
}

std::optional<std::string> why_unpredictable(const RunConfig& config) {
  RunConfig anywhere = config;
  if (!config.machine.hardware.empty()) anywhere.machine.backend = Backend::emulated;
  anywhere.model.rope_scaling = {};
  if (anywhere.distillation.teacher) anywhere.distillation.teacher->rope_scaling = {};
  if (anywhere.model.latent) anywhere.model.latent.query_rank = 1;
  if (config.machine.software != "plumbline") {
    if (config.machine.backend != Backend::cpu)
      return "backend: found one to run on, expected none with software other than plumbline";
    anywhere.machine.software = "plumbline";
    anywhere.parallel.context = 1;  // its own framework shares sequences
    if (config.model.mixture) {     // and spreads experts
      anywhere.parallel.expert = 1;
      anywhere.parallel.expert_tensor = 0;
      anywhere.parallel.token_dispatcher = TokenDispatcher::automatic;
    }
    anywhere.finetune = {};
    anywhere.numerics.fp8 = {};  // and has recipes of its own
  }
  return why_unsupported(anywhere);
}

}  // namespace plumbline
