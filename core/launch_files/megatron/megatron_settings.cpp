#include "core/launch_files/megatron/megatron_settings.hpp"
#include "core/launch_files/megatron/megatron_optimizer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "core/base/error.hpp"
#include "core/launch_files/arguments/launch_arguments.hpp"
#include "core/launch_files/megatron/megatron_layout.hpp"
#include "core/launch_files/megatron/megatron_sharding.hpp"
#include "core/launch_files/megatron/model/megatron_model.hpp"
#include "core/launch_files/megatron/model/megatron_shape.hpp"

namespace plumbline {
namespace {

/// Defaults that differ from plumbline's (megatron/training/arguments.py and the configuration classes).
constexpr std::pair<const char*, const char*> kMegatronDefaults[] = {
    {"hidden_dropout", "0.1"},
    {"attention_dropout", "0.1"},
    {"cross_entropy_loss_fusion", "false"},
    {"overlap_grad_reduce", "false"},
};

/// Without --fp16 Megatron-LM scales no loss, and with a constant scale the others have no effect.
void set_loss_scale(LaunchArguments& from) {
  constexpr const char* kConstant = "--loss-scale";
  if (from.has(kConstant) && from.text(kConstant, "") != "None")
    return from.set("loss_scale", from.text(kConstant, ""), kConstant);
  for (const auto& [flag, key] :
       {std::pair("--initial-loss-scale", "initial_loss_scale"),
        std::pair("--min-loss-scale", "min_loss_scale"),
        std::pair("--loss-scale-window", "loss_scale_window"), std::pair("--hysteresis", "hysteresis")}) {
    if (from.has(flag)) from.set(key, from.text(flag, ""), flag);
  }
}

void set_precision(LaunchArguments& from, const MegatronDialect& dialect) {
  const bool fp16 = from.on("--fp16");
  const bool bf16 = from.has("--bf16") ? from.on("--bf16") : dialect.recipe && !fp16;
  if (bf16 && fp16) from.refuse_with("--fp16", "--bf16", "one of them");
  if (!dialect.partial || bf16 || fp16)
    from.set("precision", bf16 ? "bf16" : fp16 ? "fp16" : "fp32", fp16 ? "--fp16" : "--bf16");
  if (fp16) set_loss_scale(from);
  const char* const in_16_bits = "--grad-reduce-in-bf16";
  const bool in_fp32 = from.on("--accumulate-allreduce-grads-in-fp32") ||
                       (dialect.provider && from.has(in_16_bits) && !from.on(in_16_bits));
  const std::string main_grads = from.text("--main-grads-dtype", "fp32");
  const char* const fsdp = from.on("--use-custom-fsdp") ? "--use-custom-fsdp" : "--use-megatron-fsdp";
  check_megatron_fsdp(from, bf16, fp16);
  if (from.on(fsdp) && (bf16 || fp16)) {
    from.set("grad_dtype", "same", fsdp);  // --megatron-fsdp-main-grads-dtype auto
  } else if (from.on(in_16_bits)) {
    from.set("grad_dtype", "same", in_16_bits);
  } else if (bf16 && !in_fp32 && main_grads != "fp32" && main_grads != "torch.float32") {
    from.set("grad_dtype", "same", "--main-grads-dtype");
  } else if (fp16 && !in_fp32) {
    from.set("grad_dtype", "same", "--accumulate-allreduce-grads-in-fp32");
  } else {
    from.set("grad_dtype", "fp32", "--accumulate-allreduce-grads-in-fp32");
  }
  for (const char* flag : {"--fp8-format", "--fp8-hybrid", "--fp8-e4m3"}) {
    if (!from.has(flag) || (flag != std::string_view("--fp8-format") && !from.on(flag))) continue;
    const std::string format = flag == std::string_view("--fp8-hybrid") ? "hybrid"
                               : flag == std::string_view("--fp8-e4m3") ? "e4m3"
                                                                        : from.text(flag, "");
    if (format == "None") continue;
    from.set("fp8_format", format, flag);
    from.set("fp8_recipe", from.text("--fp8-recipe", "delayed"), "--fp8-recipe");
    if (from.setting("fp8_recipe", "") == "delayed")
      from.set("fp8_amax_history_len", from.text("--fp8-amax-history-len", "1"), "--fp8-amax-history-len");
    if (from.has("--fp8-margin")) from.set("fp8_margin", from.text("--fp8-margin", "0"), "--fp8-margin");
    if (from.on("--fp8-param-gather")) from.set("fp8_param_gather", "true", "--fp8-param-gather");
  }
  if (const char* const reuse = "--reuse-grad-buf-for-mxfp8-param-ag"; from.has(reuse)) {
    from.without_effect(reuse,
                        "predicted with it: parameters in MXFP8 are gathered into the gradients' buffer");
    const bool gathers = from.setting("fp8_recipe", "") == "mxfp8" && from.on("--fp8-param-gather");
    if (gathers && !from.on(reuse))
      from.file().notes.push_back(
          fmt::format("{}: found false, predicted as true: its buffer of 16-bit parameters is left out",
                      from.origin(reuse)));
  }
  if (from.has("--fp4-format") && from.text("--fp4-format", "") != "None")
    from.set("fp4_format", from.text("--fp4-format", ""), "--fp4-format");
}

/// States of Adam in fewer bytes (megatron/core/optimizer/optimizer_config.py). Master weights are kept as
/// remainders by Transformer Engine, which has them unless an FP8 recipe other than delayed leaves them to
/// Megatron-Core. Without the switch the types are without effect: Megatron-LM wants fp32.
void set_lean_states(LaunchArguments& from) {
  const char* const lean = "--use-precision-aware-optimizer";
  const char* const master = "--main-params-dtype";
  const std::pair<const char*, const char*> moments[] = {{"--exp-avg-dtype", "exp_avg_dtype"},
                                                         {"--exp-avg-sq-dtype", "exp_avg_sq_dtype"}};
  const bool offloads = from.on("--optimizer-cpu-offload");
  if (offloads || !from.on(lean)) {
    const char* const idle =
        offloads ? "states on the host are fp32" : "--use-precision-aware-optimizer is off";
    for (const auto& [flag, key] : moments)
      if (from.has(flag)) from.without_effect(flag, idle);
    if (from.has(master)) from.without_effect(master, idle);
    return;
  }
  for (const auto& [flag, key] : moments)
    if (from.has(flag)) from.set(key, from.text(flag, "fp32"), flag);
  if (from.text(master, "fp32") != "fp32")
    from.not_modelled(master, "master weights in another type than fp32");
  const std::string recipe =
      from.setting("fp8_format", "none") == "none" ? "delayed" : from.setting("fp8_recipe", "delayed");
  if (recipe == "delayed" && from.setting("precision", "") == "bf16")
    from.set("store_param_remainders", "true", lean);
}

/// HybridDeviceOptimizer (megatron/core/optimizer/cpu_offloading/hybrid_optimizer.py@d98e8a64), whose states
/// are fp32. Megatron-Bridge has the library's fraction, 0, where the program's is 1.
void set_optimizer_offload(LaunchArguments& from) {
  const char* const on = "--optimizer-cpu-offload";
  const char* const fraction = "--optimizer-offload-fraction";
  const char* const overlap = "--overlap-cpu-optimizer-d2h-h2d";
  if (from.on(on)) {
    const char* const otherwise = from.file().framework.starts_with("Megatron-Bridge") ? "0" : "1";
    from.set("optimizer_offload_fraction", from.text(fraction, otherwise),
             from.has(fraction) ? fraction : on);
    if (from.on(overlap)) from.approximated(overlap, "copies are predicted before and behind the update");
    return;
  }
  for (const char* const idle : {fraction, overlap})
    if (from.has(idle)) from.without_effect(idle, "--optimizer-cpu-offload is off");
}

/// Megatron-Core's fine-grained offload (pipeline_parallel/fine_grained_activation_offload.py@d98e8a64).
void set_offload(LaunchArguments& from) {
  const char* const on = "--fine-grained-activation-offloading";
  const char* const modules = "--offload-modules";
  struct Plain {
    const char* flag;
    double value;
  };
  const Plain plain[] = {{"--activation-offload-fraction", 1},
                         {"--delta-offload-bytes-across-pp-ranks", 0},
                         {"--min-offloaded-tensor-size", 1024 * 1024}};
  const LaunchArgument* const names = from.find(modules);
  const bool offloads = from.on(on);
  for (const Plain& each : plain) {
    if (!from.has(each.flag)) continue;
    if (offloads && from.number(each.flag, each.value) != each.value)
      from.not_modelled(each.flag, fmt::format("expected {}", each.value));
    else
      from.without_effect(each.flag,
                          offloads ? "it is at the value that is predicted" : "nothing is offloaded");
  }
  if (!offloads) {
    if (names != nullptr) from.without_effect(modules, "--fine-grained-activation-offloading is off");
    return;
  }
  if (names == nullptr || names->values.empty() || names->values.front() == "None")
    from.refuse_with(on, "no modules", "--offload-modules with it");
  from.set("offload_modules", fmt::format("{}", fmt::join(names->values, ",")), modules);
}

void set_recomputation(LaunchArguments& from, bool partial) {
  const std::string granularity = from.text("--recompute-granularity", "None");
  const bool selective = from.on("--recompute-activations") || granularity == "selective";
  if (selective) {
    const char* const method = "--recompute-method";
    if (!partial && from.has(method) && from.text(method, "") != "None")
      from.refuse(method, "none with selective recomputation");
    from.set("recompute_granularity", "selective",
             from.on("--recompute-activations") ? "--recompute-activations" : "--recompute-granularity");
    if (const LaunchArgument* const modules = from.find("--recompute-modules");
        modules != nullptr && !modules->values.empty() && modules->values.front() != "None")
      from.set("recompute_modules", fmt::format("{}", fmt::join(modules->values, ",")),
               "--recompute-modules");
    return;
  }
  if (granularity == "None") return;
  const bool of_no_layer = from.text("--recompute-num-layers", "") == "0";
  if (of_no_layer && from.text("--recompute-method", "") == "block") return;
  from.set("recompute_granularity", granularity, "--recompute-granularity");
  const std::string method = from.text("--recompute-method", partial ? "uniform" : "None");
  if (method == "None") from.refuse("--recompute-granularity", "--recompute-method uniform or block with it");
  const std::int64_t stages = from.integer("--pipeline-model-parallel-size", 1);
  const std::int64_t chunks =
      std::max<std::int64_t>(1, from.integer("--num-virtual-stages-per-pipeline-rank", 1));
  const std::int64_t layers = from.integer("--num-layers", 0);
  if (method == "block") {
    // The first layers of every stage; all of them is the case that uniform blocks of one layer describe.
    const std::int64_t first = from.integer("--recompute-num-layers", 0);
    if (first < 1)
      from.refuse("--recompute-num-layers", "the layers of a stage that are recomputed, at least 1");
    const bool all = layers > 0 && stages > 0 && first * stages * chunks >= layers;
    if (!all) from.set("recompute_method", "block", "--recompute-method");
    return from.set("recompute_num_layers", all ? "1" : fmt::format("{}", first),
                    all ? "--recompute-method" : "--recompute-num-layers");
  }
  if (method != "uniform") from.refuse("--recompute-method", "uniform or block");
  from.set("recompute_num_layers", from.text("--recompute-num-layers", "1"), "--recompute-num-layers");
}

/// "2 2", as a YAML file has it, or 2 and 2 as "2,2".
std::string joined_words(const std::vector<std::string>& values) {
  std::string text = fmt::format("{}", fmt::join(values, ","));
  std::replace(text.begin(), text.end(), ' ', ',');
  return text;
}

/// A rank's tokens are seq_length / context_parallel_size here; the context ranks are the most of a
/// conversation.
void set_dynamic_context(LaunchArguments& from) {
  for (const char* const name : {"--dynamic-context-parallel", "--hybrid-context-parallel"}) {
    if (!from.has(name)) continue;
    from.set("dynamic_context_parallel", "true", name);
    from.set("packed_sequence", "true", name);
    from.set("task", "sft", name);
    const std::int64_t ranks = from.integer("--context-parallel-size", 1);
    const std::int64_t tokens = from.integer("--max-seqlen-per-dp-cp-rank", 0);
    if (from.has("--seq-length") && tokens * ranks != from.integer("--seq-length", 0)) {
      from.refuse("--max-seqlen-per-dp-cp-rank",
                  "--seq-length / --context-parallel-size, whose ranks share the longest conversations");
    }
  }
}

void set_context(LaunchArguments& from) {
  set_dynamic_context(from);
  const LaunchArgument* const type = from.find("--cp-comm-type");
  if (type != nullptr && !type->values.empty()) {
    const auto same = [&](const std::string& each) { return each == type->values.front(); };
    if (!std::all_of(type->values.begin(), type->values.end(), same))
      from.refuse("--cp-comm-type", "the same for all layers");
    if (from.integer("--context-parallel-size", 1) > 1 || type->values.front() != "p2p")
      from.set("cp_comm_type", type->values.front(), "--cp-comm-type");
  }
  const LaunchArgument* const sizes = from.find("--hierarchical-context-parallel-sizes");
  if (sizes != nullptr && !sizes->values.empty() && sizes->values.front() != "None")
    from.set("hierarchical_context_parallel_sizes", joined_words(sizes->values),
             "--hierarchical-context-parallel-sizes");
}

/// Megatron-Bridge takes alltoall for flex whose backend is null (validate_flex_dispatcher_backend in
/// training/flex_dispatcher_backend.py@067f987); the default is deepep.
bool lacks_backend(LaunchArguments& from, const MegatronDialect& dialect) {
  const char* const flag = "--moe-flex-dispatcher-backend";
  const LaunchArgument* const backend = from.find(flag);
  if (backend == nullptr) return false;
  const bool none = backend->values.empty() || backend->values.front() == "None";
  if (!none || !dialect.provider)
    from.without_effect(flag, "it chooses kernels, which the software's description sets");
  return none && dialect.provider;
}

void set_experts(LaunchArguments& from, const MegatronDialect& dialect) {
  const bool partial = dialect.partial;
  const bool given = from.has("--num-experts") && from.text("--num-experts", "") != "None";
  if (!given && !partial) return;
  const std::string dispatcher = from.text("--moe-token-dispatcher-type", "allgather");
  if (from.on("--moe-enable-deepep")) {
    from.set("moe_token_dispatcher_type", "flex", "--moe-enable-deepep");
  } else if (given || from.has("--moe-token-dispatcher-type")) {
    const bool bare = lacks_backend(from, dialect);
    const bool plain = dispatcher == "alltoall_seq" || (dispatcher == "flex" && bare);
    from.set("moe_token_dispatcher_type", plain ? "alltoall" : dispatcher, "--moe-token-dispatcher-type");
  }
  const char* const balancing = "--moe-router-load-balancing-type";
  const std::string type = from.has(balancing) ? from.text(balancing, "") : "aux_loss";
  if (type != "none" && (given || from.has(balancing) || from.has("--moe-aux-loss-coeff"))) {
    const std::string coefficient = from.text("--moe-aux-loss-coeff", "0");
    // Without a weight these kinds of the loss are alike.
    const bool idle = type.ends_with("aux_loss") && from.number("--moe-aux-loss-coeff", 0) == 0;
    from.set("moe_router_load_balancing_type", idle ? "aux_loss" : type, balancing);
    from.set("moe_aux_loss_coeff", coefficient, "--moe-aux-loss-coeff");
  }
  const char* const factor = "--moe-expert-capacity-factor";
  if (from.has(factor) && from.text(factor, "") != "None" && from.number(factor, -1) > 0)
    from.set("moe_expert_capacity_factor", from.text(factor, ""), factor);
  const char* const rank = "--moe-expert-rank-capacity-factor";
  if (from.has(rank) && from.text(rank, "") != "None")
    from.set("moe_expert_rank_capacity_factor", from.text(rank, ""), rank);
  if (from.on("--moe-router-enable-expert-bias") && from.has("--moe-router-bias-update-rate"))
    from.set("moe_router_bias_update_rate", from.text("--moe-router-bias-update-rate", ""),
             "--moe-router-bias-update-rate");
}

void set_kernels(LaunchArguments& from) {
  const char* const layers = "--transformer-impl";
  const std::string kind = from.text(layers, "transformer_engine");
  if (kind != "transformer_engine" && kind != "local" && kind != "inference_optimized")
    from.refuse(layers, "transformer_engine, local or inference_optimized");
  if (from.has(layers)) from.without_effect(layers, "the software's description sets the kernels");
  std::string attention = from.text("--attention-backend", "auto");
  attention = attention.substr(attention.find('.') + 1);  // AttnBackend.auto
  if (attention == "unfused" || attention == "local") {
    from.set("attention_backend", "unfused", "--attention-backend");
  } else if (attention == "auto" || attention == "flash" || attention == "fused") {
    from.set("attention_backend", "fused",
             from.on("--use-flash-attn") ? "--use-flash-attn" : "--attention-backend");
  } else {
    from.refuse("--attention-backend", "auto, flash, fused, unfused or local");
  }
  std::string impl = from.text("--cuda-graph-impl", "none");
  std::string impl_from = "--cuda-graph-impl";
  for (const auto& [flag, name] : {std::pair("--enable-cuda-graph", "local"),
                                   std::pair("--external-cuda-graph", "transformer_engine")}) {
    if (!from.on(flag)) continue;
    impl = name;
    impl_from = flag;
  }
  if (impl == "none" || impl == "None") return;
  for (const char* flag : {"--cuda-graph-modules", "--cuda-graph-scope"}) {
    const LaunchArgument* const modules = from.find(flag);
    if (modules == nullptr || modules->values.empty()) continue;
    const std::string names = fmt::format("{}", fmt::join(modules->values, ","));
    if (names == "full_iteration") {
      impl = names;
      impl_from = flag;
    } else if (names != "full" && names != "None") {
      from.set("cuda_graph_modules", names, flag);
    }
  }
  from.set("cuda_graph_impl", impl, impl_from);
}

void set_sizes(LaunchArguments& from, const LauncherFacts& launcher, bool partial) {
  if (launcher.world_size > 0)
    from.derive("world_size", fmt::format("{}", launcher.world_size), launcher.place);
  const char* const sequence = from.has("--seq-length") ? "--seq-length" : "--encoder-seq-length";
  if (partial && !from.has(sequence)) return;
  if (from.has(sequence)) {
    from.set("seq_length", from.text(sequence, ""), sequence);
  } else if (!from.file().beside.gives("seq_length")) {
    throw InputError("--seq-length: missing, expected tokens of a sequence; add it to the arguments");
  }
  if (!partial && !from.has("--micro-batch-size") && !from.file().beside.gives("micro_batch_size"))
    throw InputError("--micro-batch-size: missing, expected sequences");
}

/// Flags of a hybrid's layers, which no rule derives a model from.
constexpr std::string_view kHybridFlags[] = {kHybridPattern,     "--is-hybrid-model",  "--mamba-num-heads",
                                             "--mamba-head-dim", "--mamba-num-groups", "--mamba-state-dim"};

/// Flags about the shape of a model that the user may name.
std::vector<ModelSize> sizes_in(const std::vector<LaunchArgument>& arguments) {
  std::vector<ModelSize> sizes;
  for (const LaunchArgument& each : arguments)
    if (is_model_size(each.name) && each.values.size() == 1 && each.values.front() != "None")
      sizes.push_back({each.name, each.values.front(), fmt::format("{}: {}", each.place, each.name)});
  return sizes;
}

std::string why_no_hybrid(const std::vector<LaunchArgument>& arguments) {
  const auto found = std::find_if(arguments.begin(), arguments.end(),
                                  [](const LaunchArgument& each) { return each.name == kHybridPattern; });
  if (found == arguments.end()) return "";
  return fmt::format("{}: {}: found without a model, expected one with such layers; give --model",
                     found->place, kHybridPattern);
}

/// The model of the flags. False where they leave it to the user.
bool derive_model(LaunchArguments& from, const MegatronDialect& dialect) {
  if (dialect.partial && !from.has("--num-layers") && !from.has("--hidden-size")) return false;
  try {
    from.derive("model", megatron_model(from, dialect), "flags of the model's shape");
  } catch (const InputError& missing) {
    if (from.file().beside.gives("model")) return true;
    if (!dialect.partial) throw;
    from.file().no_model = missing.what();
  }
  return from.file().no_model.empty();
}

}  // namespace

LaunchFile megatron_launch(const std::vector<LaunchArgument>& arguments, const LauncherFacts& launcher,
                           const MegatronDialect& dialect, const BesideFile& beside) {
  LaunchFile file;
  file.framework = dialect.framework;
  file.beside = beside;
  std::vector<LaunchArgument> given = arguments;
  if (dialect.partial) {
    file.model_sizes = sizes_in(given);
    file.no_model = why_no_hybrid(given);
    std::erase_if(given, [&](const LaunchArgument& each) {
      return !file.no_model.empty() &&
             std::find(std::begin(kHybridFlags), std::end(kHybridFlags), each.name) != std::end(kHybridFlags);
    });
  }
  LaunchArguments from(given, argument_table("megatron_flags.txt"), file);
  MegatronDialect used = dialect;
  used.recipe = !file.no_model.empty();
  if (!used.recipe) from.attempt([&] { used.recipe = !derive_model(from, dialect); });
  const bool says_all = from.has("--bf16") && from.has("--use-distributed-optimizer") &&
                        from.has("--overlap-grad-reduce") && from.has("--overlap-param-gather");
  if (used.recipe && (dialect.provider || !says_all)) {
    file.notes.push_back(fmt::format(
        "the file changes a recipe, which has the model and other values (--model, --seq-length, ...); taken "
        "are bf16, the distributed optimizer and overlap of Megatron-Bridge's recipes for {}",
        dialect.finetunes ? "fine-tuning" : "pre-training"));
  }
  from.attempt([&] { set_megatron_sharding(from, used); });
  from.attempt([&] { set_sizes(from, launcher, dialect.partial); });
  from.attempt([&] { set_precision(from, used); });
  from.attempt([&] { set_optimizer(from); });
  from.attempt([&] { set_lean_states(from); });
  from.attempt([&] { set_megatron_layout(from); });
  from.attempt([&] { set_context(from); });
  from.attempt([&] { set_experts(from, dialect); });
  from.attempt([&] { set_recomputation(from, dialect.partial); });
  from.attempt([&] { set_optimizer_offload(from); });
  from.attempt([&] { set_offload(from); });
  from.attempt([&] { set_kernels(from); });
  if (!dialect.partial)
    for (const auto& [key, value] : kMegatronDefaults) from.set_default(key, value);
  if (launcher.world_size == 0) file.notes.emplace_back(kNoGpusNote);
  return file;
}

}  // namespace plumbline
