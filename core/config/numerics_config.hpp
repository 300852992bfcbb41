// Numerics of a training step: number formats, attention, dropout, MoE.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/tensor/dtype.hpp"

namespace plumbline {

enum class Fp8Format { none, e4m3, hybrid };  // hybrid: gradients in E5M2, all else in E4M3
/// Scales of a tensor from earlier steps or from the tensor itself; of blocks of 128 elements, or of 32 that
/// the matrix units scale themselves (MXFP8). plumbline's own step has the first two.
enum class Fp8Recipe { delayed, tensorwise, blockwise, mxfp8 };
/// Operands of linear layers in 4 bits with a scale per 16 of them (NVFP4; Megatron-LM's --fp4-format).
enum class Fp4Format { none, e2m1 };
enum class AttentionBackend { fused, unfused };  // unfused: keeps the probabilities of every head
enum class GradDType { fp32, same };
/// Linear layers in FP8; everything else stays in the precision of the run (bench/training/fp8.md).
struct Fp8Config {
  Fp8Format format = Fp8Format::none;
  Fp8Recipe recipe = Fp8Recipe::delayed;
  int margin = 0;                        // scales leave room for this many doublings
  std::int64_t amax_history_len = 1024;  // steps that a delayed scale looks back on
  bool param_gather = false;             // weights are held and gathered in FP8; not plumbline's own
  /// Transposes of weights in FP8 are made at every use instead of kept (Megatron-Core's
  /// disable_parameter_transpose_cache); not plumbline's own.
  bool transposes_again = false;

  bool on() const { return format != Fp8Format::none; }
};

/// Factor of the loss with fp16, constant or dynamic; names and defaults are Megatron-LM's.
struct LossScaleConfig {
  std::optional<double> constant;  // loss_scale
  double initial = 4294967296;     // initial_loss_scale: 2^32
  double least = 1;                // min_loss_scale
  std::int64_t window = 1000;      // loss_scale_window: steps without overflow until the scale is doubled
  std::int64_t hysteresis = 2;     // overflows until it is halved
};

struct NumericsConfig {
  DType precision = DType::bf16;
  LossScaleConfig loss_scale;
  Fp8Config fp8;
  Fp4Format fp4_format = Fp4Format::none;  // not plumbline's own
  /// Layers at the ends of the model keep their linear layers in 16 bits, as many as the counts say
  /// (Megatron-Core's names); not plumbline's own.
  bool first_last_layers_bf16 = false;
  std::int64_t num_layers_at_start_in_bf16 = 1;
  std::int64_t num_layers_at_end_in_bf16 = 1;
  bool fp8_dot_product_attention = false;  // attention in FP8 (Megatron-Core's name); not plumbline's own
  GradDType grad_dtype = GradDType::fp32;
  AttentionBackend attention_backend = AttentionBackend::fused;
  /// Probability of dropping an element of the embedding's output and of the residual contributions of
  /// attention and MLP; of dropping an attention probability.
  double hidden_dropout = 0;
  double attention_dropout = 0;
  /// Off: the loss works on an fp32 copy of 16-bit logits, as Megatron-LM's does by default.
  bool cross_entropy_loss_fusion = true;
  /// SwiGLU's input is kept in 8 bits for its backward (Megatron-Core's name); not plumbline's own.
  bool activation_func_fp8_input_store = false;
  /// Two runs give the same bits (Megatron-Core's name): backend cuda uses deterministic kernels for
  /// attention's backward.
  bool deterministic_mode = false;

  /// Layer `layer` of `layers` has its linear layers in 16 bits.
  bool is_wide(std::int64_t layer, std::int64_t layers) const {
    return first_last_layers_bf16 &&
           (layer < num_layers_at_start_in_bf16 || layer >= layers - num_layers_at_end_in_bf16);
  }
  DType grad_type() const { return grad_dtype == GradDType::fp32 ? DType::fp32 : precision; }
  /// The loss keeps an fp32 copy of the logits: with 16-bit storage and without fusion.
  bool loss_in_fp32() const { return !cross_entropy_loss_fusion && precision != DType::fp32; }
};

/// Rows that an expert beyond its capacity drops: those with the least weights, or the last ones.
enum class TokenDropPolicy { probs, position };

/// Tokens over which aux_loss_coeff balances the load: those of a micro-batch, of each sequence, or of the
/// global batch so far.
enum class LoadBalancing { aux_loss, seq_aux_loss, global_aux_loss };

/// Token dispatch of MoE layers, and their load-balancing losses, which affect the gradient but not the
/// reported loss (bench/training/mixtures.md).
struct MixtureConfig {
  double aux_loss_coeff = 0;
  LoadBalancing load_balancing = LoadBalancing::aux_loss;
  double z_loss_coeff = 0;
  /// Bias increment per step for under-loaded experts, and decrement for over-loaded ones (Wang et al. 2024,
  /// arXiv:2408.15664), for models whose routers have a bias.
  double bias_update_rate = 1e-3;
  /// Limit for an expert's rows, as a multiple of the mean of a micro-batch's rows; 0: no limit.
  double capacity_factor = 0;
  bool pad_to_capacity = false;  // and pads to it
  /// Static buffers of a rank's experts hold so many times the mean of its rows; 0: as many as needed. Kept
  /// tensors lie in pages of a stash of `stash_factor` times the mean instead (NVIDIA/Megatron-LM@d98e8a64
  /// megatron/core/transformer/moe/paged_stash.py); not plumbline's own.
  double rank_capacity_factor = 0;
  bool paged_stash = false;
  double stash_factor = 1.1;
  TokenDropPolicy drop_policy = TokenDropPolicy::probs;
  /// Routing assumed by predictions: balanced, worst, zipf:S, or the path of a file that save_routing wrote.
  std::string routing = "balanced";

  /// True if the tokens of every expert are counted over the global batch.
  bool balances_globally() const {
    return aux_loss_coeff != 0 && load_balancing == LoadBalancing::global_aux_loss;
  }
  bool routing_file() const { return routing.starts_with('/'); }
  /// S of zipf:S; nothing if it is something else.
  std::optional<double> zipf_exponent() const;
};

}  // namespace plumbline
