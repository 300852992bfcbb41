#include "core/launch_files/reinforcement/nemo_rl.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/launch_files/arguments/keyed_files.hpp"
#include "core/launch_files/arguments/named_model.hpp"
#include "core/launch_files/arguments/yaml_keys.hpp"

namespace plumbline {
namespace {

constexpr int kMostBases = 8;     // files that follow each other
constexpr int kMostFollowed = 8;  // of one value, one after another

/// Arguments by name, those of `defaults` under those of the file.
using Keys = std::map<std::string, LaunchArgument>;

/// The file that another is derived from, by its path from there.
bool names_file(const LaunchArgument& argument) {
  return argument.name == "defaults" && argument.values.size() == 1 &&
         argument.values.front().ends_with(".yaml");
}

/// `folder`: of the file, from that of the first one, with the last slash.
Keys keys_of(const std::string& text, const std::string& name, const std::string& folder,
             const OtherFile& other, int depth) {
  Keys keys;
  std::vector<LaunchArgument> own = yaml_arguments(text, name);
  for (const LaunchArgument& each : own) {
    if (!names_file(each)) continue;
    const std::string& given = each.values.front();
    const std::string path = given.starts_with('/') ? given : folder + given;
    const auto parent = other ? other(path) : std::nullopt;
    if (!parent || depth == kMostBases) {
      throw InputError(fmt::format("{}: defaults: found {}, expected a file; put it where the path says",
                                   each.place, printable(given)));
    }
    keys = keys_of(*parent, path, path.substr(0, path.rfind('/') + 1), other, depth + 1);
  }
  for (LaunchArgument& each : own)
    if (each.name != "defaults") keys[each.name] = std::move(each);
  return keys;
}

/// Mapping of a file's keys to those of a configuration.
class Reader {
 public:
  Reader(Keys keys, const BesideFile& beside) : keys_(std::move(keys)) { file_.beside = beside; }

  LaunchFile read() {
    file_.framework = "NeMo-RL";
    if (const auto model = keys_.find("policy.model_name"); model != keys_.end()) {
      used_.push_back(model->first);
      set_named_model(file_, model->second);
    }
    used_.emplace_back("grpo.async_grpo.enabled");
    take("grpo.num_prompts_per_step", "num_prompts_per_step");
    take("grpo.num_generations_per_prompt", "num_generations_per_prompt");
    set("task", "grpo", "grpo.num_prompts_per_step");
    read_loss();
    read_batch();
    if (is("policy.megatron_cfg.enabled"))
      read_megatron();
    else
      read_dtensor();
    read_rollout();
    tell_the_rest();
    return std::move(file_);
  }

 private:
  /// Empty: absent or null.
  std::string text(const std::string& name) {
    const auto found = keys_.find(name);
    if (found == keys_.end() || found->second.values.size() != 1) return "";
    used_.push_back(name);
    std::string value = resolved(found->second.values.front(), name, 0);
    if (value == "True" || value == "False") value = value == "True" ? "true" : "false";
    return value == "null" || value == "~" ? "" : value;
  }
  /// ${a.b}, ${.b} beside the key itself, and ${mul:x, y}.
  std::string resolved(const std::string& value, const std::string& name, int depth) {
    if (!value.starts_with("${") || !value.ends_with('}') || depth == kMostFollowed) return value;
    std::string inner = value.substr(2, value.size() - 3);
    if (inner.starts_with("mul:")) {
      const std::size_t comma = inner.rfind(',');
      const auto factor = [&](std::string part) {
        part.erase(0, part.find_first_not_of(' '));
        return whole(resolved(part, name, depth + 1));
      };
      if (comma == std::string::npos) return value;
      return fmt::format("{}", factor(inner.substr(4, comma - 4)) * factor(inner.substr(comma + 1)));
    }
    if (inner.starts_with('.')) inner = name.substr(0, name.rfind('.')) + inner;
    const auto found = keys_.find(inner);
    if (found == keys_.end() || found->second.values.size() != 1) return value;
    return resolved(found->second.values.front(), inner, depth + 1);
  }
  static std::int64_t whole(const std::string& value) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool good = error == std::errc() && end == value.data() + value.size() && number >= 0 &&
                      number < std::int64_t{1} << 31;
    return good ? number : 0;
  }
  bool is(const std::string& name) { return text(name) == "true"; }
  std::int64_t number(const std::string& name) { return whole(text(name)); }

  std::string place_of(const std::string& name) const {
    const auto found = keys_.find(name);
    return found == keys_.end() ? "default of NeMo-RL"
                                : fmt::format("{}: {}", found->second.place, printable(name));
  }
  void set(const std::string& key, std::string value, const std::string& from) {
    file_.settings.push_back({key, std::move(value), place_of(from), !keys_.contains(from)});
  }
  void take(const std::string& name, const std::string& key) {
    if (std::string value = text(name); !value.empty()) set(key, std::move(value), name);
  }

  void read_loss() {
    take("loss_fn.reference_policy_kl_penalty", "kl_loss_coef");
    take("loss_fn.reference_policy_kl_type", "kl_loss_type");
    take("loss_fn.ratio_clip_min", "clip_ratio_low");
    take("loss_fn.ratio_clip_max", "clip_ratio_high");
    if (text("loss_fn.token_level_loss") == "false")
      set("loss_agg_mode", "sequence_mean", "loss_fn.token_level_loss");
  }

  void read_batch() {
    take("policy.train_global_batch_size", "global_batch_size");
    const bool packs = is("policy.sequence_packing.enabled");
    if (packs)
      set("micro_batch_size", "1", "policy.sequence_packing.enabled");  // a pack is a micro-batch
    else
      take("policy.train_micro_batch_size", "micro_batch_size");
    take("policy.max_total_sequence_length", "seq_length");
    const std::int64_t all = number("policy.max_total_sequence_length");
    const std::int64_t fresh = number("policy.generation.max_new_tokens");
    // Engines stop at the longest sequence, whatever the prompt; its length is not in the file.
    const std::int64_t prompt = std::max<std::int64_t>(all - fresh, all / 8);
    if (all > 0) {
      set("prompt_length", fmt::format("{}", prompt), "policy.generation.max_new_tokens");
      set("max_new_tokens", fmt::format("{}", all - prompt), "policy.generation.max_new_tokens");
      file_.notes.push_back(fmt::format(
          "the lengths of prompts and responses are not in the file: prompts of {} tokens and responses of "
          "{} "
          "are assumed; --set prompt_length=N, max_new_tokens=N and response_length_mean=N say them",
          prompt, all - prompt));
    }
    if (packs) set("packed_sequence", "true", "policy.sequence_packing.enabled");
    const std::string precision = text("policy.precision");
    if (precision == "bfloat16" || precision == "float32")
      set("precision", precision == "bfloat16" ? "bf16" : "fp32", "policy.precision");
  }

  void read_megatron() {
    const std::string in = "policy.megatron_cfg.";
    set("software", "megatron-core", in + "enabled");
    take(in + "tensor_model_parallel_size", "tensor_model_parallel_size");
    take(in + "pipeline_model_parallel_size", "pipeline_model_parallel_size");
    take(in + "context_parallel_size", "context_parallel_size");
    take(in + "expert_model_parallel_size", "expert_model_parallel_size");
    if (number(in + "expert_model_parallel_size") > 1)
      take(in + "expert_tensor_parallel_size", "expert_tensor_parallel_size");
    if (number(in + "tensor_model_parallel_size") > 1) take(in + "sequence_parallel", "sequence_parallel");
    if (number(in + "expert_model_parallel_size") > 1)
      take(in + "moe_token_dispatcher_type", "moe_token_dispatcher_type");
    const bool sharded = text(in + "optimizer.use_distributed_optimizer") != "false";
    set("zero_stage", sharded ? "1" : "0", in + "optimizer.use_distributed_optimizer");
    if (text(in + "distributed_data_parallel_config.grad_reduce_in_fp32") == "false")
      set("grad_dtype", "same", in + "distributed_data_parallel_config.grad_reduce_in_fp32");
    read_recomputation(in);
    const std::int64_t first = number(in + "num_layers_in_first_pipeline_stage");
    const std::int64_t last = number(in + "num_layers_in_last_pipeline_stage");
    if (first > 0 && last > 0)
      set("layer_distribution", fmt::format("{},*,{}", first, last),
          in + "num_layers_in_first_pipeline_stage");
    if (is(in + "fp8_cfg.enabled")) {
      set("fp8_format", text(in + "fp8_cfg.fp8"), in + "fp8_cfg.fp8");
      take(in + "fp8_cfg.fp8_recipe", "fp8_recipe");
    }
  }
  void read_recomputation(const std::string& in) {
    if (!is(in + "activation_checkpointing")) return;
    const std::string how = text(in + "recompute_granularity");
    set("recompute_granularity", how.empty() ? "full" : how, in + "activation_checkpointing");
  }
  void read_dtensor() {
    const std::string in = "policy.dtensor_cfg.";
    set("software", "torchtitan", in + "enabled");
    set("zero_stage", "3", in + "enabled");
    take(in + "tensor_parallel_size", "tensor_model_parallel_size");
    take(in + "context_parallel_size", "context_parallel_size");
    if (is(in + "activation_checkpointing"))
      set("recompute_granularity", "full", in + "activation_checkpointing");
    file_.approximated.push_back(
        {in + "enabled", place_of(in + "enabled"), "training by DTensor is predicted as torchtitan's"});
  }

  void read_rollout() {
    const std::string in = "policy.generation.";
    set("rl_framework", "nemo-rl", in + "backend");
    const std::string engine = text(in + "backend");
    if (!engine.empty())
      set("rollout_software", engine == "trtllm" ? "tensorrt-llm" : engine, in + "backend");
    take(in + "vllm_cfg.tensor_parallel_size", "rollout_tensor_model_parallel_size");
    take(in + "vllm_cfg.pipeline_parallel_size", "rollout_pipeline_model_parallel_size");
    take(in + "vllm_cfg.gpu_memory_utilization", "gpu_memory_utilization");
    take(in + "vllm_kwargs.max_num_seqs", "max_num_seqs");
    take(in + "vllm_kwargs.max_num_batched_tokens", "max_num_batched_tokens");
    if (const std::string precision = text(in + "vllm_cfg.precision"); precision == "fp8")
      file_.approximated.push_back({in + "vllm_cfg.precision", place_of(in + "vllm_cfg.precision"),
                                    "a rollout in FP8 is predicted in 16 bits"});
    std::int64_t gpus = number("cluster.gpus_per_node") * number("cluster.num_nodes");
    if (text(in + "colocated.enabled") == "false") {
      const std::string of = in + "colocated.resources.";
      const std::int64_t nodes = std::max<std::int64_t>(1, number(of + "num_nodes"));
      const std::int64_t pool = nodes * number(of + "gpus_per_node");
      set("rollout_placement", is("grpo.async_grpo.enabled") ? "one_step_off" : "split",
          in + "colocated.enabled");
      set("rollout_world_size", fmt::format("{}", pool), of + "gpus_per_node");
      gpus -= pool;
    }
    if (gpus > 0)
      set("world_size", fmt::format("{}", gpus), "cluster.num_nodes");
    else
      file_.notes.emplace_back(kNoGpusNote);
  }

  /// Reason of an argument without effect; empty: it has one that is not predicted.
  const char* why_idle(const std::string& name, const LaunchArgument& argument) {
    constexpr std::string_view kPlaces[] = {
        "logger.",     "checkpointing.",    "data.",           "env.", "cluster.",
        "data_plane.", "policy.tokenizer.", "policy.scheduler"};
    constexpr std::string_view kRates[] = {"policy.optimizer", "policy.megatron_cfg.optimizer.",
                                           "policy.megatron_cfg.scheduler.", "policy.max_grad_norm"};
    constexpr std::string_view kRewards[] = {"grpo.", "loss_fn.", "reward_penalties."};
    const auto in = [&](const auto& parts) {
      return std::any_of(std::begin(parts), std::end(parts),
                         [&](std::string_view part) { return name.starts_with(part); });
    };
    const std::string value = argument.values.size() == 1 ? argument.values.front() : "";
    if (value == "false" || value == "False" || value == "null") return "it is off";
    if (in(kPlaces)) return "it logs, saves, places or chooses data";
    if (in(kRates)) return "it changes values, not sizes";
    const bool rolls =
        name == "grpo.use_dynamic_sampling" || (name == "grpo.max_rollout_turns" && value != "1");
    if (in(kRewards) && !rolls) return "it shapes rewards, advantages or the loss";
    const char* const other =
        is("policy.megatron_cfg.enabled") ? "policy.dtensor_cfg." : "policy.megatron_cfg.";
    if (name.starts_with(other)) return "of the training software that is off";
    const std::string engine = text("policy.generation.backend");
    if (engine != "megatron" && name.starts_with("policy.generation.mcore_generation_config."))
      return "of an engine that is off";
    return "";
  }
  void tell_the_rest() {
    for (const auto& [name, argument] : keys_) {
      if (std::find(used_.begin(), used_.end(), name) != used_.end()) continue;
      if (const std::string idle = why_idle(name, argument); !idle.empty())
        file_.without_effect.push_back({printable(name), argument.place, idle});
      else
        file_.approximated.push_back({printable(name), argument.place, "it is not a part of the prediction"});
    }
  }

  const Keys keys_;
  std::vector<std::string> used_;
  LaunchFile file_;
};

}  // namespace

std::optional<LaunchFile> nemo_rl_launch(std::string_view text, const std::string& name,
                                         const OtherFile& other, const BesideFile& beside) {
  const bool own = has_yaml_key(text, "policy") && has_yaml_key(text, "grpo");
  if (!own) {
    if (!has_yaml_key(text, "defaults")) return std::nullopt;
    const std::vector<LaunchArgument> keys = yaml_arguments(std::string(text), name);
    if (std::none_of(keys.begin(), keys.end(), names_file)) return std::nullopt;
  }
  Keys keys = keys_of(std::string(text), name, "", other, 0);
  const auto first = keys.lower_bound("grpo.");
  if (first == keys.end() || !first->first.starts_with("grpo.")) return std::nullopt;  // of another algorithm
  return Reader(std::move(keys), beside).read();
}

}  // namespace plumbline
