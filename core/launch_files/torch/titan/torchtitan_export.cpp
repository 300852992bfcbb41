#include "core/launch_files/torch/titan/torchtitan_export.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/config/layer_distribution.hpp"
#include "core/launch_files/arguments/export_checks.hpp"
#include "core/launch_files/torch/titan/torchtitan_layout.hpp"
#include "core/launch_files/torch/titan/torchtitan_models.hpp"

namespace plumbline {
namespace {

[[noreturn]] void refuse_titan(const std::string& key, const std::string& found,
                               const std::string& expected) {
  refuse_export("torchtitan's keys", key, found, expected);
}

/// Keys of the configuration that torchtitan decides itself.
void check_titan(const RunConfig& config) {
  check_exportable("torchtitan's keys", config);
  const ParallelConfig& parallel = config.parallel;
  const NumericsConfig& numerics = config.numerics;
  // Without effect on a prediction of torchtitan, which shards its own way.
  const bool own_sharding = config.machine.software.starts_with("torchtitan");
  if (parallel.copies() > 1 && parallel.dp.zero_stage != 3 && !own_sharding)
    refuse_titan("zero_stage", fmt::format("{}", parallel.dp.zero_stage), "3");
  if (parallel.dp.hpz_partition_size != 1) refuse_titan("zero_hpz_partition_size", "a partition", "1");
  if (parallel.data() % parallel.dp.optimizer_instances != 0 ||
      (parallel.copies() > 1 && parallel.state_shards() == 1))
    refuse_titan("num_distributed_optimizer_instances", fmt::format("{}", parallel.dp.optimizer_instances),
                 "a divisor of the data parallel size, with several ranks in a group");
  if (parallel.tensor > 1 && !parallel.sequence_parallel) refuse_titan("sequence_parallel", "false", "true");
  if (parallel.context > 1 && parallel.cp.comm_type != CpCommType::p2p &&
      parallel.cp.comm_type != CpCommType::all_gather)
    refuse_titan("cp_comm_type", std::string(cp_comm_type_name(parallel.cp.comm_type)), "p2p or all_gather");
  if (config.model.mixture && parallel.folds_experts() &&
      (parallel.expert == 1 || parallel.effective_expert_tensor() != 1))
    refuse_titan("expert_tensor_parallel_size", fmt::format("{}", parallel.effective_expert_tensor()),
                 "tensor_model_parallel_size, or 1 with expert_model_parallel_size above 1");
  if (parallel.ep.token_dispatcher == TokenDispatcher::allgather)
    refuse_titan("moe_token_dispatcher_type", "allgather", "alltoall or flex");
  if (numerics.precision == DType::fp16) refuse_titan("precision", "fp16", "bf16 or fp32");
  if (numerics.grad_dtype == GradDType::same && numerics.precision != DType::fp32)
    refuse_titan("grad_dtype", "same", "fp32");
  if (numerics.fp4_format != Fp4Format::none) refuse_titan("fp4_format", "e2m1", "none");
  if (numerics.fp8.on() &&
      (numerics.fp8.recipe != Fp8Recipe::tensorwise || numerics.fp8.format != Fp8Format::hybrid))
    refuse_titan("fp8_recipe", "another", "tensorwise, with fp8_format hybrid");
  if (numerics.first_last_layers_bf16) refuse_titan("first_last_layers_bf16", "true", "false");
  if (numerics.attention_backend != AttentionBackend::fused)
    refuse_titan("attention_backend", "unfused", "fused");
  if (numerics.hidden_dropout != 0 || numerics.attention_dropout != 0)
    refuse_titan("hidden_dropout", "dropout", "0, and attention_dropout 0");
  if (config.recompute.partial() && config.recompute.method != RecomputeMethod::interval)
    refuse_titan("recompute_method", "block", "uniform or interval");
  if (config.recompute.group_size() != 1)
    refuse_titan("recompute_num_layers", fmt::format("{}", config.recompute.num_layers), "1");
  if (config.recompute.granularity == Recompute::selective && config.recompute.modules != kCoreAttention)
    refuse_titan("recompute_modules", to_string(config.recompute.modules), "core_attn");
  RunConfig unpadded = config;
  unpadded.parallel.make_vocab_size_divisible_by = 1;
  if (config.padded_vocab() != unpadded.padded_vocab())
    refuse_titan("make_vocab_size_divisible_by", "a padded vocabulary", "1");
  if (numerics.activation_func_fp8_input_store)
    refuse_titan("activation_func_fp8_input_store", "true", "false");
  if (config.optimizer.lean())
    refuse_titan("exp_avg_dtype", "lean states", "fp32, and no store_param_remainders");
  if (config.offload.params != (config.offload.optimizer_fraction > 0))
    refuse_titan("offload_params", config.offload.params ? "true" : "false",
                 "as optimizer_offload_fraction: all states or none");
  if (config.offload.on()) refuse_titan("cpu_offloading_num_layers", "layers", "0");
  if (const char* const key = megatron_switch(config)) refuse_titan(key, "it on", "it off");
  if (config.model.prediction_modules > 0) refuse_titan("mtp_num_layers", "modules", "0");
  if (config.mixture.aux_loss_coeff != 0 || config.mixture.capacity_factor != 0)
    refuse_titan("moe_aux_loss_coeff", "a loss or a capacity", "0, and no moe_expert_capacity_factor");
}

void add_titan_parallelism(const RunConfig& config, std::string& text) {
  const ParallelConfig& parallel = config.parallel;
  const int replicas = parallel.dp.optimizer_instances;
  const auto line = [&](const char* key, const auto& value) { text += fmt::format("{} = {}\n", key, value); };
  text += "\n[parallelism]\n";
  line("data_parallel_replicate_degree", replicas);
  line("data_parallel_shard_degree", parallel.data() / replicas);
  line("tensor_parallel_degree", parallel.tensor);
  if (parallel.tp.comm_overlap) line("enable_async_tensor_parallel", "true");
  line("context_parallel_degree", parallel.context);
  if (parallel.context > 1) {
    line("context_parallel_rotate_method",
         parallel.cp.comm_type == CpCommType::p2p ? "\"alltoall\"" : "\"allgather\"");
    if (!parallel.cp.load_balance) line("context_parallel_load_balancer", "\"\"");
  }
  if (config.model.mixture) {
    line("expert_parallel_degree", parallel.expert);
    if (parallel.expert > 1) line("expert_tensor_parallel_degree", parallel.effective_expert_tensor());
    if (parallel.ep.token_dispatcher == TokenDispatcher::flex)
      line("expert_parallel_comm_backend", "\"deepep\"");
  }
  line("pipeline_parallel_degree", parallel.pipeline);
  if (parallel.pipeline == 1) return;
  const int chunks = parallel.pp.schedule == "interleaved" ? std::max(2, parallel.pp.virtual_chunks)
                     : parallel.pp.schedule == "zb-v" || parallel.pp.schedule == "dualpipev" ? 2
                                                                                             : 1;
  const auto split = titan_split(parallel.pp.schedule, parallel.pipeline,
                                 layers_per_stage(config, parallel.pipeline * chunks));
  if (!split)
    refuse_titan("pipeline_schedule", parallel.pp.schedule,
                 "1f1b, gpipe, interleaved, zb-v or dualpipev, with stages of equal layers but for the ends");
  line("pipeline_parallel_schedule", fmt::format("\"{}\"", split->schedule));
  line("pipeline_parallel_microbatch_size", config.batch.micro_batch_size);
  line("pipeline_parallel_first_stage_less_layers", split->less_first);
  line("pipeline_parallel_last_stage_less_layers", split->less_last);
  if (split->layers_per_stage > 0) line("pipeline_parallel_layers_per_stage", split->layers_per_stage);
}

}  // namespace

std::string to_torchtitan(const RunConfig& config, const ExportNodes& nodes) {
  check_titan(config);
  const auto flavor = torchtitan_flavor(config.model);
  if (!flavor)
    refuse_titan("model", config.model.name, "a model of its registry, such as llama-3.1-8b or qwen3-32b");
  const bool float8 = config.numerics.fp8.on();
  const std::string& software = config.machine.software;
  const bool compiled = float8 || config.parallel.tp.comm_overlap || software != "torchtitan";
  std::string text = fmt::format(
      "# torchrun --nnodes {} --nproc-per-node {} -m torchtitan.train --job.config_file THIS_FILE\n",
      nodes.nodes, nodes.gpus);
  text += fmt::format("[model]\nname = \"{}\"\nflavor = \"{}\"\n", flavor->first, flavor->second);
  if (float8) text += "converters = [\"quantize.linear.float8\"]\n";
  const BatchConfig& batch = config.batch;
  const std::int64_t local = config.parallel.pipeline > 1 ? batch.global_batch_size / config.parallel.data()
                                                          : batch.micro_batch_size;
  text += fmt::format("\n[training]\nlocal_batch_size = {}\nglobal_batch_size = {}\nseq_len = {}\n", local,
                      batch.global_batch_size, batch.seq_length);
  text +=
      fmt::format("max_norm = {}\nmixed_precision_param = \"{}\"\nsteps = 100\n", config.optimizer.clip_grad,
                  config.numerics.precision == DType::bf16 ? "bfloat16" : "float32");
  if (config.offload.params) text += "enable_cpu_offload = true\n";
  text += fmt::format("\n[optimizer]\nname = \"AdamW\"\nlr = {}\nweight_decay = {}\n",
                      config.optimizer.learning_rate, config.optimizer.weight_decay);
  add_titan_parallelism(config, text);
  text += fmt::format("\n[compile]\nenable = {}\n", compiled);
  if (float8)
    text += fmt::format("\n[quantize.linear.float8]\nenable_fsdp_float8_all_gather = {}\n",
                        !software.starts_with("torchtitan-float8"));
  const Recompute recompute = config.recompute.granularity;
  const bool partial = config.recompute.partial();
  text += fmt::format("\n[activation_checkpoint]\nmode = \"{}\"\n", recompute == Recompute::none ? "none"
                                                                    : recompute == Recompute::full && !partial
                                                                        ? "full"
                                                                        : "selective");
  if (recompute == Recompute::selective) text += "selective_ac_option = \"op\"\n";
  if (partial) text += fmt::format("selective_ac_option = \"{}\"\n", config.recompute.num_layers);
  if (config.numerics.deterministic_mode) text += "\n[debug]\ndeterministic = true\n";
  return text;
}

}  // namespace plumbline
