#include "analysis/memory/framework_memory.hpp"

#include <algorithm>

#include "analysis/work/framework_list.hpp"
#include "analysis/work/frozen_weights.hpp"
#include "analysis/work/parameter_units.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

/// Bytes per token ÷ hidden that a layer's weight gradients need after its input gradients are done: inputs
/// of the four products and gradients of their outputs (dropout masks and scores are freed).
constexpr std::int64_t kHeldForWeights = 32;

/// Recomputed from its input, except for results kept by name: query, key and value, and results of the
/// others.
std::int64_t kept_by_name(const StageShape& s) {
  const Software& sw = *s.software;
  std::int64_t bytes =
      2 * s.stream.rows * s.stream.hidden + 2 * s.stream.tokens * (s.attention.q + 2 * s.attention.k);
  if (!sw.recomputation.projection) bytes += 2 * s.stream.rows * s.stream.hidden;
  if (!sw.recomputation.fc1) bytes += 2 * s.stream.tokens * s.mlp.fc1;
  if (!sw.recomputation.attention) {
    bytes +=
        2 * s.stream.tokens * s.attention.q +
        (s.attention.unfused ? 2 * s.stream.tokens * s.stream.seq : 4 * s.stream.tokens) * s.attention.heads;
  }
  return bytes;
}

/// Products read quantized operands that software makes of 16-bit values.
bool quantizes(const StageShape& s) {
  return s.numerics.framework_fp8 && !s.software->fp8.always;
}
/// Bytes of `elements` elements in the form that products read.
std::int64_t operand_bytes(const StageShape& s, std::int64_t elements) {
  return quantizes(s) ? static_cast<std::int64_t>(s.numerics.operand_bytes * static_cast<double>(elements))
                      : 2 * elements;
}

/// Bytes of a value that SwiGLU reads, kept for its backward. Without fused operators it also keeps the
/// activated half (Megatron-LM's legacy/model/transformer.py: F.silu(x[0]) * x[1]).
std::int64_t gate_bytes(const StageShape& s) {
  if (!s.mlp.swiglu) return 2;
  return s.numerics.fp8_activation_input ? 2 : s.software->kernels.compiled ? 4 : 6;
}

/// Bytes of an element of queries, keys, values and results that attention keeps. In FP8 Transformer Engine
/// saves its quantized operands (dot_product_attention/backends.py, FusedAttnFunc).
std::int64_t kept_by_attention(const StageShape& s) {
  return s.attention.fp8 ? 1 : 2;
}

/// Short vectors before and behind their norms, queries, keys, values, attention's result and its statistics.
std::int64_t latent_attention_bytes(const StageShape& s) {
  const std::int64_t ranks = s.stream.rows * (s.attention.query_rank + s.attention.kv_rank);
  const std::int64_t attended = s.stream.tokens * s.attention.attended();
  return 2 * (ranks + s.stream.rows * s.attention.rotated) +
         kept_by_attention(s) * s.stream.tokens * (s.attention.qkv() + s.attention.attended()) +
         operand_bytes(s, ranks) + (quantizes(s) ? operand_bytes(s, attended) : 0) +
         4 * s.stream.tokens * s.attention.heads;
}

/// Tensors of so many rows at a rank's experts: their input, and the results of fc1 and the activation. Only
/// weights that train need what their products read.
std::int64_t expert_bytes(const StageShape& s, double rows) {
  const ExpertShape& e = s.expert;
  const auto whole = static_cast<std::int64_t>(rows);
  return operand_bytes(s, s.adapters.all_frozen ? 0 : whole * (s.expert_width() + e.ffn)) +
         (s.numerics.fp8_activation_input ? 1 : 2) * whole * e.fc1;
}

/// Kept bytes of an MoE layer: expert rows, outputs of fc1 and the activation, outputs weighted afterwards,
/// fp32 scores of all experts (twice), the shared expert's tensors.
std::int64_t mixture_bytes(const StageShape& s) {
  const ExpertShape& e = s.expert;
  std::int64_t bytes = expert_bytes(s, static_cast<double>(e.rows) * e.kept) + 8 * e.sent * s.moe.experts;
  if (s.software->mixtures.weighted_results) bytes += 2 * e.sent * e.chosen * s.expert_width();
  // Operands of the projections to experts and back.
  if (s.moe.latent > 0) bytes += operand_bytes(s, e.sent * (s.stream.hidden + s.moe.latent));
  return bytes + gate_bytes(s) * s.stream.tokens * s.moe.shared +
         operand_bytes(s, s.stream.tokens * s.moe.shared);
}

/// A Mamba mixer: the first product's result, the scan's with its gate and without, in 16 bits (mamba_ssm's
/// ssd_combined.py), statistics of the norm by group, and the operand of the second product.
std::int64_t mamba_kept_bytes(const StageShape& s) {
  if (!s.has_mamba()) return 0;
  const Mamba& mamba = s.mixer.mamba;
  return s.stream.tokens * (2 * (mamba.projected() + 2 * mamba.inner()) + 4 * mamba.groups) +
         operand_bytes(s, s.stream.tokens * mamba.inner());
}

/// A layer with everything kept, or as selective recomputation leaves it.
std::int64_t kept_bytes(const StageShape& s, bool selective) {
  const std::int64_t mask = s.block.dropout ? 2 : 0;  // a byte per element, after attention and MLP
  const std::int64_t stream = s.stream.rows * s.stream.hidden;
  const std::int64_t more_norms = 2 * s.predicted.more_norms;  // bytes of their inputs
  if (selective && s.software->recomputation.saves_by_name) return kept_by_name(s);
  // Operands are kept in the form that products read. Quantized: one form of the norms' and the activation's
  // results, and one more of the attention's result (Transformer Engine saves the columns of its quantized
  // inputs).
  const auto operand = [&](std::int64_t elements) {
    return operand_bytes(s, s.adapters.all_frozen ? 0 : elements);
  };
  const std::int64_t attention =
      (quantizes(s) ? operand(s.stream.tokens * s.attention.q) : 0) + mamba_kept_bytes(s);
  if (s.attention.latent() || s.mixture()) {
    const std::int64_t own = s.stream.tokens * (2 * kept_by_attention(s) * (s.attention.k + s.attention.q) +
                                                4 * s.attention.heads) +
                             attention;
    const std::int64_t feed_forward =
        gate_bytes(s) * s.stream.tokens * s.mlp.ffn + operand(s.stream.tokens * s.mlp.ffn);
    const std::int64_t scores =
        s.attention.unfused && !selective
            ? (s.attention.dropout ? 5 : 2) * s.stream.tokens * s.stream.seq * s.attention.heads
            : std::int64_t{0};
    return stream * (2 * s.block.norms() + mask + more_norms) + operand(s.block.norms() * stream) + scores +
           (s.attention.latent() ? latent_attention_bytes(s) : own) +
           (s.mixture() ? mixture_bytes(s) : feed_forward);
  }
  // Only trained weights need their product's input again; of frozen ones those with an adapter, whose own
  // narrow results are kept, too. The projection's input is attention's result, which its backward reads. A
  // parallel block's norms read the same.
  const bool mlp_inputs = !s.adapters.frozen() || s.adapters.targets == LoraTargets::all;
  const std::int64_t norms = stream * ((s.block.parallel() ? 2 : 2 * s.block.norms()) + mask + more_norms) +
                             operand(stream * (mlp_inputs ? s.block.norms() : std::int64_t{1}));
  const std::int64_t activation = mlp_inputs ? operand(s.stream.tokens * s.mlp.ffn) : 0;
  const std::int64_t adapters =
      2 * s.stream.tokens * s.adapters.rank * static_cast<std::int64_t>(adapted_products(s).size());
  if (s.mlp.swiglu) {
    // Norms keep their inputs; query, key, value, attention output, its statistics; gate, up, product.
    if (!selective || !s.software->recomputation.selective_operators) {
      return norms + attention + adapters + activation +
             s.stream.tokens * (2 * kept_by_attention(s) * (s.attention.q + s.attention.k) +
                                gate_bytes(s) * s.mlp.ffn + 4 * s.attention.heads);
    }
    // The layer's input; of its seven products every second result (query, value, gate, down); attention's
    // result and its statistics (torchtitan, parallelize_llama.py: operators that selective recomputation
    // saves).
    return stream * (4 + mask + more_norms) +
           s.stream.tokens * (4 * s.attention.q + 2 * s.attention.k + 2 * s.mlp.ffn + 4 * s.attention.heads);
  }
  // 10 of the 34: inputs of norms and masks of residual dropout, not split by tensor parallelism.
  std::int64_t bytes =
      norms + attention + adapters + activation +
      s.stream.tokens * (2 * kept_by_attention(s) * (s.attention.q + s.attention.k) + 2 * s.mlp.ffn);
  if (!s.attention.unfused) return bytes + 4 * s.stream.tokens * s.attention.heads;
  // The softmax's result; with dropout also its mask and its own result.
  if (!selective) bytes += (s.attention.dropout ? 5 : 2) * s.stream.tokens * s.stream.seq * s.attention.heads;
  return bytes;
}

/// Kept bytes that recompute_modules gives up: results of norms and of experts' activation, queries, keys and
/// values of latent attention, and everything inside a feed-forward layer but its input.
std::int64_t given_up_bytes(const StageShape& s) {
  const RecomputeModules& modules = s.recomputation.modules;
  if (s.recomputation.granularity != Recompute::selective || !s.software->communication.buckets()) return 0;
  const std::int64_t shared =
      gate_bytes(s) * s.stream.tokens * s.moe.shared + operand_bytes(s, s.stream.tokens * s.moe.shared);
  std::int64_t bytes = 0;
  if (modules.layernorm) bytes += operand_bytes(s, s.block.norms() * s.stream.rows * s.stream.hidden);
  // Attention in FP8 keeps the quantized ones all the same.
  if (modules.mla_up_proj && s.attention.latent() && !s.attention.fp8)
    bytes += 2 * s.stream.tokens * s.attention.qkv();
  if (s.mixture()) {
    if (modules.moe) return bytes + mixture_bytes(s);
    if (modules.moe_act)
      bytes += operand_bytes(
          s, static_cast<std::int64_t>(static_cast<double>(s.expert.rows) * s.expert.kept) * s.expert.ffn);
    return modules.shared_experts ? bytes + shared : bytes;
  }
  if (modules.mlp)
    bytes += gate_bytes(s) * s.stream.tokens * s.mlp.ffn + operand_bytes(s, s.stream.tokens * s.mlp.ffn);
  return bytes;
}

/// Memory in use while a layer's backward runs: gradients of its widest activations and of scores if they
/// exist, recomputed activations. With ZeRO 3 also two layers' gathered parameters and gradients.
std::int64_t passing_bytes(const StageShape& s) {
  std::int64_t bytes = 4 * s.stream.tokens * s.mlp.ffn + 4 * s.stream.rows * s.stream.hidden;
  if (s.mixture()) {
    const double rows = static_cast<double>(s.expert.rows) * s.expert.room;
    bytes = static_cast<std::int64_t>(rows) * (4 * s.expert.ffn + 4 * s.expert_width()) +
            4 * s.stream.rows * s.stream.hidden;
    // Out of the stash again, into static buffers.
    if (s.expert.kept != s.expert.room) bytes += expert_bytes(s, rows);
  }
  if (s.attention.unfused && !s.mlp.swiglu) bytes += 8 * s.stream.tokens * s.stream.seq * s.attention.heads;
  // Behind a layer that keeps its activations, those of recomputed ones take the place of freed ones.
  if (s.recomputation.granularity != Recompute::none && !(s.layers > 0 && s.kind_of(s.layers - 1).keeps)) {
    const std::int64_t group = s.recomputation.granularity == Recompute::full ? s.recomputation.layers : 1;
    bytes += std::max<std::int64_t>(0, kept_bytes(s, false) * group - framework_layer_bytes(s));
  }
  bytes += dequantized_bytes(s);
  return s.sharding.double_buffers ? bytes : bytes + framework_unit_buffers(s);
}

std::int64_t per_logit(const StageShape& s, double bytes) {
  return static_cast<std::int64_t>(bytes * static_cast<double>(s.stream.tokens * s.ends.outputs));
}
/// While the loss is computed: the logits in every form that is there at once, the norm's output and input.
std::int64_t loss_bytes(const StageShape& s) {
  return per_logit(s, s.software->memory.logit_bytes) + 4 * s.stream.tokens * s.stream.hidden;
}
/// Bytes that the loss's backward needs.
std::int64_t softmax_bytes(const StageShape& s) {
  return (1 + s.ends.prediction_modules) * per_logit(s, s.software->memory.kept_logit_bytes);
}

/// The embedding's output is the first layer's input; its dropout keeps a mask.
std::int64_t embedding_bytes(const StageShape& s) {
  if (!s.place.first || !(s.attention.unfused || s.block.dropout)) return 0;
  return 3 * s.stream.rows * s.stream.hidden;
}

std::int64_t stage_bytes(const StageShape& s) {
  const std::int64_t group = s.recomputation.granularity == Recompute::full ? s.recomputation.layers : 1;
  const auto of_layers = [&](const StageShape& alike, std::int64_t layers) {
    const std::int64_t kept = (layers + group - 1) / group;  // groups, the last may be smaller
    return kept * group * framework_layer_bytes(alike);
  };
  std::int64_t kept = 0;
  std::int64_t offloaded = s.recomputation.offloaded;  // all copied by the end of the forward
  for (const AlikeLayers& alike : s.alike_layers()) {
    const std::int64_t gone = std::min(offloaded, alike.layers);
    offloaded -= gone;
    const StageShape like = s.like(alike.kind);
    kept += of_layers(like, alike.layers - gone);
    if (s.recomputation.offloads.any())
      kept += gone * (framework_layer_bytes(like) - framework_offloaded_bytes(like));
  }
  // An MTP module keeps its two inputs, normed and side by side, too.
  const std::int64_t modules =
      s.ends.prediction_modules *
      (framework_layer_bytes(s.like(s.module_kind())) + 4 * s.stream.rows * s.stream.hidden +
       operand_bytes(s, 2 * s.stream.rows * s.stream.hidden));
  return kept + modules + embedding_bytes(s) + framework_tower_bytes(s).kept;
}

/// Share of a stage's activations that W still needs.
std::int64_t held_for_weights(const StageShape& s) {
  const std::int64_t needed =
      kHeldForWeights * s.stream.tokens * s.stream.hidden / s.sharding.tensor * s.layers;
  return std::min(stage_bytes(s), needed);
}

void gradient_of_logits(const StageShape& s, Replay& replay) {
  const std::int64_t gradient = per_logit(s, s.software->memory.logit_gradient_bytes);
  replay.take(Category::logits, gradient);
  replay.give(Category::logits, gradient + softmax_bytes(s));
}

/// The 16-bit gradient of the logits and the output layer's input of micro-batches whose weight gradient
/// waits for the end of the pipeline (NVIDIA/Megatron-LM@d98e8a64 megatron/core/tensor_parallel/layers.py,
/// grad_output_buffer and embedding_activation_buffer).
void keep_for_deferred(const StageShape& s, Replay& replay, std::int64_t micro_batches) {
  replay.take(Category::logits, micro_batches * 2 * s.stream.tokens * s.ends.outputs);
  replay.take(Category::activations, micro_batches * 2 * s.stream.rows * s.stream.hidden);
}

/// While the optimizer steps: gradients of the shard in another type, and what the update itself needs, in
/// place of the gradients held so far.
void run_update(const StageShape& s, Replay& replay) {
  const double each = s.software->memory.step_bytes;
  if (each == 0) return;
  const auto shards = [&](int stage) { return s.sharding.zero >= stage ? s.sharding.state_shards : 1; };
  const std::int64_t trained = trainable_elements(s) - spread_expert_elements(s);
  const std::int64_t shard = trained / shards(1);
  const HostStatesShape& host = s.host_states;
  const auto update = static_cast<std::int64_t>(each * static_cast<double>(shard) * (1 - host.optimizer));
  const std::int64_t summed = trained * s.numerics.g() / shards(2);
  const auto gradients = static_cast<std::int64_t>(static_cast<double>(summed) * (1 - host.gradients));
  replay.give(Category::gradients, gradients);
  replay.take(Category::optimizer, update);
  replay.give(Category::optimizer, update);
  replay.take(Category::gradients, gradients);
}

void run_backward(const StageShape& s, Replay& replay, std::int64_t frees, bool defers = false) {
  if (s.scores()) gradient_of_logits(s, replay);
  if (defers) keep_for_deferred(s, replay, 1);
  const auto buffer =
      static_cast<std::int64_t>(s.sharding.zero >= 1 ? s.software->memory.reduce_buffer_bytes : 0);
  replay.take(Category::communication, buffer);
  const std::int64_t passing = std::max(passing_bytes(s), framework_tower_bytes(s).passing);
  replay.take(Category::workspace, passing);
  replay.give(Category::workspace, passing);
  replay.give(Category::communication, buffer);
  replay.give(Category::activations, frees);
  if (!s.scores()) return;
  replay.take(Category::logits, per_logit(s, s.software->memory.metric_logit_bytes));
  replay.give(Category::logits, per_logit(s, s.software->memory.metric_logit_bytes));
}

}  // namespace

std::int64_t framework_unit_buffers(const StageShape& s) {
  const std::int64_t matrices = s.sharding.zero == 3 ? layer_matrices(s) : 0;
  const std::int64_t parameters =
      s.adapters.quantized()
          ? static_cast<std::int64_t>(frozen_packed_bytes(s, static_cast<double>(matrices)))
          : (gathers_fp8(s) ? 1 : 2) * matrices;
  const std::int64_t gradients = s.sharding.zero == 3 ? s.numerics.g() * trainable_layer(s) : 0;
  return 2 * (parameters + gradients);
}

std::int64_t framework_layer_bytes(const StageShape& s) {
  if (s.recomputation.granularity == Recompute::full)
    return 2 * s.stream.rows * s.stream.hidden / s.recomputation.layers;
  return kept_bytes(s, s.recomputation.granularity == Recompute::selective) - given_up_bytes(s);
}

std::int64_t framework_offloaded_bytes(const StageShape& s) {
  const OffloadModules& modules = s.recomputation.offloads;
  if (!modules.any()) return framework_layer_bytes(s);
  const RecomputeModules again =
      s.recomputation.granularity == Recompute::selective ? s.recomputation.modules : RecomputeModules();
  std::int64_t bytes = 0;
  const auto add = [&](bool named, std::int64_t elements, std::int64_t of_them) {
    constexpr std::int64_t kLeastElements = std::int64_t{1} << 20U;
    if (named && elements >= kLeastElements) bytes += of_them;
  };
  const std::int64_t stream = s.stream.rows * s.stream.hidden;
  add(modules.attn_norm, stream, 2 * stream);
  add(modules.mlp_norm && s.block.norms() > 1, stream, 2 * stream);
  if (!again.layernorm) add(modules.qkv_linear, stream, operand_bytes(s, stream));
  const std::int64_t each = kept_by_attention(s);
  if (!(again.mla_up_proj && s.attention.latent() && !s.attention.fp8)) {
    const std::int64_t queries = s.stream.tokens * s.attention.q;
    const std::int64_t keys = s.attention.latent() ? s.stream.tokens * (s.attention.qkv() - s.attention.q)
                                                   : 2 * s.stream.tokens * s.attention.k;
    add(modules.core_attn, queries, each * queries);
    add(modules.core_attn, keys / 2, each * keys);
  }
  const std::int64_t attended = s.stream.tokens * s.attention.attended();
  if (quantizes(s)) add(modules.attn_proj, attended, operand_bytes(s, attended));
  add(quantizes(s) ? modules.core_attn : modules.attn_proj, attended, each * attended);
  if (!s.mixture()) return bytes;
  const auto rows = static_cast<std::int64_t>(static_cast<double>(s.expert.rows) * s.expert.kept);
  const std::int64_t input = rows * s.expert_width();
  const std::int64_t activated = again.moe_act ? 0 : operand_bytes(s, rows * s.expert.ffn);
  add(modules.expert_fc1 || modules.fused_group_mlp, input, operand_bytes(s, input));
  add(modules.moe_act || modules.fused_group_mlp, rows * s.expert.fc1,
      (s.numerics.fp8_activation_input ? 1 : 2) * rows * s.expert.fc1);
  add(modules.fused_group_mlp, rows * s.expert.ffn, activated);
  return bytes;
}

ActionProfile framework_action_profile(const StageShape& s, ActionType type) {
  Replay replay;
  const bool deferring = s.ends.defers_output_gradient;
  using enum ActionType;
  switch (type) {
    case forward:
      replay.take(Category::workspace, framework_tower_bytes(s).passing);
      replay.give(Category::workspace, framework_tower_bytes(s).passing);
      replay.take(Category::activations, stage_bytes(s));
      replay.take(Category::workspace, dequantized_bytes(s));
      replay.give(Category::workspace, dequantized_bytes(s));
      if (s.scores()) {
        replay.take(Category::logits, loss_bytes(s));
        replay.give(Category::logits, loss_bytes(s) - softmax_bytes(s));
      }
      break;
    case backward:
      run_backward(s, replay, stage_bytes(s));
      break;
    case backward_input:
      run_backward(s, replay, stage_bytes(s) - (deferring ? 0 : held_for_weights(s)), deferring);
      break;
    case backward_weight:
      if (deferring) {
        keep_for_deferred(s, replay, -1);
      } else {
        replay.give(Category::activations, held_for_weights(s));
      }
      break;
    // The same loss on a shard of the logits.
    case vocab_forward:
      replay.take(Category::logits, per_logit(s, s.software->memory.logit_bytes));
      replay.give(Category::logits, per_logit(s, s.software->memory.logit_bytes) - softmax_bytes(s));
      break;
    case vocab_backward:
      gradient_of_logits(s, replay);
      break;
    case input_forward:
    case input_backward:
    case send_forward:
    case send_backward:
    case receive_forward:
    case receive_backward:
    case reduce_gradients:
    case reduce_embedding:
      break;
    case optimizer:
      run_update(s, replay);
      break;
    default:
      throw InputError("schedule: action " + std::string(name_of(type)) +
                       " with software other than plumbline; expected F, B, I, W, IF, S, T and IB");
  }
  return replay.profile();
}

}  // namespace plumbline
