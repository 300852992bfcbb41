#include "analysis/work/shapes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analysis/hardware/hardware.hpp"
#include "analysis/hardware/profiles.hpp"
#include "core/base/error.hpp"
#include "core/config/layer_distribution.hpp"

namespace plumbline {

namespace {

DistillationShape distillation_shape(const RunConfig& config, bool joint) {
  DistillationShape shape;
  if (!config.distillation.teacher) return shape;
  shape.on = true;
  shape.joint = joint;
  shape.hidden = config.distillation.cache == DistillationCache::hidden;
  shape.unfused = config.distillation.loss == DistillationLoss::unfused;
  shape.language_model = config.distillation.lm_weight > 0;
  shape.teacher_normed = config.distillation.teacher->normed_output;
  shape.teacher_hidden = config.distillation.teacher->hidden;
  shape.student_hidden = config.model.hidden;
  const bool fp32 = config.distillation.cache_dtype == DistillationCacheDType::fp32;
  shape.cached_size = size_of(fp32 ? DType::fp32 : config.numerics.precision);
  return shape;
}

}  // namespace

std::optional<std::string> why_mixture_unlisted(const RunConfig& config, const Software& framework) {
  if (!config.model.mixture) return std::nullopt;
  if (framework.mixtures() && !framework.sharded && config.parallel.zero_stage < 2) return std::nullopt;
  return fmt::format(
      "software: found {}{} with {}, a mixture of experts; expected one of Megatron-Core's, with zero_stage "
      "0 or 1",
      config.machine.software, framework.mixtures() ? " with sharded gradients" : "", config.model.name);
}

namespace {

/// Expert-parallel sharding of an MoE layer in a framework that spreads experts over ranks.
void spread_experts(const RunConfig& config, const Software& framework, StageShape& shape) {
  const Mixture& mixture = config.model.mixture;
  if (!mixture) return;
  if (const auto reason = why_mixture_unlisted(config, framework)) throw InputError(*reason);
  ExpertShape& expert = shape.expert;
  const ParallelConfig& parallel = config.parallel;
  expert.ranks = parallel.expert;
  expert.tensor = parallel.effective_expert_tensor();
  expert.copies = parallel.expert_copies();
  expert.sharded = parallel.zero_stage >= 1 && expert.copies > 1;
  if (expert.sharded) expert.state_shards = expert.copies / parallel.num_distributed_optimizer_instances;
  expert.local = mixture.experts / expert.ranks;
  expert.sent = shape.tokens / shape.tensor;
  expert.chosen = mixture.top_k;
  expert.rows = expert.sent * expert.chosen * expert.tensor;
  if (mixture.groups > 1) expert.most_nodes = mixture.chosen_groups;
  expert.ffn = config.model.ffn / expert.tensor;
  expert.fc1 = shape.swiglu ? 2 * expert.ffn : expert.ffn;
  expert.overlapped = parallel.overlap_moe_expert_parallel_comm && expert.ranks > 1;
  expert.dispatcher = parallel.token_dispatcher;
  if (expert.dispatcher == TokenDispatcher::automatic) {
    expert.dispatcher = framework.flex_dispatch       ? TokenDispatcher::flex
                        : framework.alltoall_dispatch ? TokenDispatcher::alltoall
                                                      : TokenDispatcher::allgather;
  }
}

/// FP8 products need a multiple of this many rows per expert (bench/training/fp8.md).
constexpr std::int64_t kFp8Rows = 16;

/// Rows of the first `experts` of a layer, with choices spread evenly over all and the remainder on the first
/// ones.
std::int64_t even_rows(const StageShape& shape, std::int64_t choices, std::int64_t experts) {
  const std::int64_t each = choices / shape.experts;
  const std::int64_t more = std::min(choices % shape.experts, experts);
  return more * shape.rows_of_expert(each + 1) + (experts - more) * shape.rows_of_expert(each);
}

/// Expert-parallel sharding of plumbline's own step. Every rank's rows are spread as evenly as possible over
/// experts; the first ones take the remainder.
void spread_own_experts(const RunConfig& config, StageShape& shape) {
  if (!config.spreads_experts()) return;
  ExpertShape& expert = shape.expert;
  expert.ranks = config.parallel.expert;
  expert.folded = config.parallel.folds_experts();
  expert.tensor = config.parallel.effective_expert_tensor();
  expert.copies = config.parallel.expert_copies();
  expert.group = expert.folded ? expert.ranks * expert.tensor : expert.ranks;
  expert.sharded = shape.zero >= 1 && expert.copies > 1;
  expert.local = shape.experts / expert.ranks;
  expert.sent = expert.folded ? shape.rows : shape.tokens;
  expert.chosen = config.model.mixture.top_k;
  shape.choice_rows = even_rows(shape, expert.sent * expert.chosen, shape.experts);
  expert.rows = expert.group * even_rows(shape, expert.sent * expert.chosen, expert.local);
  shape.fc1 = shape.fc1 / shape.ffn * (config.model.ffn / expert.tensor);
  shape.ffn = config.model.ffn / expert.tensor;
  expert.ffn = shape.ffn;
  expert.fc1 = shape.fc1;
  const bool gathers = config.parallel.token_dispatcher == TokenDispatcher::allgather;
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
  if (machine.cuda_graph_impl == CudaGraphImpl::full_iteration) return {1, 1, true};
  const std::string modules = "," + machine.cuda_graph_modules + ",";
  const bool all = machine.cuda_graph_modules == "all";
  const auto has = [&](const char* name) { return all || modules.find(name) != std::string::npos; };
  const double attention = has(",attn,") ? 1 : 0;
  if (config.model.mixture) return {attention, has(",moe_router,") ? 1.0 : 0, false};
  return {(attention + (has(",mlp,") ? 1 : 0)) / 2, 0, false};  // about half of a layer's launches each
}

void set_framework(const RunConfig& config, const Software& framework, StageShape& shape) {
  shape.framework = &framework;
  shape.unfused_attention = shape.unfused_attention || !framework.flash_attention;
  shape.hidden_dropout = shape.hidden_dropout || framework.dropout;
  shape.attention_dropout = shape.attention_dropout || framework.dropout;
  shape.framework_fp8 = shape.fp8 || framework.fp8;
  shape.graphs = graphs_of(config);
  if (shape.fp8) shape.fp8_forms = fp8_forms(config.machine, shape.fp8_recipe);
  if (config.numerics.fp4_format != Fp4Format::none) {
    shape.fp4 = shape.framework_fp8 = true;
    shape.operand_bytes = 0.5 + 1.0 / 16;
  }
  shape.fp8 = shape.fp8_tensorwise = false;
  shape.fp8_history = 0;
  if (framework.gradient_bytes <= 2) shape.grad_type = shape.type;
  if (framework.sharded) shape.zero = 3;
  if (shape.data == 1) shape.zero = 0;
}

/// Default overlap where the configuration is silent: the framework's, or that of plumbline's own step.
void set_overlap(const RunConfig& config, const Software* framework, StageShape& shape) {
  const bool sharded_gradients = shape.zero >= 2;
  shape.overlap_grad_reduce = config.parallel.overlap_grad_reduce.value_or(
      framework == nullptr || sharded_gradients || framework->overlapped_reduction);
  shape.overlap_param_gather = config.parallel.overlap_param_gather.value_or(
      shape.zero == 3 || (framework != nullptr && framework->overlapped_gather));
  shape.receives_ahead = framework == nullptr && config.parallel.effective_overlap_p2p_comm();
  shape.runs_pairs = framework == nullptr && config.parallel.overlap_moe_expert_parallel_comm;
  shape.hides_shared_expert = framework == nullptr && config.parallel.moe_shared_expert_overlap;
}

PredictedShape predicted_shape(const ModelConfig& model, const StageShape& shape) {
  PredictedShape predicted;
  predicted.projection_bias = model.has_projection_bias();
  predicted.feed_forward_bias = model.has_feed_forward_bias();
  predicted.router_bias = model.predicted.router_bias;
  if (model.predicted.norms == NormPlaces::both) predicted.more_norms = 2;
  predicted.query_norms = model.query_norm_weights();
  if (model.qk_norm && model.predicted.query_norm == QueryNorm::width)
    predicted.query_norms = shape.q + shape.k;
  if (model.predicted.sinks) predicted.vectors = shape.heads;
  predicted.scalars = model.predicted.scalars;
  return predicted;
}

/// Fields common to all stages.
StageShape common_shape(const RunConfig& config, const Software* framework) {
  const ModelConfig& model = config.model;
  const int t = config.parallel.tensor;
  StageShape shape;
  shape.batch = config.batch.micro_batch_size;
  shape.seq = config.batch.seq_length;
  shape.context = config.parallel.context;
  shape.cp_comm_type = config.parallel.cp_comm_type;
  shape.head_ranks = config.parallel.head_ranks();
  shape.attention_share = config.batch.packed.slowest;
  shape.cp_load_balance = config.parallel.cp_load_balance;
  shape.tokens = shape.batch * shape.seq / shape.context;
  shape.sequence_parallel = config.parallel.effective_sequence_parallel();
  shape.tensor_overlap = config.parallel.effective_tp_comm_overlap();
  shape.sums_in_fp32 = config.parallel.tp_reduce_in_fp32;
  shape.rows = shape.sequence_parallel ? shape.tokens / t : shape.tokens;
  shape.hidden = model.hidden;
  shape.head_dim = model.head_dim;
  shape.heads = model.heads / t;
  shape.kv_heads = std::max<std::int64_t>(1, model.kv_heads / t);
  shape.q = shape.heads * shape.head_dim;
  shape.k = shape.kv_heads * shape.head_dim;
  shape.ffn = model.ffn / t;
  shape.swiglu = is_gated(model.activation);
  shape.fc1 = shape.swiglu ? 2 * shape.ffn : shape.ffn;
  shape.experts = model.mixture.experts;
  shape.choices = shape.tokens * model.mixture.top_k;
  shape.capacity = config.expert_capacity();
  shape.padded = config.mixture.pad_to_capacity;
  if (model.mixture && config.numerics.fp8.on() && framework == nullptr) shape.row_multiple = kFp8Rows;
  if (model.mixture) shape.choice_rows = even_rows(shape, shape.choices, shape.experts);
  shape.shared = model.mixture.shared / t;
  shape.shared_gated = model.mixture.shared_gated;
  shape.dense_ffn = model.mixture.dense_ffn / t;
  shape.expert_bias = model.mixture.expert_bias;
  shape.global_balance = model.mixture && config.mixture.balances_globally() && framework == nullptr;
  shape.vocab = config.padded_vocab() / t;
  shape.rotary = model.positions == Positions::rotary;
  shape.rotated = shape.rotary ? model.rotated() : 0;
  shape.query_rank = model.latent.query_rank;
  shape.kv_rank = model.latent.kv_rank;
  shape.value_dim = model.latent.value_dim;
  shape.positions = model.position_rows();
  shape.block = model.block;
  shape.qk_norm = model.qk_norm;
  shape.embedding_norm = model.embedding_norm;
  shape.scaled_embedding = model.embedding_scale != 1;
  shape.output_bias = model.output_bias;
  shape.normed_output = model.normed_output;
  shape.normed_residual = model.normed_residual != 0;
  shape.block_positions = model.block_positions;
  shape.prefix = config.batch.prefix_length;
  shape.layer_norm = model.norm == Norm::layer;
  shape.norm_rows = shape.layer_norm ? 2 : 1;
  shape.norm_vectors = model.norm_vectors();
  shape.tied = model.tied_embeddings;
  shape.qkv_bias = model.qkv_bias;
  shape.linear_bias = model.linear_bias;
  shape.predicted = predicted_shape(model, shape);
  shape.shared_kv = model.kv_heads < t;
  shape.unfused_attention = config.numerics.attention_backend == AttentionBackend::unfused;
  shape.cuda = config.machine.backend == Backend::cuda;
  shape.deterministic = config.numerics.deterministic_mode;
  shape.hidden_dropout = config.numerics.hidden_dropout > 0;
  shape.attention_dropout = config.numerics.attention_dropout > 0;
  shape.loss_in_fp32 = config.numerics.loss_in_fp32();
  shape.fp8 = config.numerics.fp8.on();
  shape.fp8_tensorwise = shape.fp8 && config.numerics.fp8.recipe == Fp8Recipe::tensorwise;
  shape.fp8_history = shape.fp8 && !shape.fp8_tensorwise ? config.numerics.fp8.amax_history_len : 0;
  shape.fp8_recipe = config.numerics.fp8.recipe;
  shape.fp8_weights = shape.fp8 && config.numerics.fp8.param_gather;
  shape.tensor = t;
  shape.type = config.numerics.precision;
  shape.grad_type = config.numerics.grad_type();
  shape.data = config.parallel.copies();
  shape.state_shards = config.parallel.state_shards();
  shape.optimizer_instances = config.parallel.num_distributed_optimizer_instances;
  shape.zero = config.parallel.effective_zero_stage();
  if (framework == nullptr) shape.secondary_shards = config.parallel.zero_hpz_partition_size;
  shape.recompute = config.recompute.granularity;
  shape.recompute_layers = std::max<std::int64_t>(1, config.recompute.num_layers);
  shape.recomputed = config.recompute.selected();
  if (config.finetune.lora()) {
    shape.adapter_rank = config.finetune.lora_rank;
    shape.adapted = config.finetune.lora_targets;
  }
  if (framework != nullptr) {
    set_framework(config, *framework, shape);
    spread_experts(config, *framework, shape);
  }
  if (framework == nullptr) spread_own_experts(config, shape);
  set_overlap(config, framework, shape);
  return shape;
}

/// A window with as many pairs of tokens as chunks have, to the nearest token.
std::int64_t window_like_chunk(std::int64_t seq, std::int64_t chunk) {
  const auto s = static_cast<double>(seq);
  return std::llround(s - std::sqrt(s * s - 2 * s * keys_per_chunk(seq, chunk)));
}

/// Windows of `count` layers from the model's layer `first` on. A window over the whole sequence counts as
/// none.
std::vector<AlikeLayers> windows_of(const RunConfig& config, std::int64_t first, std::int64_t count) {
  std::vector<AlikeLayers> windows;
  const ModelConfig& model = config.model;
  if (model.sliding_window == 0 || model.sliding_window >= config.batch.seq_length) return windows;
  for (std::int64_t layer = first; layer < first + count; ++layer) {
    std::int64_t window = model.window_of(layer);
    if (window > 0 && model.predicted.chunked) window = window_like_chunk(config.batch.seq_length, window);
    if (windows.empty() || windows.back().window != window) windows.push_back({0, window});
    ++windows.back().layers;
  }
  return windows;
}

/// Layers and ends of the stages of one route; where the neighbours are is left to the caller.
std::vector<StageShape> route_shapes(const RunConfig& config, int stages, const Software* framework) {
  const std::vector<int> layers = stages == 1 ? std::vector<int>{static_cast<int>(config.model.layers)}
                                              : layers_per_stage(config, stages);
  std::vector<StageShape> shapes(static_cast<std::size_t>(stages), common_shape(config, framework));
  std::int64_t first_layer = 0;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    shapes[i].layers = layers[i];
    shapes[i].windows = windows_of(config, first_layer, layers[i]);
    // Layers without experts count as the stage's first ones, wherever they stand.
    if (config.model.mixture)
      shapes[i].dense_layers = layers[i] - config.model.mixture_layers(first_layer, layers[i]);
    if (framework == nullptr)  // the last layer stays: its backward comes next
      shapes[i].offloaded = std::clamp<std::int64_t>(layers[i] - 1, 0, config.offload.num_layers);
    first_layer += layers[i];
    shapes[i].stage = static_cast<int>(i);
  }
  shapes.front().first = true;
  shapes.back().last = true;
  shapes.back().prediction_modules = config.model.prediction_modules;
  shapes.back().defers_output_gradient = config.parallel.defer_embedding_wgrad_compute;
  shapes.front().single = stages == 1;
  return shapes;
}

/// Places the token lookups of MTP modules; `here`: the embedding is on the same rank.
void place_lookups(bool here, StageShape& shape) {
  shape.shared_lookup = shape.own_modules() > 0 && here;
  shape.embedding_copy = shape.own_modules() > 0 && !here && !shape.tied;
}

/// True if the first stage has I and W, as its first backward shows.
bool splits_backward(const Schedule& schedule) {
  for (const Action& action : schedule.actions[static_cast<std::size_t>(schedule.rank_of_stage.front())]) {
    if (action.stage != 0) continue;
    if (action.type == ActionType::backward_input) return true;
    if (action.type == ActionType::backward) return false;
  }
  return false;
}

/// Moves embedding and output layer from the ends to the lowest stage of every rank.
void split_vocabulary(const RunConfig& config, const Schedule& schedule, std::vector<StageShape>& shapes) {
  VocabularyShape common;
  common.split = true;
  common.two_barriers = schedule.vocab != VocabPasses::one_barrier;
  common.split_backward = splits_backward(schedule);
  common.shards = config.parallel.vocab_shards();
  const int first = schedule.rank_of_stage.front();
  const int last = schedule.rank_of_stage.back();
  std::vector<bool> carried(static_cast<std::size_t>(schedule.ranks));
  for (StageShape& shape : shapes) {
    const int rank = schedule.rank_of_stage[static_cast<std::size_t>(shape.stage)];
    shape.vocab = config.padded_vocab() / common.shards;
    shape.shared_output = false;
    shape.vocabulary = common;
    shape.vocabulary.carries = !carried[static_cast<std::size_t>(rank)];
    shape.vocabulary.first_rank = rank == first;
    shape.vocabulary.last_rank = rank == last;
    carried[static_cast<std::size_t>(rank)] = true;
  }
}

}  // namespace

const Software* framework_of(const RunConfig& config) {
  if (config.machine.software == "plumbline") return nullptr;
  return &built_in_profiles().generation(config.machine.software);
}

std::int64_t StageShape::window_of(std::int64_t layer) const {
  std::int64_t end = 0;
  for (const AlikeLayers& alike : windows) {
    end += alike.layers;
    if (layer < end) return alike.window;
  }
  return 0;
}

StageShape StageShape::like_layer(std::int64_t layer) const {
  StageShape alike = *this;
  alike.dense_layers = 0;
  if (!known_rows.empty()) {
    const KnownRows& known = known_rows[static_cast<std::size_t>(layer)];
    alike.choice_rows = known.sent;
    if (exchanges_rows()) alike.expert.rows = known.here;
    alike.known_rows.clear();
  }
  if (layer >= dense_layers) return alike;
  alike.experts = alike.choices = alike.choice_rows = alike.shared = 0;
  alike.expert = {};
  alike.expert_bias = alike.global_balance = false;
  alike.ffn = dense_ffn;
  alike.fc1 = (swiglu ? 2 : 1) * dense_ffn;
  return alike;
}

std::vector<StageShape> stage_shapes(const RunConfig& config, int stages) {
  std::vector<StageShape> shapes = route_shapes(config, stages, framework_of(config));
  shapes.back().shared_output = config.model.tied_embeddings && stages == 1;
  place_lookups(stages == 1, shapes.back());
  return shapes;
}

std::vector<StageShape> stage_shapes(const RunConfig& config, const Schedule& schedule) {
  return stage_shapes(config, schedule, framework_of(config));
}

std::vector<StageShape> stage_shapes(const RunConfig& config, const Schedule& schedule,
                                     const Software* framework) {
  const int per_route = schedule.stages_per_route();
  const std::vector<StageShape> route = route_shapes(config, per_route, framework);
  std::vector<StageShape> shapes;
  shapes.reserve(static_cast<std::size_t>(schedule.stages));
  std::vector<bool> has_embedding(static_cast<std::size_t>(schedule.ranks));
  for (int stage = 0; stage < schedule.stages; ++stage) {
    StageShape shape = route[static_cast<std::size_t>(stage % per_route)];
    shape.distillation = distillation_shape(config, schedule.joint_teacher);
    shape.stage = stage;
    shape.route = stage / per_route;
    shape.previous_here = !shape.first && !schedule.crosses_ranks(stage, stage - 1);
    shape.next_here = !shape.last && !schedule.crosses_ranks(stage, stage + 1);
    if (shape.first) {
      const int rank = schedule.rank_of_stage[static_cast<std::size_t>(stage)];
      has_embedding[static_cast<std::size_t>(rank)] = true;
    }
    shapes.push_back(shape);
  }
  for (StageShape& shape : shapes) {
    const int rank = schedule.rank_of_stage[static_cast<std::size_t>(shape.stage)];
    shape.shared_output = shape.last && shape.tied && has_embedding[static_cast<std::size_t>(rank)];
    place_lookups(has_embedding[static_cast<std::size_t>(rank)], shape);
  }
  if (config.parallel.splits_vocabulary()) split_vocabulary(config, schedule, shapes);
  return shapes;
}

RunConfig evaluated_teacher(const RunConfig& config) {
  RunConfig teacher = config;
  teacher.model = *config.distillation.teacher;
  teacher.mixture = MixtureConfig();  // no token is dropped, nothing is balanced
  teacher.parallel.moe_shared_expert_overlap = false;
  teacher.parallel.zero_stage = 0;
  teacher.parallel.zero_hpz_partition_size = teacher.parallel.num_distributed_optimizer_instances = 1;
  teacher.parallel.overlap_param_gather.reset();
  teacher.recompute.granularity = Recompute::none;
  teacher.numerics.hidden_dropout = teacher.numerics.attention_dropout = 0;
  teacher.numerics.fp8.format = Fp8Format::none;
  return teacher;
}

std::vector<StageShape> teacher_shapes(const RunConfig& config, const Schedule& schedule) {
  if (!config.distillation.teacher) return {};
  std::vector<StageShape> shapes = stage_shapes(evaluated_teacher(config), schedule);
  for (StageShape& shape : shapes) {
    shape.distillation = distillation_shape(config, schedule.joint_teacher);
  }
  return shapes;
}

std::int64_t spread_expert_matrices(const StageShape& s) {
  return s.expert.local * (s.expert.fc1 + s.expert.ffn) * s.hidden;
}

std::int64_t feed_forward_matrices(const StageShape& s) {
  if (s.spreads_experts()) {
    const std::int64_t shared = s.shared > 0 ? (s.fc1 / s.ffn + 1) * s.shared * s.hidden : 0;
    return spread_expert_matrices(s) + s.experts * s.hidden + shared +
           (s.shared > 0 && s.shared_gated ? s.hidden : 0);
  }
  const std::int64_t one = s.fc1 * s.hidden + s.hidden * s.ffn;
  const std::int64_t gate = s.shared > 0 && s.shared_gated ? s.hidden : 0;
  return s.mixture() ? s.experts * (one + s.hidden) + 3 * s.shared * s.hidden + gate : one;
}

std::int64_t qkv_matrices(const StageShape& s) {
  if (!s.latent()) return s.qkv() * s.hidden;
  return s.compressed() * s.hidden + s.q * (s.query_rank > 0 ? s.query_rank : s.hidden) +
         (s.own_keys() + s.attended()) * s.kv_rank;
}

LayerBiases layer_biases(const StageShape& s) {
  LayerBiases biases;
  const PredictedShape& p = s.predicted;
  if (s.qkv_bias) biases.split += s.qkv();
  if (p.projection_bias) biases.replicated += s.hidden;
  biases.split += p.vectors;
  if (s.mixture()) {
    const std::int64_t fc1 = s.spreads_experts() ? s.expert.fc1 : s.fc1;
    if (p.feed_forward_bias) biases.split += s.local_experts() * fc1;
    if (p.feed_forward_bias) biases.replicated += s.local_experts() * s.hidden;
    if (p.router_bias) biases.replicated += s.experts;
    return biases;
  }
  if (p.feed_forward_bias) biases.split += s.fc1;
  if (p.feed_forward_bias) biases.replicated += s.hidden;
  biases.replicated += p.scalars;
  return biases;
}

std::int64_t parameters_per_layer(const StageShape& s) {
  return s.norm_elements() + qkv_matrices(s) + s.hidden * s.attended() + feed_forward_matrices(s) +
         layer_biases(s).total();
}

StageParameters parameters_of(const StageShape& s) {
  StageParameters parameters;
  parameters.layers = s.over_layers(parameters_per_layer);
  parameters.layers += s.over_modules(parameters_per_layer) +
                       s.own_modules() * (s.join_elements() + 3 * s.norm_vectors * s.hidden);
  if (s.holds_embedding() || s.embedding_copy) parameters.embedding = s.vocab * s.hidden;
  if (s.first) parameters.positions = s.positions * s.hidden;
  if (s.first && s.embedding_norm) parameters.embedding_norm = s.norm_vectors * s.hidden;
  if (s.last) parameters.final_norm = s.norm_vectors * s.hidden;
  if (s.holds_output()) parameters.output = s.vocab * s.hidden;
  if (s.last && s.output_bias) parameters.output += s.vocab;
  return parameters;
}

}  // namespace plumbline
