#include "core/config_text/config_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <unordered_map>

#include "core/base/error.hpp"
#include "core/base/similar_name.hpp"
#include "core/base/text_input.hpp"
#include "core/config_text/config_key_kinds.hpp"
#include "core/config_text/distillation_keys.hpp"
#include "core/config_text/recompute_modules_key.hpp"
#include "core/config_text/slow_ranks_key.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kMaxSize = 1 << 20;  // of a parallel dimension
constexpr double kMaxDropout = 0.99;
constexpr std::int64_t kMaxModules = 16;    // MTP modules
constexpr std::int64_t kMaxFp8Margin = 15;  // headroom of E5M2 above 1
constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();

constexpr KeyNames<3> kRecompute = {"none", "selective", "full"};
constexpr KeyNames<3> kBackends = {"cpu", "cuda", "emulated"};
constexpr KeyNames<2> kEmulatedClocks = {"real", "virtual"};
constexpr KeyNames<4> kCudaGraphImpls = {"none", "local", "transformer_engine", "full_iteration"};
constexpr KeyNames<4> kCpCommTypes = {"p2p", "all_gather", "a2a", "a2a+p2p"};
constexpr KeyNames<4> kDispatchers = {"auto", "allgather", "alltoall", "flex"};
constexpr KeyNames<3> kLoadBalancing = {"aux_loss", "seq_aux_loss", "global_aux_loss"};
constexpr KeyNames<2> kDropPolicies = {"probs", "position"};
constexpr KeyNames<2> kAttentionBackends = {"fused", "unfused"};
constexpr KeyNames<2> kOptimizers = {"adam", "sgd"};
constexpr KeyNames<2> kFrozen = {"none", "lora"};
constexpr KeyNames<3> kTasks = {"train", "sft", "generate"};
constexpr KeyNames<3> kLoraTargets = {"qkv", "attention", "all"};
constexpr KeyNames<2> kGradDTypes = {"fp32", "same"};
constexpr KeyNames<3> kPrecisions = {"fp32", "bf16", "fp16"};
constexpr KeyNames<3> kFp8Formats = {"none", "e4m3", "hybrid"};
constexpr KeyNames<2> kFp4Formats = {"none", "e2m1"};
constexpr KeyNames<4> kFp8Recipes = {"delayed", "tensorwise", "blockwise", "mxfp8"};

/// adamw, PyTorch's name, is adam here.
ConfigKey optimizer_key() {
  ConfigKey key = choice_key("optimizer", at(&RunConfig::optimizer, &OptimizerConfig::kind), kOptimizers);
  key.parse = [parse = key.parse](ConfigDraft& draft, const ConfigText& value) {
    ConfigText named = value;
    if (named.text == "adamw") named.text = "adam";
    parse(draft, named);
  };
  return key;
}

/// fp8 stands for the usual meaning: 16-bit storage, and linear layers in the usual 8-bit formats unless
/// fp8_format has named others before.
ConfigKey precision_key() {
  ConfigKey key = choice_key("precision", at(&RunConfig::numerics, &NumericsConfig::precision), kPrecisions);
  key.expected += ", or fp8: bf16 with fp8_format hybrid";
  key.parse = [expected = key.expected](ConfigDraft& draft, const ConfigText& value) {
    RunConfig& config = draft.config;
    const auto found = std::find(kPrecisions.begin(), kPrecisions.end(), value.text);
    if (found != kPrecisions.end()) {
      config.numerics.precision = static_cast<DType>(found - kPrecisions.begin());
    } else if (value.text == "fp8") {
      config.numerics.precision = DType::bf16;
      if (config.numerics.fp8.format == Fp8Format::none) config.numerics.fp8.format = Fp8Format::hybrid;
    } else {
      refuse_value(value, "precision", expected);
    }
  };
  return key;
}

/// Beyond the largest the squares of scaled gradients would leave fp32.
constexpr double kLeastLossScale = 1e-6;
constexpr double kLargestLossScale = 1e12;

/// A smaller budget without a unit is probably meant in GiB.
constexpr std::int64_t kLeastBareBudget = 1 << 20;

/// Other than 0, which means no bound.
bool is_bare_number(const std::string& text) {
  return text.find_first_not_of("0123456789.eE+") == std::string::npos &&
         text.find_first_of("123456789") != std::string::npos;
}

ConfigKey memory_budget_key() {
  return {"memory_budget", "", "bytes such as 2GiB, or 0 for no bound",
          [](ConfigDraft& draft, const ConfigText& value) {
            try {
              draft.config.machine.memory_budget = parse_bytes(value.text, "memory_budget");
            } catch (const InputError& complaint) {
              throw InputError(fmt::format("{}: {}", value.origin, complaint.what()));
            }
            if (draft.config.machine.memory_budget.value < kLeastBareBudget && is_bare_number(value.text)) {
              refuse_value(
                  value, "memory_budget",
                  fmt::format("a unit: write {}GiB, or {}B for so few bytes", value.text, value.text));
            }
          },
          [](const RunConfig& config) {
            const std::int64_t bytes = config.machine.memory_budget.value;
            return fmt::format("{}{}", bytes, bytes > 0 && bytes < kLeastBareBudget ? "B" : "");
          }};
}

/// Two sizes, as Megatron-LM's list of them.
ConfigKey hierarchical_key() {
  const char* const name = "hierarchical_context_parallel_sizes";
  const char* const expected =
      "none, or two whole numbers such as 2,4: ranks that exchange heads, and groups of them round a ring";
  return {name, "", expected,
          [=](ConfigDraft& draft, const ConfigText& value) {
            HierarchicalContext& sizes = draft.config.parallel.hierarchical_context;
            sizes = {};
            if (value.text == "none") return;
            const char* const stop = value.text.data() + value.text.size();
            const auto heads = std::from_chars(value.text.data(), stop, sizes.heads);
            const bool comma = heads.ec == std::errc() && heads.ptr != stop && *heads.ptr == ',';
            if (!comma) refuse_value(value, name, expected);
            const auto ring = std::from_chars(heads.ptr + 1, stop, sizes.ring);
            const auto allowed = [](int size) { return size >= 1 && size <= kMaxSize; };
            if (ring.ec != std::errc() || ring.ptr != stop || !allowed(sizes.heads) || !allowed(sizes.ring))
              refuse_value(value, name, expected);
          },
          [](const RunConfig& config) -> std::string {
            const HierarchicalContext& sizes = config.parallel.hierarchical_context;
            return sizes.given() ? fmt::format("{},{}", sizes.heads, sizes.ring) : "none";
          }};
}

ConfigKey capacity_key() {
  const char* const name = "moe_expert_capacity_factor";
  const char* const expected = "none, or a number above 0 up to 1e6";
  return {name, "", expected,
          [=](ConfigDraft& draft, const ConfigText& value) {
            const auto number = value.text == "none" ? 0 : whole_number<double>(value.text);
            if (!number || (value.text != "none" && !(*number > 0 && *number <= 1e6)))
              refuse_value(value, name, expected);
            draft.config.mixture.capacity_factor = *number;
          },
          [](const RunConfig& config) {
            const double factor = config.mixture.capacity_factor;
            return factor == 0 ? "none" : fmt::format("{}", factor);
          }};
}

ConfigKey seed_key() {
  const char* const expected = "a whole number from 0 to 18446744073709551615";
  return {"seed", "", expected,
          [=](ConfigDraft& draft, const ConfigText& value) {
            std::uint64_t number{};
            const char* const stop = value.text.data() + value.text.size();
            const auto [end, error] = std::from_chars(value.text.data(), stop, number);
            if (error != std::errc() || end != stop) refuse_value(value, "seed", expected);
            draft.config.measure.seed = number;
          },
          [](const RunConfig& config) { return fmt::format("{}", config.measure.seed); }};
}

std::vector<ConfigKey> make_keys() {
  using C = RunConfig;
  std::vector<ConfigKey> keys = {
      {"model", "", kModelExpected,
       [](ConfigDraft& draft, const ConfigText& value) {
         const std::int64_t modules = draft.config.model.prediction_modules;  // set by a key of its own
         draft.config.model = model_value(value, "model");
         draft.config.model.prediction_modules = modules;
       },
       // A record stands alone: a model that has no name elsewhere is written out.
       [](const RunConfig& config) {
         return config.model.name == "inline" ? to_config_json(config.model) : config.model.name;
       }},
      integer_key("mtp_num_layers", "", at(&C::model, &ModelConfig::prediction_modules), 0, kMaxModules),
      number_key("mtp_loss_scaling_factor", at(&C::prediction, &PredictionConfig::loss_scaling_factor), 0,
                 1e6),
      text_key("hardware", at(&C::machine, &MachineConfig::hardware), PathOr::name,
               "a hardware preset or the path of a profile"),
      text_key("software", at(&C::machine, &MachineConfig::software), PathOr::name,
               "plumbline, a framework such as megatron-core, or an inference engine such as vllm"),
      choice_key("cuda_graph_impl", at(&C::machine, &MachineConfig::cuda_graph_impl), kCudaGraphImpls),
      text_key("cuda_graph_modules", at(&C::machine, &MachineConfig::cuda_graph_modules), PathOr::name,
               "all, or parts of a layer such as attn,moe_router,moe_preprocess"),
      choice_key("backend", at(&C::machine, &MachineConfig::backend), kBackends),
      integer_key(
          "world_size", "gpus", 1, kMaxSize, [](ConfigDraft& draft, std::int64_t n) { draft.world_size = n; },
          [](const RunConfig& config) { return config.parallel.world_size; }),
      integer_key("tensor_model_parallel_size", "tp", at(&C::parallel, &ParallelConfig::tensor), 1, kMaxSize),
      integer_key("pipeline_model_parallel_size", "pp", at(&C::parallel, &ParallelConfig::pipeline), 1,
                  kMaxSize),
      integer_key(
          "data_parallel_size", "dp", 1, kMaxSize,
          [](ConfigDraft& draft, std::int64_t n) { draft.data_parallel_size = n; },
          [](const RunConfig& config) { return config.parallel.data(); }),
      integer_key("virtual_pipeline_chunks", "", at(&C::parallel, &ParallelConfig::virtual_chunks), 1,
                  kMaxSize),
      integer_key("context_parallel_size", "cp", at(&C::parallel, &ParallelConfig::context), 1, kMaxSize),
      choice_key("cp_comm_type", at(&C::parallel, &ParallelConfig::cp_comm_type), kCpCommTypes),
      hierarchical_key(),
      boolean_key("cp_load_balance", at(&C::parallel, &ParallelConfig::cp_load_balance)),
      integer_key("expert_model_parallel_size", "ep", at(&C::parallel, &ParallelConfig::expert), 1, kMaxSize),
      integer_key("expert_tensor_parallel_size", "etp", at(&C::parallel, &ParallelConfig::expert_tensor), 0,
                  kMaxSize),
      choice_key("moe_token_dispatcher_type", at(&C::parallel, &ParallelConfig::token_dispatcher),
                 kDispatchers),
      boolean_key("sequence_parallel", at(&C::parallel, &ParallelConfig::sequence_parallel)),
      boolean_key("tp_comm_overlap", at(&C::parallel, &ParallelConfig::tp_comm_overlap)),
      boolean_key("overlap_moe_expert_parallel_comm",
                  at(&C::parallel, &ParallelConfig::overlap_moe_expert_parallel_comm)),
      boolean_key("moe_shared_expert_overlap", at(&C::parallel, &ParallelConfig::moe_shared_expert_overlap)),
      boolean_key("tp_reduce_in_fp32", at(&C::parallel, &ParallelConfig::tp_reduce_in_fp32)),
      choice_key("vocab_parallel", at(&C::parallel, &ParallelConfig::vocab_parallel), kVocabParallelNames),
      text_key("layer_distribution", at(&C::parallel, &ParallelConfig::layer_distribution), PathOr::name,
               "even, balanced, or the layers of every stage such as 9,9,8,6"),
      text_key("pipeline_schedule", at(&C::parallel, &ParallelConfig::schedule), PathOr::name,
               "the name of a schedule or the path of a .csv"),
      number_key("zero_bubble_memory", at(&C::parallel, &ParallelConfig::zero_bubble_memory), 0.01, 100),
      integer_key("zero_stage", "", at(&C::parallel, &ParallelConfig::zero_stage), 0, 3),
      integer_key("num_distributed_optimizer_instances", "",
                  at(&C::parallel, &ParallelConfig::num_distributed_optimizer_instances), 1, kMaxSize),
      integer_key("zero_hpz_partition_size", "", at(&C::parallel, &ParallelConfig::zero_hpz_partition_size),
                  1, kMaxSize),
      optional_boolean_key("overlap_p2p_comm", at(&C::parallel, &ParallelConfig::overlap_p2p_comm)),
      boolean_key("defer_embedding_wgrad_compute",
                  at(&C::parallel, &ParallelConfig::defer_embedding_wgrad_compute)),
      optional_boolean_key("overlap_grad_reduce", at(&C::parallel, &ParallelConfig::overlap_grad_reduce)),
      optional_boolean_key("overlap_param_gather", at(&C::parallel, &ParallelConfig::overlap_param_gather)),
      choice_key("recompute_granularity", at(&C::recompute, &RecomputeConfig::granularity), kRecompute),
      integer_key("recompute_num_layers", "", at(&C::recompute, &RecomputeConfig::num_layers), 1, kMaxSize),
      recompute_modules_key(),
      integer_key("cpu_offloading_num_layers", "", at(&C::offload, &OffloadConfig::num_layers), 0, kMaxSize),
      choice_key("attention_backend", at(&C::numerics, &NumericsConfig::attention_backend),
                 kAttentionBackends),
      number_key("hidden_dropout", at(&C::numerics, &NumericsConfig::hidden_dropout), 0, kMaxDropout),
      number_key("attention_dropout", at(&C::numerics, &NumericsConfig::attention_dropout), 0, kMaxDropout),
      boolean_key("cross_entropy_loss_fusion", at(&C::numerics, &NumericsConfig::cross_entropy_loss_fusion)),
      boolean_key("deterministic_mode", at(&C::numerics, &NumericsConfig::deterministic_mode)),
      number_key("moe_aux_loss_coeff", at(&C::mixture, &MixtureConfig::aux_loss_coeff), 0, 1e6),
      choice_key("moe_router_load_balancing_type", at(&C::mixture, &MixtureConfig::load_balancing),
                 kLoadBalancing),
      number_key("moe_z_loss_coeff", at(&C::mixture, &MixtureConfig::z_loss_coeff), 0, 1e6),
      number_key("moe_router_bias_update_rate", at(&C::mixture, &MixtureConfig::bias_update_rate), 0, 1e6),
      capacity_key(),
      boolean_key("moe_pad_expert_input_to_capacity", at(&C::mixture, &MixtureConfig::pad_to_capacity)),
      choice_key("moe_token_drop_policy", at(&C::mixture, &MixtureConfig::drop_policy), kDropPolicies),
      text_key("moe_routing", at(&C::mixture, &MixtureConfig::routing), PathOr::name,
               "balanced, worst, zipf:S, or the path of a .csv"),
      choice_key("task", at(&C::generation, &GenerationConfig::task), kTasks),
      integer_key("prompt_length", "", at(&C::generation, &GenerationConfig::prompt_length), 0, kMaxInt),
      integer_key("max_new_tokens", "", at(&C::generation, &GenerationConfig::max_new_tokens), 1, kMaxInt),
      integer_key("seq_length", "", at(&C::batch, &BatchConfig::seq_length), 1, kMaxInt),
      integer_key("prefix_length", "", at(&C::batch, &BatchConfig::prefix_length), 0, kMaxInt),
      boolean_key("packed_sequence", at(&C::batch, &BatchConfig::packed_sequence)),
      boolean_key("dynamic_context_parallel", at(&C::batch, &BatchConfig::dynamic_context_parallel)),
      integer_key("micro_batch_size", "mbs", at(&C::batch, &BatchConfig::micro_batch_size), 1, kMaxInt),
      integer_key("global_batch_size", "gbs", at(&C::batch, &BatchConfig::global_batch_size), 1, kMaxInt),
      precision_key(),
      optional_number_key("loss_scale",
                          at(&C::numerics, &NumericsConfig::loss_scale, &LossScaleConfig::constant),
                          kLeastLossScale, kLargestLossScale),
      number_key("initial_loss_scale",
                 at(&C::numerics, &NumericsConfig::loss_scale, &LossScaleConfig::initial), kLeastLossScale,
                 kLargestLossScale),
      number_key("min_loss_scale", at(&C::numerics, &NumericsConfig::loss_scale, &LossScaleConfig::least),
                 kLeastLossScale, kLargestLossScale),
      integer_key("loss_scale_window", "",
                  at(&C::numerics, &NumericsConfig::loss_scale, &LossScaleConfig::window), 1, kMaxSize),
      integer_key("hysteresis", "",
                  at(&C::numerics, &NumericsConfig::loss_scale, &LossScaleConfig::hysteresis), 1, kMaxSize),
      choice_key("fp8_format", at(&C::numerics, &NumericsConfig::fp8, &Fp8Config::format), kFp8Formats),
      choice_key("fp8_recipe", at(&C::numerics, &NumericsConfig::fp8, &Fp8Config::recipe), kFp8Recipes),
      integer_key("fp8_margin", "", at(&C::numerics, &NumericsConfig::fp8, &Fp8Config::margin), 0,
                  kMaxFp8Margin),
      integer_key("fp8_amax_history_len", "",
                  at(&C::numerics, &NumericsConfig::fp8, &Fp8Config::amax_history_len), 1, kMaxSize),
      boolean_key("fp8_param_gather", at(&C::numerics, &NumericsConfig::fp8, &Fp8Config::param_gather)),
      boolean_key("disable_parameter_transpose_cache",
                  at(&C::numerics, &NumericsConfig::fp8, &Fp8Config::transposes_again)),
      boolean_key("activation_func_fp8_input_store",
                  at(&C::numerics, &NumericsConfig::activation_func_fp8_input_store)),
      choice_key("fp4_format", at(&C::numerics, &NumericsConfig::fp4_format), kFp4Formats),
      boolean_key("first_last_layers_bf16", at(&C::numerics, &NumericsConfig::first_last_layers_bf16)),
      integer_key("num_layers_at_start_in_bf16", "",
                  at(&C::numerics, &NumericsConfig::num_layers_at_start_in_bf16), 0, kMaxSize),
      integer_key("num_layers_at_end_in_bf16", "",
                  at(&C::numerics, &NumericsConfig::num_layers_at_end_in_bf16), 0, kMaxSize),
      boolean_key("fp8_dot_product_attention", at(&C::numerics, &NumericsConfig::fp8_dot_product_attention)),
      choice_key("grad_dtype", at(&C::numerics, &NumericsConfig::grad_dtype), kGradDTypes),
      optimizer_key(),
      number_key("learning_rate", at(&C::optimizer, &OptimizerConfig::learning_rate), 0, 1e6),
      number_key("weight_decay", at(&C::optimizer, &OptimizerConfig::weight_decay), 0, 1e6),
      number_key("clip_grad", at(&C::optimizer, &OptimizerConfig::clip_grad), 0, 1e30),
      choice_key("frozen", at(&C::finetune, &FinetuneConfig::frozen), kFrozen),
      integer_key("lora_rank", "", at(&C::finetune, &FinetuneConfig::lora_rank), 1, kMaxSize),
      number_key("lora_alpha", at(&C::finetune, &FinetuneConfig::lora_alpha), 0, 1e6),
      choice_key("lora_targets", at(&C::finetune, &FinetuneConfig::lora_targets), kLoraTargets),
      integer_key("make_vocab_size_divisible_by", "",
                  at(&C::parallel, &ParallelConfig::make_vocab_size_divisible_by), 1, kMaxSize),
      integer_key("ddp_bucket_size", "", at(&C::parallel, &ParallelConfig::ddp_bucket_size), 1,
                  std::int64_t{1} << 40),
      memory_budget_key(),
      boolean_key("nccl_ub", at(&C::machine, &MachineConfig::nccl_ub)),
      integer_key("steps", "", at(&C::measure, &MeasureConfig::steps), 1, kMaxSize),
      integer_key("warmup_steps", "", at(&C::measure, &MeasureConfig::warmup_steps), 0, kMaxSize),
      optional_number_key("timeout_s", at(&C::measure, &MeasureConfig::timeout_s), 0.001, 1e9),
      number_key("emulated_time_factor", at(&C::machine, &MachineConfig::emulated_time_factor), 0, 1e6),
      choice_key("emulated_clock", at(&C::machine, &MachineConfig::emulated_clock), kEmulatedClocks),
      seed_key(),
      slow_ranks_key(),
      text_key("weights", at(&C::files, &FilesConfig::weights), PathOr::path,
               "the folder of a Hugging Face checkpoint"),
      text_key("data", at(&C::files, &FilesConfig::data), PathOr::path,
               "a file of token ids, .npy or raw int32"),
      text_key("save_gradients", at(&C::files, &FilesConfig::save_gradients), PathOr::path,
               "the path of a file to write"),
      text_key("save_routing", at(&C::files, &FilesConfig::save_routing), PathOr::path,
               "the path of a .csv file to write"),
      text_key("lora_weights", at(&C::files, &FilesConfig::lora_weights), PathOr::path,
               "the folder of PEFT adapters"),
      text_key("save_weights", at(&C::files, &FilesConfig::save_weights), PathOr::path,
               "the path of a folder to write"),
  };
  for (ConfigKey& key : distillation_keys()) keys.push_back(std::move(key));
  return keys;
}

}  // namespace

const std::vector<ConfigKey>& config_keys() {
  static const std::vector<ConfigKey> kKeys = make_keys();
  return kKeys;
}

const ConfigKey* find_config_key(std::string_view name) {
  static const std::unordered_map<std::string, const ConfigKey*> kByName = [] {
    std::unordered_map<std::string, const ConfigKey*> keys;
    for (const ConfigKey& key : config_keys()) {
      for (const std::string& each : {key.name, key.alias, key.flag()}) {
        if (!each.empty()) keys.emplace(each, &key);
      }
    }
    return keys;
  }();
  const auto found = kByName.find(std::string(name));
  return found == kByName.end() ? nullptr : found->second;
}

const ConfigKey& get_config_key(std::string_view name, const std::string& origin) {
  if (const ConfigKey* key = find_config_key(name)) return *key;
  std::vector<std::string_view> known;
  for (const ConfigKey& key : config_keys()) {
    known.push_back(key.name);
    if (!key.alias.empty()) known.push_back(key.alias);
  }
  const std::string_view similar = similar_name(name, known);
  throw InputError(fmt::format("{}: found the unknown key \"{}\", expected a known one; {}", origin,
                               printable(name),
                               similar.empty() ? "`plumbline help configuration` lists them"
                                               : fmt::format("the nearest known key is {}", similar)));
}

std::optional<std::string> settle_sizes(ConfigDraft& draft) {
  RunConfig& config = draft.config;
  const std::int64_t model_ranks = config.parallel.model_ranks();
  if (draft.world_size && draft.data_parallel_size &&
      (model_ranks > *draft.world_size || *draft.world_size != model_ranks * *draft.data_parallel_size)) {
    return fmt::format(
        "world_size: found {}, expected tensor x pipeline x context x data parallel size = {} x {} x {} x {}",
        *draft.world_size, config.parallel.tensor, config.parallel.pipeline, config.parallel.context,
        *draft.data_parallel_size);
  }
  const std::int64_t replicas = draft.data_parallel_size.value_or(1);
  if (!draft.world_size && (model_ranks > kMaxSize || model_ranks * replicas > kMaxSize)) {
    return fmt::format("world_size: the parallel sizes multiply to more than the {} ranks that are supported",
                       kMaxSize);
  }
  config.parallel.world_size = static_cast<int>(draft.world_size.value_or(model_ranks * replicas));
  return std::nullopt;
}

}  // namespace plumbline
