#include "core/launch_files/torch/titan/torchtitan_settings.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.hpp"
#include "core/config/model_config.hpp"
#include "core/launch_files/arguments/launch_arguments.hpp"
#include "core/launch_files/torch/offloaded_states.hpp"
#include "core/launch_files/torch/titan/torchtitan_layout.hpp"
#include "core/launch_files/torch/titan/torchtitan_models.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kMostTitanRanks = 1 << 20;
constexpr const char* kShard = "parallelism.data_parallel_shard_degree";
constexpr const char* kReplicate = "parallelism.data_parallel_replicate_degree";
constexpr const char* kConverters = "model.converters";

std::int64_t titan_degree(const LaunchArguments& from, const char* key) {
  const std::int64_t degree = from.integer(key, 1);
  if (degree < 1 || degree > kMostTitanRanks) from.refuse(key, fmt::format("1 to {}", kMostTitanRanks));
  return degree;
}

/// The degree of sharding; 0: ranks that are left over.
std::int64_t shard_degree(const LaunchArguments& from) {
  return from.text(kShard, "-1") == "-1" ? 0 : titan_degree(from, kShard);
}

bool holds(const LaunchArguments& from, const char* key, const std::string& word) {
  const LaunchArgument* const list = from.find(key);
  if (list == nullptr) return false;
  return std::any_of(list->values.begin(), list->values.end(), [&](const std::string& value) {
    return ("," + value + ",").find("," + word + ",") != std::string::npos;
  });
}

void set_titan_ranks(LaunchArguments& from) {
  const std::int64_t tensor = titan_degree(from, "parallelism.tensor_parallel_degree");
  const std::int64_t context = titan_degree(from, "parallelism.context_parallel_degree");
  const std::int64_t stages = titan_degree(from, "parallelism.pipeline_parallel_degree");
  const std::int64_t replicas = titan_degree(from, kReplicate);
  const std::int64_t shards = shard_degree(from);
  from.set("tensor_model_parallel_size", fmt::format("{}", tensor), "parallelism.tensor_parallel_degree");
  if (tensor > 1) from.set("sequence_parallel", "true", "parallelism.tensor_parallel_degree");
  from.set("context_parallel_size", fmt::format("{}", context), "parallelism.context_parallel_degree");
  if (context > 1) {
    const char* const rotate = "parallelism.context_parallel_rotate_method";
    const std::string method = from.text(rotate, "allgather");
    if (method != "allgather" && method != "alltoall") from.refuse(rotate, "allgather or alltoall");
    from.set("cp_comm_type", method == "allgather" ? "all_gather" : "p2p", rotate);
    const char* const balancer = "parallelism.context_parallel_load_balancer";
    const std::string kind = from.text(balancer, "headtail");
    if (kind != "headtail" && kind != "None" && !kind.empty()) from.refuse(balancer, "headtail, or none");
    from.set("cp_load_balance", kind == "headtail" ? "true" : "false", balancer);
  }
  if (shards == 1 && context == 1 && replicas > 1) {
    from.not_modelled(kReplicate, "replicas without sharding (DDP); torchtitan is predicted with FSDP");
  }
  from.set("zero_stage", "3", kShard);
  set_fsdp_offload(from, {"training.enable_cpu_offload"});
  from.file().replicas = replicas * std::max<std::int64_t>(1, shards);
  from.file().replicas_origin = from.origin(shards > 0 ? kShard : kReplicate);
  if (replicas > 1) from.set("num_distributed_optimizer_instances", fmt::format("{}", replicas), kReplicate);
  const char* const reshard = "parallelism.fsdp_reshard_after_forward";
  const std::string policy = from.text(reshard, "default");
  if (policy == "never") {
    from.not_modelled(reshard, "parameters that stay gathered after forwards");
  } else if (policy != "default" && policy != "always") {
    from.refuse(reshard, "default or always");
  } else if (policy == "default" && stages > 1) {
    from.file().notes.push_back(
        "fsdp_reshard_after_forward is default: torchtitan keeps parameters gathered in a pipeline, which "
        "takes "
        "more memory; predicted are sharded ones and a gather for every micro-batch");
  }
  const std::int64_t model_ranks =
      tensor * context > kMostTitanRanks ? kMostTitanRanks + 1 : tensor * context * stages;
  const std::int64_t all = model_ranks > kMostTitanRanks ? model_ranks : model_ranks * replicas;
  if (all > kMostTitanRanks || all * std::max<std::int64_t>(1, shards) > kMostTitanRanks)
    from.refuse("parallelism.tensor_parallel_degree",
                fmt::format("at most {} ranks in all", kMostTitanRanks));
  if (shards > 0) {
    from.set("world_size", fmt::format("{}", all * shards), kShard);
  } else {
    from.file().notes.emplace_back(kNoGpusNote);
  }
}

void set_titan_batch(LaunchArguments& from) {
  const char* const local = "training.local_batch_size";
  const char* const global = "training.global_batch_size";
  const char* const micro = "parallelism.pipeline_parallel_microbatch_size";
  const std::int64_t sequences = from.integer(local, 8);
  const bool pipeline = from.integer("parallelism.pipeline_parallel_degree", 1) > 1;
  const std::int64_t of_pass = pipeline ? from.integer(micro, 1) : sequences;
  if (of_pass < 1 || sequences < 1 || sequences % of_pass != 0)
    from.refuse(pipeline ? micro : local, fmt::format("a divisor of the {} sequences of a rank", sequences));
  from.set("micro_batch_size", fmt::format("{}", of_pass), pipeline ? micro : local);
  from.set("seq_length", from.text("training.seq_len", "2048"), "training.seq_len");
  if (from.has(global) && from.text(global, "") != "-1") {
    from.set("global_batch_size", from.text(global, ""), global);
    if (pipeline)
      from.file().notes.push_back("training.global_batch_size: predicted as one pass of the pipeline a step");
    return;
  }
  from.file().num_microbatches = sequences / of_pass;
}

void set_titan_experts(LaunchArguments& from, const ModelConfig& model) {
  if (!model.mixture) return;
  const char* const experts = "parallelism.expert_parallel_degree";
  from.set("expert_model_parallel_size", fmt::format("{}", titan_degree(from, experts)), experts);
  const char* const tensor = "parallelism.expert_tensor_parallel_degree";
  if (from.integer(experts, 1) > 1)
    from.set("expert_tensor_parallel_size", fmt::format("{}", titan_degree(from, tensor)), tensor);
  const char* const backend = "parallelism.expert_parallel_comm_backend";
  const std::string name = from.text(backend, "standard");
  if (name != "standard" && name != "deepep") from.refuse(backend, "standard or deepep");
  from.set("moe_token_dispatcher_type", name == "deepep" ? "flex" : "alltoall", backend);
}

void set_titan_recomputation(LaunchArguments& from) {
  const char* const mode = "activation_checkpoint.mode";
  const char* const option = "activation_checkpoint.selective_ac_option";
  const std::string name = from.text(mode, "selective");
  const std::string which = from.text(option, "2");
  if (name == "none" || name == "full") {
    from.set("recompute_granularity", name, mode);
  } else if (name == "selective" && which == "op") {
    from.set("recompute_granularity", "selective", option);
  } else if (name == "selective") {
    // A rank's layers whose number is a multiple of it; 0: all (_apply_layer_sac of
    // torchtitan/distributed/activation_checkpoint.py@f4e7b70b).
    constexpr std::int64_t kMostLayers = 10'000;
    if (which.find_first_not_of("0123456789") != std::string::npos || from.integer(option, 2) > kMostLayers)
      from.refuse(option, fmt::format("op, or a number N up to {}: every Nth layer", kMostLayers));
    const std::int64_t distance = from.integer(option, 2);
    from.set("recompute_granularity", "full", mode);
    if (distance < 2) return;
    from.set("recompute_method", "interval", option);
    from.set("recompute_num_layers", fmt::format("{}", distance), option);
  } else {
    from.refuse(mode, "none, full or selective");
  }
}

void set_titan_software(LaunchArguments& from, const ModelConfig& model) {
  const bool compiled = from.on("compile.enable") &&
                        (!from.has("compile.components") || holds(from, "compile.components", "model"));
  const char* converter = kConverters;
  bool float8 = false;
  if (const LaunchArgument* const list = from.find(kConverters)) {
    for (const std::string& each : list->values) {
      if (each == "[]" || each.empty()) continue;
      float8 = each == "float8" || each == "quantize.linear.float8";
      if (!float8) from.refuse(kConverters, "float8, or none");
    }
  }
  if (from.on("float8.enable_float8_linear")) {
    float8 = true;
    converter = "float8.enable_float8_linear";
  }
  const char* const async = "parallelism.enable_async_tensor_parallel";
  const bool overlap = from.on(async);
  if (overlap) from.set("tp_comm_overlap", "true", async);
  if (float8) {
    from.set("fp8_format", "hybrid", converter);
    const char* const recipe = "quantize.linear.float8.recipe_name";
    const std::string name = from.text(recipe, "None");
    if (name != "None" && name != "tensorwise" && !name.empty()) from.refuse(recipe, "tensorwise");
    from.set("fp8_recipe", "tensorwise", recipe);
  }
  if (!compiled && (float8 || overlap)) {
    from.not_modelled(float8 ? converter : async,
                      "without compilation, which torchtitan advises with it; set compile.enable");
  }
  const char* const gather = "quantize.linear.float8.enable_fsdp_float8_all_gather";
  std::string software = !compiled ? "torchtitan" : "torchtitan-2025";
  if (compiled && float8 && !from.on(gather)) software = "torchtitan";
  if (compiled && float8) software += "-float8";
  if (compiled && overlap) software += "-async";
  if (model.mixture && software == "torchtitan") {
    software = "torchtitan-2025";
    from.file().notes.emplace_back("experts are predicted with torchtitan-2025, whose layers are compiled");
  }
  from.set("software", software, float8 ? converter : "compile.enable");
}

void set_titan_numerics(LaunchArguments& from) {
  const char* const type = "training.mixed_precision_param";
  const std::string name = from.text(type, "bfloat16");
  if (name != "bfloat16" && name != "float32") from.refuse(type, "bfloat16 or float32");
  from.set("precision", name == "bfloat16" ? "bf16" : "fp32", type);
  from.set_default("grad_dtype", "fp32");
  const char* const optimizer = "optimizer.name";
  const std::string kind = from.text(optimizer, "AdamW");
  if (kind != "AdamW" && kind != "Adam") from.refuse(optimizer, "AdamW or Adam");
  from.set("optimizer", "adam", optimizer);
  from.set_default("make_vocab_size_divisible_by", "1");
}

}  // namespace

LaunchFile torchtitan_launch(std::vector<LaunchArgument> arguments, const BesideFile& beside) {
  LaunchFile file;
  file.framework = "torchtitan";
  file.beside = beside;
  const ArgumentTable& table = argument_table("torchtitan_keys.txt");
  for (LaunchArgument& each : arguments)
    if (const ArgumentName* const now = table.other_name(each.name)) each.name = now->flag;
  LaunchArguments from(arguments, table, file);
  const std::string model = torchtitan_model(from);
  from.set("model", model, "model.flavor");
  const ModelConfig shape =
      model.starts_with('{') ? parse_model_config(model, "model.flavor") : *find_preset(model);
  from.attempt([&] { set_titan_ranks(from); });
  from.attempt([&] { set_torchtitan_layout(from, shape.layers); });
  from.attempt([&] { set_titan_batch(from); });
  from.attempt([&] { set_titan_experts(from, shape); });
  from.attempt([&] { set_titan_recomputation(from); });
  from.attempt([&] { set_titan_software(from, shape); });
  from.attempt([&] { set_titan_numerics(from); });
  return file;
}

}  // namespace plumbline
