#include "core/launch_files/megatron/megatron_export.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/config/layer_distribution.hpp"
#include "core/launch_files/arguments/export_checks.hpp"
#include "core/launch_files/megatron/model/megatron_model_flags.hpp"

namespace plumbline {
namespace {

void check_megatron(const RunConfig& config, const std::string& flags) {
  check_exportable(flags, config, true);
  const ParallelConfig& parallel = config.parallel;
  if (parallel.pp.schedule != "1f1b" && parallel.pp.schedule != "interleaved")
    refuse_export(flags, "pipeline_schedule", parallel.pp.schedule, "1f1b or interleaved");
  // Megatron-Core's schedule without chunks has no such receives.
  if (parallel.pipeline > 1 && parallel.pp.schedule == "1f1b" && parallel.pp.overlap_p2p_comm.value_or(false))
    refuse_export(flags, "overlap_p2p_comm", "true with 1f1b", "false, or pipeline_schedule: interleaved");
  if (config.numerics.activation_func_fp8_input_store)
    refuse_export(flags, "activation_func_fp8_input_store", "true", "false, or megatron-bridge");
  if (config.numerics.fp8.transposes_again)
    refuse_export(flags, "disable_parameter_transpose_cache", "true", "false, or megatron-bridge");
  if (config.numerics.fp8_dot_product_attention)
    refuse_export(flags, "fp8_dot_product_attention", "true", "false, or megatron-bridge");
  if (config.prediction.keep_in_bf16) refuse_export(flags, "keep_mtp_spec_in_bf16", "true", "false");
  if (config.recompute.partial() && config.recompute.method != RecomputeMethod::block)
    refuse_export(flags, "recompute_method", "interval", "uniform or block");
  if (parallel.dp.zero_stage == 2) refuse_export(flags, "zero_stage", "2", "0, 1 or 3");
  if (parallel.dp.hpz_partition_size != 1)
    refuse_export(flags, "zero_hpz_partition_size", "a partition", "1");
}

/// Flags in the order in which they are printed.
class FlagList {
 public:
  void flag(std::string name) { flags_.push_back(std::move(name)); }
  template <class T>
  void value(std::string_view name, const T& value) {
    flags_.push_back(fmt::format("{} {}", name, value));
  }
  void flag_if(bool given, std::string name) {
    if (given) flag(std::move(name));
  }
  template <class T>
  void value_unless(std::string_view name, const T& value, const T& otherwise) {
    if (value != otherwise) this->value(name, value);
  }
  std::vector<std::string> take() { return std::move(flags_); }

 private:
  std::vector<std::string> flags_;
};

void add_sizes(const RunConfig& config, FlagList& flags) {
  const ParallelConfig& parallel = config.parallel;
  flags.value("--seq-length", config.batch.seq_length);
  flags.value("--micro-batch-size", config.batch.micro_batch_size);
  flags.value("--global-batch-size", config.batch.global_batch_size);
  flags.value("--tensor-model-parallel-size", parallel.tensor);
  flags.value("--pipeline-model-parallel-size", parallel.pipeline);
  flags.value_unless("--context-parallel-size", parallel.context, 1);
  if (parallel.context > 1) flags.value("--cp-comm-type", cp_comm_type_name(parallel.cp.comm_type));
  if (parallel.cp.hierarchical.given()) {
    flags.value("--hierarchical-context-parallel-sizes",
                fmt::format("{} {}", parallel.cp.hierarchical.heads, parallel.cp.hierarchical.ring));
  }
  flags.value_unless("--expert-model-parallel-size", parallel.expert, 1);
  flags.value_unless("--expert-tensor-parallel-size", parallel.expert_tensor, 0);
  flags.flag_if(parallel.sequence_parallel, "--sequence-parallel");
  flags.flag_if(parallel.tp.comm_overlap, "--tp-comm-overlap");
  flags.value("--make-vocab-size-divisible-by", parallel.make_vocab_size_divisible_by);
}

void add_pipeline(const RunConfig& config, FlagList& flags) {
  const ParallelConfig& parallel = config.parallel;
  const bool interleaved = parallel.pp.schedule == "interleaved";
  const int chunks = interleaved ? std::max(2, parallel.pp.virtual_chunks) : 1;
  const int stages = parallel.pipeline * chunks;
  flags.flag_if(parallel.pp.overlap_p2p_comm == std::optional<bool>(false), "--no-overlap-p2p-communication");
  flags.flag_if(parallel.pp.defer_embedding_wgrad_compute, "--defer-embedding-wgrad-compute");
  if (parallel.pp.defer_embedding_wgrad_compute)
    flags.value("--wgrad-deferral-limit", parallel.pp.wgrad_deferral_limit);
  if (parallel.pipeline == 1) return;
  if (parallel.pp.layer_distribution == "even" && config.model.layers % stages == 0) {
    if (chunks > 1) flags.value("--num-virtual-stages-per-pipeline-rank", chunks);
    return;
  }
  std::vector<std::string> layout;
  for (const int layers : layers_per_stage(config, stages))
    layout.push_back(layers == 0 ? "" : fmt::format("t*{}", layers));
  layout.front() = "E" + layout.front();
  if (config.model.prediction_modules > 0)
    layout.back() += fmt::format("m*{}", config.model.prediction_modules);
  layout.back() += "L";
  flags.value("--pipeline-model-parallel-layout", fmt::format("\"{}\"", fmt::join(layout, "|")));
}

void add_sharding(const RunConfig& config, FlagList& flags) {
  const ParallelConfig& parallel = config.parallel;
  if (parallel.dp.zero_stage == 1) flags.flag("--use-distributed-optimizer");
  if (parallel.dp.zero_stage > 1) {
    flags.flag("--use-megatron-fsdp");
    flags.flag("--data-parallel-sharding-strategy optim_grads_params");
    flags.flag("--ckpt-format fsdp_dtensor");
    flags.flag_if(parallel.dp.fsdp_double_buffer, "--fsdp-double-buffer");
  }
  flags.value_unless("--num-distributed-optimizer-instances", parallel.dp.optimizer_instances, 1);
  flags.flag_if(parallel.dp.overlap_grad_reduce.value_or(true), "--overlap-grad-reduce");
  flags.flag_if(parallel.dp.zero_stage > 0 && parallel.dp.overlap_param_gather.value_or(false),
                "--overlap-param-gather");
  flags.flag_if(!parallel.dp.align_param_gather, "--no-align-param-gather");
  flags.flag_if(parallel.dp.gather_with_update, "--overlap-param-gather-with-optimizer-step");
  if (parallel.dp.bucket_size != DataParallelConfig().bucket_size)  // else each software's own
    flags.value("--ddp-bucket-size", parallel.dp.bucket_size);
}

void add_numerics(const RunConfig& config, FlagList& flags) {
  const NumericsConfig& numerics = config.numerics;
  const bool bf16 = numerics.precision == DType::bf16;
  const bool fp16 = numerics.precision == DType::fp16;
  flags.flag_if(bf16, "--bf16");
  flags.flag_if(fp16, "--fp16");
  flags.flag_if(bf16 && numerics.grad_dtype == GradDType::same, "--grad-reduce-in-bf16");
  flags.flag_if(fp16 && numerics.grad_dtype == GradDType::fp32, "--accumulate-allreduce-grads-in-fp32");
  if (fp16 && numerics.loss_scale.constant) flags.value("--loss-scale", *numerics.loss_scale.constant);
  const LossScaleConfig plain;
  flags.value_unless("--initial-loss-scale", numerics.loss_scale.initial, plain.initial);
  flags.value_unless("--min-loss-scale", numerics.loss_scale.least, plain.least);
  flags.value_unless("--loss-scale-window", numerics.loss_scale.window, plain.window);
  flags.value_unless("--hysteresis", numerics.loss_scale.hysteresis, plain.hysteresis);
  if (numerics.fp8.on()) {
    constexpr const char* kRecipes[] = {"delayed", "tensorwise", "blockwise", "mxfp8"};
    flags.value("--fp8-format", numerics.fp8.format == Fp8Format::e4m3 ? "e4m3" : "hybrid");
    flags.value("--fp8-recipe", kRecipes[static_cast<int>(numerics.fp8.recipe)]);
    flags.value_unless("--fp8-margin", numerics.fp8.margin, 0);
    if (numerics.fp8.recipe == Fp8Recipe::delayed)
      flags.value("--fp8-amax-history-len", numerics.fp8.amax_history_len);
    flags.flag_if(numerics.fp8.param_gather, "--fp8-param-gather");
  }
  flags.flag_if(numerics.fp4_format == Fp4Format::e2m1, "--fp4-format e2m1");
  if (numerics.first_last_layers_bf16) {
    flags.flag("--first-last-layers-bf16");
    flags.value_unless("--num-layers-at-start-in-bf16", numerics.num_layers_at_start_in_bf16,
                       std::int64_t{1});
    flags.value_unless("--num-layers-at-end-in-bf16", numerics.num_layers_at_end_in_bf16, std::int64_t{1});
  }
  flags.value("--attention-backend",
              numerics.attention_backend == AttentionBackend::fused ? "fused" : "unfused");
  flags.value("--hidden-dropout", numerics.hidden_dropout);
  flags.value("--attention-dropout", numerics.attention_dropout);
  flags.flag_if(numerics.cross_entropy_loss_fusion, "--cross-entropy-loss-fusion");
  flags.flag_if(numerics.deterministic_mode, "--deterministic-mode");
}

void add_muon(const OptimizerConfig& optimizer, FlagList& flags) {
  if (!optimizer.muons()) return;
  constexpr const char* kScales[] = {"spectral", "unit_rms_norm", "shape_scaling"};
  const MuonConfig& muon = optimizer.muon;
  flags.flag("--optimizer muon");
  flags.value("--muon-momentum", muon.momentum);
  flags.flag_if(muon.nesterov, "--muon-nesterov");
  flags.value("--muon-scale-mode", kScales[static_cast<int>(muon.scale_mode)]);
  flags.value("--muon-extra-scale-factor", muon.extra_scale_factor);
  flags.value("--muon-num-ns-steps", muon.num_ns_steps);
  flags.value("--muon-coefficient-type",
              muon.coefficient_type == MuonCoefficients::simple ? "simple" : "quintic");
  flags.value("--muon-tp-mode", muon.tp_mode == MuonTensorMode::blockwise ? "blockwise" : "duplicated");
  flags.flag_if(!muon.split_qkv, "--muon-no-split-qkv");
}

void add_lean_states(const RunConfig& config, const std::string& of, FlagList& flags) {
  const OptimizerConfig& optimizer = config.optimizer;
  if (config.offload.params) refuse_export(of, "offload_params", "true", "false");
  if (config.offload.optimizer_fraction > 0) {
    flags.flag("--use-precision-aware-optimizer");
    flags.flag("--optimizer-cpu-offload");
    flags.value("--optimizer-offload-fraction", config.offload.optimizer_fraction);
  }
  if (!optimizer.lean()) return;
  const bool remainders = keeps_remainders(config.numerics);
  if (optimizer.store_param_remainders != remainders)
    refuse_export(of, "store_param_remainders", optimizer.store_param_remainders ? "true" : "false",
                  fmt::format("{} with these types", remainders));
  flags.flag("--use-precision-aware-optimizer");
  flags.value("--exp-avg-dtype", moment_dtype_name(optimizer.exp_avg_dtype));
  flags.value("--exp-avg-sq-dtype", moment_dtype_name(optimizer.exp_avg_sq_dtype));
}

void add_recomputation(const RunConfig& config, FlagList& flags) {
  const RecomputeConfig& recompute = config.recompute;
  if (recompute.granularity == Recompute::full) {
    flags.flag(fmt::format("--recompute-granularity full --recompute-method {}",
                           recompute.partial() ? "block" : "uniform"));
    flags.value("--recompute-num-layers", recompute.num_layers);
  }
  if (recompute.granularity == Recompute::selective) {
    flags.flag("--recompute-granularity selective");
    std::string modules = to_string(recompute.modules);
    std::replace(modules.begin(), modules.end(), ',', ' ');
    flags.value("--recompute-modules", modules);
  }
  flags.value_unless("--cpu-offloading-num-layers", config.offload.num_layers, std::int64_t{0});
  if (config.offload.modules.any()) {
    flags.flag("--fine-grained-activation-offloading");
    std::string modules = to_string(config.offload.modules);
    std::replace(modules.begin(), modules.end(), ',', ' ');
    flags.value("--offload-modules", modules);
  }
  if (config.machine.cuda_graph_impl != CudaGraphImpl::none) {
    flags.value("--cuda-graph-impl", cuda_graph_impl_name(config.machine.cuda_graph_impl));
    std::string modules = config.machine.cuda_graph_modules;
    std::replace(modules.begin(), modules.end(), ',', ' ');
    if (modules != "all") flags.value("--cuda-graph-modules", modules);
  }
}

void add_experts(const RunConfig& config, FlagList& flags) {
  if (!config.model.mixture) return;
  const MixtureConfig& mixture = config.mixture;
  constexpr const char* kBalancing[] = {"aux_loss", "seq_aux_loss", "global_aux_loss"};
  const TokenDispatcher dispatcher = config.parallel.ep.token_dispatcher;
  flags.value("--moe-token-dispatcher-type",
              dispatcher == TokenDispatcher::automatic ? "alltoall" : token_dispatcher_name(dispatcher));
  flags.flag("--moe-grouped-gemm");
  flags.value("--moe-router-load-balancing-type", kBalancing[static_cast<int>(mixture.load_balancing)]);
  flags.value("--moe-aux-loss-coeff", mixture.aux_loss_coeff);
  flags.value_unless("--moe-z-loss-coeff", mixture.z_loss_coeff, 0.0);
  if (config.model.mixture.expert_bias)
    flags.value("--moe-router-bias-update-rate", mixture.bias_update_rate);
  flags.value_unless("--moe-expert-capacity-factor", mixture.capacity_factor, 0.0);
  flags.flag_if(mixture.pad_to_capacity, "--moe-pad-expert-input-to-capacity");
  flags.flag_if(mixture.drop_policy == TokenDropPolicy::position, "--moe-token-drop-policy position");
  flags.value_unless("--moe-expert-rank-capacity-factor", config.mixture.rank_capacity_factor, 0.0);
  flags.flag_if(config.mixture.paged_stash, "--moe-paged-stash");
  if (config.mixture.paged_stash)
    flags.value("--moe-paged-stash-buffer-size-factor-cuda", config.mixture.stash_factor);
  flags.flag_if(config.parallel.ep.overlap_comm, "--overlap-moe-expert-parallel-comm");
  flags.flag_if(config.parallel.ep.delay_wgrad_compute, "--delay-wgrad-compute");
  flags.flag_if(config.parallel.ep.shared_expert_overlap, "--moe-shared-expert-overlap");
}

}  // namespace

bool keeps_remainders(const NumericsConfig& numerics) {
  return numerics.precision == DType::bf16 &&
         (!numerics.fp8.on() || numerics.fp8.recipe == Fp8Recipe::delayed);
}

std::vector<std::string> megatron_flag_lines(const RunConfig& config, const std::string& of) {
  check_megatron(config, of);
  FlagList flags;
  for (std::string& flag : megatron_model_flags(config.model, of)) flags.flag(std::move(flag));
  if (config.model.prediction_modules > 0) {
    flags.value("--mtp-num-layers", config.model.prediction_modules);
    flags.value("--mtp-loss-scaling-factor", config.prediction.loss_scaling_factor);
    flags.flag_if(config.prediction.repeated, "--mtp-use-repeated-layer");
  }
  add_sizes(config, flags);
  add_pipeline(config, flags);
  add_sharding(config, flags);
  add_numerics(config, flags);
  add_recomputation(config, flags);
  add_experts(config, flags);
  flags.value("--lr", config.optimizer.learning_rate);
  flags.value("--weight-decay", config.optimizer.weight_decay);
  flags.value("--clip-grad", config.optimizer.clip_grad);
  add_muon(config.optimizer, flags);
  add_lean_states(config, of, flags);
  return flags.take();
}

std::string to_megatron_lm(const RunConfig& config, const ExportNodes& nodes) {
  const std::vector<std::string> flags = megatron_flag_lines(config, "Megatron-LM's flags");
  std::string text =
      fmt::format("torchrun --nnodes {} --nproc-per-node {} pretrain_gpt.py", nodes.nodes, nodes.gpus);
  for (const std::string& flag : flags) text += " \\\n    " + flag;
  return text + " \\\n    --train-iters 100 --mock-data --split 99,1,0\n";
}

}  // namespace plumbline
