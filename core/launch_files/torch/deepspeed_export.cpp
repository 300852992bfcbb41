#include "core/launch_files/torch/deepspeed_export.hpp"

#include <fmt/format.h>

#include "core/launch_files/arguments/export_checks.hpp"

namespace plumbline {
namespace {

[[noreturn]] void refuse_deepspeed(const std::string& key, const std::string& found,
                                   const std::string& expected) {
  refuse_export("DeepSpeed's keys", key, found, expected);
}

void check_deepspeed(const RunConfig& config) {
  check_exportable("DeepSpeed's keys", config);
  const ParallelConfig& parallel = config.parallel;
  const NumericsConfig& numerics = config.numerics;
  if (find_preset(config.model.name) == nullptr) refuse_deepspeed("model", config.model.name, "a preset");
  if (parallel.pipeline != 1)
    refuse_deepspeed("pipeline_model_parallel_size", fmt::format("{}", parallel.pipeline), "1");
  if (parallel.context != 1 && parallel.cp.comm_type != CpCommType::a2a)
    refuse_deepspeed("cp_comm_type", std::string(cp_comm_type_name(parallel.cp.comm_type)), "a2a");
  if (parallel.expert != 1)
    refuse_deepspeed("expert_model_parallel_size", fmt::format("{}", parallel.expert), "1");
  if (parallel.sequence_parallel && parallel.tensor > 1)
    refuse_deepspeed("sequence_parallel", "true", "false");
  if (parallel.tp.comm_overlap) refuse_deepspeed("tp_comm_overlap", "true", "false");
  if (parallel.dp.optimizer_instances != 1)
    refuse_deepspeed("num_distributed_optimizer_instances",
                     fmt::format("{}", parallel.dp.optimizer_instances), "1");
  if (numerics.fp8.on() || numerics.fp4_format != Fp4Format::none)
    refuse_deepspeed("fp8_format", "8 or 4 bits", "none");
  if (numerics.hidden_dropout != 0 || numerics.attention_dropout != 0)
    refuse_deepspeed("hidden_dropout", "dropout", "0, and attention_dropout 0");
  if (config.recompute.granularity == Recompute::selective)
    refuse_deepspeed("recompute_granularity", "selective", "none or full");
  if (config.recompute.partial()) refuse_deepspeed("recompute_method", "layers by number", "uniform");
  if (config.recompute.group_size() != 1)
    refuse_deepspeed("recompute_num_layers", fmt::format("{}", config.recompute.num_layers), "1");
  if (numerics.activation_func_fp8_input_store)
    refuse_deepspeed("activation_func_fp8_input_store", "true", "false");
  if (config.optimizer.lean())
    refuse_deepspeed("exp_avg_dtype", "lean states", "fp32, and no store_param_remainders");
  if (config.offload.on()) refuse_deepspeed("cpu_offloading_num_layers", "layers", "0");
  if (const char* const key = megatron_switch(config)) refuse_deepspeed(key, "it on", "it off");
  if (config.model.prediction_modules > 0) refuse_deepspeed("mtp_num_layers", "modules", "0");
}

const char* yes_or_no(bool value) {
  return value ? "true" : "false";
}

}  // namespace

std::string to_deepspeed(const RunConfig& config, const ExportNodes& nodes) {
  check_deepspeed(config);
  const ParallelConfig& parallel = config.parallel;
  const BatchConfig& batch = config.batch;
  const DType precision = config.numerics.precision;
  std::string text = fmt::format("# deepspeed --num_nodes {} --num_gpus {} TRAIN_PROGRAM THIS_FILE\n",
                                 nodes.nodes, nodes.gpus);
  text += fmt::format("model_name_or_path: {}\n", config.model.name);
  text += fmt::format("max_seq_length: {}\nper_device_train_batch_size: {}\n", batch.seq_length,
                      batch.micro_batch_size);
  text += fmt::format("gradient_accumulation_steps: {}\n",
                      batch.global_batch_size / (batch.micro_batch_size * parallel.data()));
  text += fmt::format("bf16: {}\nfp16: {}\n", precision == DType::bf16, precision == DType::fp16);
  text +=
      fmt::format("gradient_checkpointing: {}\n", yes_or_no(config.recompute.granularity == Recompute::full));
  text +=
      fmt::format("learning_rate: {}\nweight_decay: {}\nmax_grad_norm: {}\nmax_steps: 100\n",
                  config.optimizer.learning_rate, config.optimizer.weight_decay, config.optimizer.clip_grad);
  if (config.numerics.attention_backend == AttentionBackend::unfused) text += "flash_attn: disabled\n";
  text += "deepspeed:\n";
  text += fmt::format("  train_batch_size: {}\n  train_micro_batch_size_per_gpu: {}\n",
                      batch.global_batch_size, batch.micro_batch_size);
  text += "  gradient_accumulation_steps: auto\n  gradient_clipping: auto\n";
  if (precision != DType::fp32)
    text += fmt::format("  {}:\n    enabled: true\n", precision == DType::bf16 ? "bf16" : "fp16");
  const bool sums_in_fp32 =
      config.numerics.grad_type() == DType::fp32 &&
      (config.machine.software != "deepspeed" || precision == DType::fp32);  // predicted in the model's type
  text += fmt::format("  data_types:\n    grad_accum_dtype: {}\n", sums_in_fp32               ? "fp32"
                                                                   : precision == DType::bf16 ? "bf16"
                                                                                              : "fp16");
  if (parallel.tensor > 1) text += fmt::format("  tensor_parallel:\n    autotp_size: {}\n", parallel.tensor);
  if (parallel.context > 1) text += fmt::format("  sequence_parallel_size: {}\n", parallel.context);
  text += fmt::format("  zero_optimization:\n    stage: {}\n", parallel.dp.zero_stage);
  if (parallel.dp.bucket_size != DataParallelConfig().bucket_size)  // else DeepSpeed's own
    text += fmt::format("    reduce_bucket_size: {}\n", parallel.dp.bucket_size);
  if (const double fraction = config.offload.optimizer_fraction; fraction > 0)
    text += fmt::format("    offload_optimizer:\n      device: cpu\n      ratio: {}\n", fraction);
  if (config.offload.params) text += "    offload_param:\n      device: cpu\n";
  text += fmt::format("    overlap_comm: {}\n",
                      yes_or_no(parallel.dp.overlap_grad_reduce.value_or(parallel.dp.zero_stage == 3)));
  if (parallel.dp.hpz_partition_size > 1)
    text += fmt::format("    zero_hpz_partition_size: {}\n", parallel.dp.hpz_partition_size);
  return text;
}

}  // namespace plumbline
