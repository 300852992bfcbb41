#include "analysis/step/common_shape.hpp"

#include <algorithm>
#include <string>

#include "analysis/hardware/hardware.hpp"
#include "analysis/step/software_of.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

StreamShape stream_of(const RunConfig& config) {
  StreamShape stream;
  stream.batch = config.batch.micro_batch_size;
  stream.seq = config.batch.seq_length;
  stream.tokens = stream.batch * stream.seq / config.parallel.context;
  stream.rows =
      config.parallel.effective_sequence_parallel() ? stream.tokens / config.parallel.tensor : stream.tokens;
  stream.hidden = config.model.hidden;
  return stream;
}

AttentionWidths attention_of(const RunConfig& config) {
  const ModelConfig& model = config.model;
  const int t = config.parallel.tensor;
  AttentionWidths attention;
  attention.head_dim = model.head_dim;
  attention.heads = model.heads / t;
  attention.kv_heads = std::max<std::int64_t>(1, model.kv_heads / t);
  attention.q = attention.heads * attention.head_dim;
  attention.k = attention.kv_heads * attention.head_dim;
  attention.rotary = model.position.kind == Positions::rotary;
  attention.rotated = attention.rotary ? model.rotated() : 0;
  attention.query_rank = model.latent.query_rank;
  attention.kv_rank = model.latent.kv_rank;
  attention.value_dim = model.latent.value_dim;
  attention.qk_norm = model.norms.qk;
  attention.wide_norms = model.norms.qk && model.predicted.query_norm == QueryNorm::width;
  attention.qkv_bias = model.biases.qkv;
  attention.prefix = config.batch.prefix_length;
  attention.shared_kv = model.kv_heads < t;
  attention.unfused = config.numerics.attention_backend == AttentionBackend::unfused;
  attention.dropout = config.numerics.attention_dropout > 0;
  const PackedAttention& packed = config.batch.packed;
  attention.share = packed.slowest;
  attention.packed = packed.lengths;
  for (PackedLength& length : attention.packed) length.count *= packed.slowest * packed.waiting / packed.mean;
  attention.rings = packed.rings;
  return attention;
}

MixerShape mixer_of(const RunConfig& config) {
  MixerShape mixer;
  mixer.mamba = config.model.hybrid.mamba;
  mixer.mamba.heads /= config.parallel.tensor;
  mixer.mamba.groups = std::max<std::int64_t>(1, mixer.mamba.groups / config.parallel.tensor);
  return mixer;
}

BlockShape block_of(const RunConfig& config) {
  BlockShape block;
  block.order = config.model.block;
  block.norms_inputs = config.model.predicted.norms != NormPlaces::after;
  block.norms_results = config.model.predicted.norms != NormPlaces::before;
  block.layer_norm = config.model.norms.kind == Norm::layer;
  block.norm_rows = block.layer_norm ? 2 : 1;
  block.norm_vectors = config.model.norm_vectors();
  block.normed_residual = config.model.norms.residual != 0;
  block.scaled_scores = config.model.multipliers.attention != 1;
  block.scaled_residual = config.model.multipliers.residual != 1;
  block.linear_bias = config.model.biases.linear;
  block.dropout = config.numerics.hidden_dropout > 0;
  return block;
}

FeedForwardShape feed_forward_of(const RunConfig& config) {
  FeedForwardShape mlp;
  mlp.ffn = config.model.ffn / config.parallel.tensor;
  mlp.swiglu = is_gated(config.model.activation);
  mlp.fc1 = mlp.swiglu ? 2 * mlp.ffn : mlp.ffn;
  return mlp;
}

PredictedShape predicted_of(const ModelConfig& model, const AttentionWidths& attention) {
  PredictedShape predicted;
  predicted.projection_bias = model.has_projection_bias();
  predicted.feed_forward_bias = model.has_feed_forward_bias();
  predicted.router_bias = model.predicted.router_bias;
  if (model.predicted.norms == NormPlaces::both) predicted.more_norms = 2;
  predicted.query_norms = model.query_norm_weights();
  if (attention.wide_norms) predicted.query_norms = attention.q + attention.k;
  if (model.predicted.sinks) predicted.vectors = attention.heads;
  predicted.scalars = model.predicted.scalars;
  return predicted;
}

/// FP8 products need a multiple of this many rows per expert (bench/training/fp8.md).
constexpr std::int64_t kFp8Rows = 16;

/// Rows of the first `experts` of a layer, with choices spread evenly over all and the remainder on the first
/// ones.
std::int64_t even_rows(const MixtureShape& moe, std::int64_t choices, std::int64_t experts) {
  const std::int64_t each = choices / moe.experts;
  const std::int64_t more = std::min(choices % moe.experts, experts);
  return more * moe.rows_of_expert(each + 1) + (experts - more) * moe.rows_of_expert(each);
}

MixtureShape mixture_of(const RunConfig& config, std::int64_t tokens, std::int64_t row_multiple) {
  const Mixture& mixture = config.model.mixture;
  const int t = config.parallel.tensor;
  MixtureShape moe;
  moe.experts = mixture.experts;
  moe.choices = tokens * mixture.top_k;
  moe.capacity = config.expert_capacity();
  moe.padded = config.mixture.pad_to_capacity;
  moe.row_multiple = mixture ? row_multiple : 1;
  if (mixture) moe.choice_rows = even_rows(moe, moe.choices, moe.experts);
  moe.shared = mixture.shared / t;
  moe.shared_gated = mixture.shared_gated;
  moe.dense_ffn = mixture.dense_ffn / t;
  moe.latent = mixture.latent;
  moe.expert_bias = mixture.expert_bias;
  return moe;
}

ContextShape context_of(const RunConfig& config) {
  ContextShape cp;
  cp.ranks = config.parallel.context;
  cp.comm_type = config.parallel.cp.comm_type;
  cp.head_ranks = config.parallel.head_ranks();
  cp.load_balance = config.parallel.cp.load_balance;
  cp.dynamic = config.batch.dynamic_context_parallel;
  return cp;
}

EndsShape ends_of(const RunConfig& config) {
  const ModelConfig& model = config.model;
  EndsShape ends;
  ends.vocab = config.padded_vocab() / config.parallel.tensor;
  ends.scalar_head = model.embedding.scalar_head;
  ends.outputs = ends.scalar_head ? 1 : ends.vocab;
  ends.positions = model.position_rows();
  ends.block_positions = model.position.of_blocks;
  ends.embedding_norm = model.embedding.norm;
  ends.scaled_embedding = model.embedding.scale != 1;
  ends.scaled_logits = model.multipliers.logits != 1;
  ends.tied = model.embedding.tied;
  ends.output_bias = model.biases.output;
  ends.normed_output = model.norms.output_rows;
  ends.loss_in_fp32 = config.numerics.loss_in_fp32();
  return ends;
}

NumericsShape numerics_of(const RunConfig& config) {
  const auto& fp8 = config.numerics.fp8;
  NumericsShape numerics;
  numerics.type = config.numerics.precision;
  numerics.grad_type = config.numerics.grad_type();
  numerics.sums_in_fp32 = config.parallel.tp.reduce_in_fp32;
  numerics.fp8 = fp8.on();
  numerics.fp8_tensorwise = fp8.on() && fp8.recipe == Fp8Recipe::tensorwise;
  numerics.fp8_history = fp8.on() && !numerics.fp8_tensorwise ? fp8.amax_history_len : 0;
  if (fp8.on()) numerics.fp8_recipe = fp8.recipe;
  numerics.fp8_weights = fp8.on() && fp8.param_gather;
  numerics.cuda = config.machine.backend == Backend::cuda;
  numerics.deterministic = config.numerics.deterministic_mode;
  return numerics;
}

ShardingShape sharding_of(const ParallelConfig& parallel) {
  ShardingShape sharding;
  sharding.tensor = parallel.tensor;
  sharding.sequence_parallel = parallel.effective_sequence_parallel();
  sharding.data = parallel.copies();
  sharding.zero = parallel.effective_zero_stage();
  sharding.state_shards = parallel.state_shards();
  sharding.optimizer_instances = parallel.dp.optimizer_instances;
  return sharding;
}

RecomputationShape recomputation_of(const RunConfig& config) {
  RecomputationShape recomputation;
  recomputation.granularity = config.recompute.granularity;
  recomputation.layers = std::max<std::int64_t>(1, config.recompute.group_size());
  // "block" leaves them out (megatron/core/transformer/multi_token_prediction.py@d98e8a64, recompute_method).
  recomputation.keeps_modules = config.recompute.partial();
  recomputation.modules = config.recompute.selected();
  return recomputation;
}

/// Expert-parallel sharding of an MoE layer in a framework that spreads experts over ranks.
void spread_experts(const RunConfig& config, const Software& framework, StageShape& shape) {
  if (const auto reason = why_model_unlisted(config, framework)) throw InputError(*reason);
  const Mixture& mixture = config.model.mixture;
  if (!mixture) return;
  ExpertShape& expert = shape.expert;
  const ParallelConfig& parallel = config.parallel;
  expert.ranks = parallel.expert;
  expert.tensor = parallel.effective_expert_tensor();
  expert.copies = parallel.expert_copies();
  expert.sharded = (parallel.dp.zero_stage >= 1 || framework.communication.sharded) && expert.copies > 1;
  if (expert.sharded) expert.state_shards = expert.copies / parallel.dp.optimizer_instances;
  expert.local = mixture.experts / expert.ranks;
  expert.sent = shape.stream.tokens / shape.sharding.tensor;
  expert.chosen = mixture.top_k;
  expert.rows = expert.sent * expert.chosen * expert.tensor;
  if (mixture.groups > 1) expert.most_nodes = mixture.chosen_groups;
  expert.ffn = config.model.ffn / expert.tensor;
  expert.fc1 = shape.mlp.swiglu ? 2 * expert.ffn : expert.ffn;
  expert.overlapped = parallel.ep.overlap_comm && expert.ranks > 1;
  if (const MixtureConfig& keys = config.mixture; keys.rank_capacity_factor > 0) {
    expert.room = std::max(1.0, keys.rank_capacity_factor);
    expert.kept = keys.paged_stash ? std::max(1.0, keys.stash_factor) : expert.room;
  }
  expert.dispatcher = parallel.ep.token_dispatcher;
  if (expert.dispatcher == TokenDispatcher::automatic) {
    expert.dispatcher = framework.mixtures.flex_dispatch       ? TokenDispatcher::flex
                        : framework.mixtures.alltoall_dispatch ? TokenDispatcher::alltoall
                                                               : TokenDispatcher::allgather;
  }
}

/// Expert-parallel sharding of plumbline's own step. Every rank's rows are spread as evenly as possible over
/// experts; the first ones take the remainder.
void spread_own_experts(const RunConfig& config, StageShape& shape) {
  if (!config.spreads_experts()) return;
  ExpertShape& expert = shape.expert;
  expert.ranks = config.parallel.expert;
  expert.folded = config.parallel.folds_experts();
  expert.tensor = config.parallel.effective_expert_tensor();
  expert.copies = config.parallel.expert_copies() / config.parallel.dp.optimizer_instances;
  expert.group = expert.folded ? expert.ranks * expert.tensor : expert.ranks;
  expert.sharded = shape.sharding.zero >= 1 && expert.copies > 1;
  expert.local = shape.moe.experts / expert.ranks;
  expert.sent = expert.folded ? shape.stream.rows : shape.stream.tokens;
  expert.chosen = config.model.mixture.top_k;
  shape.moe.choice_rows = even_rows(shape.moe, expert.sent * expert.chosen, shape.moe.experts);
  expert.rows = expert.group * even_rows(shape.moe, expert.sent * expert.chosen, expert.local);
  shape.mlp.fc1 = shape.mlp.fc1 / shape.mlp.ffn * (config.model.ffn / expert.tensor);
  shape.mlp.ffn = config.model.ffn / expert.tensor;
  expert.ffn = shape.mlp.ffn;
  expert.fc1 = shape.mlp.fc1;
  const bool gathers = config.parallel.ep.token_dispatcher == TokenDispatcher::allgather;
  expert.dispatcher = gathers ? TokenDispatcher::allgather : TokenDispatcher::alltoall;
}

/// Forms of an operand that FP8 products need, whatever the keys say. Hopper's FP8 products are TN only (rows
/// by rows). So are those of MXFP8 devices if an operand's block scales do not run along it (Transformer
/// Engine, is_non_tn_fp8_gemm_supported).
int fp8_forms(const MachineConfig& machine, Fp8Recipe recipe) {
  const HardwareProfile* hardware = find_hardware_preset(machine.hardware);
  const bool one_scale = recipe == Fp8Recipe::delayed || recipe == Fp8Recipe::tensorwise;
  return one_scale && hardware != nullptr && hardware->accelerator()->constants.device.peak_mx8 > 0 ? 1 : 2;
}

Graphs graphs_of(const RunConfig& config) {
  const MachineConfig& machine = config.machine;
  if (machine.cuda_graph_impl == CudaGraphImpl::none) return {};
  if (machine.cuda_graph_impl == CudaGraphImpl::full_iteration) return {1, 1, true, true, 1};
  const std::string modules = "," + machine.cuda_graph_modules + ",";
  const bool all = machine.cuda_graph_modules == "all";
  const auto has = [&](const char* name) { return all || modules.find(name) != std::string::npos; };
  const double attention = has(",attn,") ? 1 : 0;
  const double mamba = has(",mamba,") ? 1 : 0;
  // A graph of a whole layer has its experts if they have as many rows in every step (Megatron-Core 0.16,
  // transformer_config.py, cuda_graph_scope).
  if (config.model.mixture)
    return {attention, has(",moe_router,") ? 1.0 : 0, false, all && config.mixture.pad_to_capacity, mamba};
  const double mlp = has(",mlp,") ? 1 : 0;
  // About half of a layer's launches each; in a hybrid model they are layers of their own.
  if (config.model.hybrid) return {attention, mlp, false, false, mamba};
  return {(attention + mlp) / 2, 0};
}

void set_optimizer(const RunConfig& config, OptimizerShape& optimizer) {
  const MuonConfig& muon = config.optimizer.muon;
  optimizer.kind = config.optimizer.kind;
  optimizer.momentum = config.optimizer.sgd_momentum > 0;
  optimizer.split_qkv = muon.split_qkv;
  optimizer.gathers_blocks = config.parallel.tensor > 1 && muon.tp_mode == MuonTensorMode::duplicated;
  optimizer.newton_schulz_steps = muon.num_ns_steps;
}

/// The rest of plumbline's own step, and its overlap where the configuration is silent.
void set_own_step(const RunConfig& config, StageShape& shape) {
  const ParallelConfig& parallel = config.parallel;
  shape.moe = mixture_of(config, shape.stream.tokens, config.numerics.fp8.on() ? kFp8Rows : 1);
  shape.moe.global_balance = config.model.mixture && config.mixture.balances_globally();
  shape.moe.context_balance = config.model.mixture && parallel.context > 1 &&
                              config.mixture.aux_loss_coeff != 0 &&
                              config.mixture.load_balancing == LoadBalancing::aux_loss;
  shape.sharding.secondary_shards = parallel.dp.hpz_partition_size;
  shape.recomputation.offloaded = config.offload.num_layers;
  shape.overlap.grad_reduce = parallel.dp.overlap_grad_reduce.value_or(true);
  shape.overlap.param_gather = parallel.dp.overlap_param_gather.value_or(shape.sharding.zero == 3);
  shape.overlap.receives_ahead = parallel.effective_overlap_p2p_comm();
  shape.overlap.pairs = parallel.ep.overlap_comm;
  shape.overlap.shared_expert = parallel.ep.shared_expert_overlap;
  set_optimizer(config, shape.numerics.optimizer);
  spread_own_experts(config, shape);
}

/// int8: with an fp32 scale per 256 elements (bitsandbytes-foundation/bitsandbytes@95f9af30
/// optim/optimizer.py, init_state; pytorch/ao's AdamW8bit alike).
double bytes_of(MomentDType type) {
  constexpr double kBytes[] = {4, 2, 2, 1, 1 + 4.0 / 256};
  return kBytes[static_cast<std::size_t>(type)];
}

/// Adam's states in fewer bytes than fp32 (NVIDIA/Megatron-LM@d98e8a64 megatron/core/optimizer/__init__.py).
/// Remainders are Transformer Engine's FusedAdam's own: it writes the 16-bit weight itself, where a pass
/// copies master weights back (4 + 2), and takes a 16-bit gradient as it is, where one copies it to fp32
/// (2 + 4).
void set_lean_states(const OptimizerConfig& optimizer, const Software& framework, NumericsShape& numerics) {
  if (!optimizer.lean()) return;
  const double whole = std::min(8.0, framework.memory.optimizer_state_bytes);  // torchtune's: bf16
  const double moments = whole - bytes_of(optimizer.exp_avg_dtype) - bytes_of(optimizer.exp_avg_sq_dtype);
  numerics.optimizer.blockwise_states = optimizer.blockwise();
  numerics.optimizer.state_bytes_less = moments + (optimizer.store_param_remainders ? 2 : 0);
  numerics.optimizer.update_bytes_less = 2 * moments;
  if (optimizer.store_param_remainders)
    numerics.optimizer.update_bytes_less += 6 + (numerics.grad_type == DType::fp32 ? 0 : 6);
}

/// DeepSpeed copies the gradients of a rank's shard during backwards
/// (deepspeed/runtime/zero/stage_1_and_2.py@edaa7221, async_accumulate_grad_in_cpu_via_gpu), and so does FSDP
/// (CPUOffloadPolicy of PyTorch's fully_shard); Megatron-Core's stay in their buffer
/// (megatron/core/optimizer/cpu_offloading/hybrid_optimizer.py@d98e8a64).
HostStatesShape host_states_of(const RunConfig& config, const Software& framework) {
  HostStatesShape host;
  host.optimizer = config.offload.optimizer_fraction;
  host.parameters = config.offload.params;
  const bool leave =
      host.parameters || (!framework.communication.buckets() && config.parallel.dp.zero_stage >= 2);
  if (leave) host.gradients = host.optimizer;
  return host;
}

/// The same of a framework's step.
void set_framework(const RunConfig& config, const Software& framework, StageShape& shape) {
  shape.moe = mixture_of(config, shape.stream.tokens, 1);
  shape.attention.unfused = shape.attention.unfused || !framework.kernels.flash_attention;
  shape.block.dropout = shape.block.dropout || framework.kernels.dropout;
  shape.attention.dropout =
      shape.attention.dropout || (framework.kernels.dropout && framework.kernels.attention_dropout);
  shape.numerics.framework_fp8 = shape.numerics.fp8 || framework.fp8.always;
  // Megatron's switch: DeepSpeed, which alone has step_bytes, trains Hugging Face's models.
  shape.numerics.fp8_activation_input =
      config.numerics.activation_func_fp8_input_store && framework.memory.step_bytes == 0;
  if (shape.numerics.fp8 && framework.fp8.param_gather && shape.numerics.fp8_recipe != Fp8Recipe::blockwise)
    shape.numerics.fp8_weights = true;
  // A layer stays where it is if it is the stage's last, whose backward comes next.
  shape.recomputation.offloads = config.offload.modules;
  shape.recomputation.offloaded =
      config.offload.modules.any() ? config.model.layers : config.offload.num_layers;
  shape.host_states = host_states_of(config, framework);
  shape.graphs = graphs_of(config);
  if (shape.numerics.fp8) shape.numerics.fp8_forms = fp8_forms(config.machine, shape.numerics.fp8_recipe);
  shape.numerics.held_forms = config.numerics.fp8.transposes_again ? 1 : shape.numerics.fp8_forms;
  if (config.numerics.fp4_format != Fp4Format::none) {
    shape.numerics.fp4 = shape.numerics.framework_fp8 = true;
    shape.numerics.operand_bytes = 0.5 + 1.0 / 16;
  }
  shape.attention.fp8 = config.numerics.fp8_dot_product_attention && shape.numerics.framework_fp8;
  shape.numerics.fp8 = shape.numerics.fp8_tensorwise = false;
  shape.numerics.fp8_history = 0;
  if (framework.memory.gradient_bytes_in(shape.numerics.type == DType::bf16) <= 2)
    shape.numerics.grad_type = shape.numerics.type;
  set_optimizer(config, shape.numerics.optimizer);
  set_lean_states(config.optimizer, framework, shape.numerics);
  // Megatron-FSDP may leave parameters whole (data_parallel_sharding_strategy optim_grads).
  const bool whole = framework.communication.buckets() && config.parallel.dp.zero_stage == 2;
  if (framework.communication.sharded) shape.sharding.zero = whole ? 2 : 3;
  shape.sharding.double_buffers = config.parallel.dp.fsdp_double_buffer;
  if (shape.sharding.data == 1) shape.sharding.zero = 0;
  const int zero = shape.sharding.zero;
  shape.overlap.grad_reduce = config.parallel.dp.overlap_grad_reduce.value_or(
      zero >= 2 || framework.communication.overlapped_reduction);
  shape.overlap.param_gather = config.parallel.dp.overlap_param_gather.value_or(
      zero == 3 || framework.communication.overlapped_gather);
  shape.overlap.interleaved = config.parallel.pp.schedule == "interleaved";
  shape.overlap.aligned_gathers = config.parallel.dp.align_param_gather;
  shape.overlap.gathers_in_update = config.parallel.dp.gather_with_update && shape.overlap.interleaved &&
                                    zero == 1 && shape.overlap.param_gather;
  shape.overlap.shared_expert = config.parallel.ep.shared_expert_overlap;
  shape.overlap.delayed_weights = config.parallel.ep.delay_wgrad_compute;
  shape.overlap.bucket_elements = framework.communication.bucket_elements;
  spread_experts(config, framework, shape);
}

}  // namespace

StageShape common_shape(const RunConfig& config, const Software& software) {
  StageShape shape;
  shape.software = &software;
  shape.traits = traits_of(software);
  shape.stream = stream_of(config);
  shape.attention = attention_of(config);
  shape.mixer = mixer_of(config);
  shape.block = block_of(config);
  shape.mlp = feed_forward_of(config);
  shape.predicted = predicted_of(config.model, shape.attention);
  shape.cp = context_of(config);
  shape.ends = ends_of(config);
  shape.numerics = numerics_of(config);
  shape.sharding = sharding_of(config.parallel);
  shape.overlap.tensor = config.parallel.effective_tp_comm_overlap();
  shape.recomputation = recomputation_of(config);
  if (config.finetune.lora()) {
    const LayersApart apart = layers_apart(config);
    shape.adapters = {config.finetune.lora_rank,
                      config.finetune.lora_targets,
                      shape.traits.own_lists,
                      config.finetune.scale() != 1,
                      apart.qkv,
                      apart.fc1,
                      false,
                      config.finetune.frozen_weights};
  }
  shape.adapters.all_frozen = config.finetune.freeze_language_model;
  if (shape.traits.own_lists) {
    set_own_step(config, shape);
  } else {
    set_framework(config, software, shape);
  }
  return shape;
}

}  // namespace plumbline
