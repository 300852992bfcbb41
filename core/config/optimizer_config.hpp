// Optimizers: the numbers that they keep of every parameter, and their settings.
#pragma once

#include <cstdint>

namespace plumbline {

/// AdamW; gradient descent, with or without momentum; Lion (Chen et al. 2023, arXiv:2302.06675); Muon, which
/// makes the momentum of each matrix in a layer nearly orthogonal (Jordan et al. 2024,
/// kellerjordan.github.io/posts/muon; Liu et al. 2025, arXiv:2502.16982), and AdamW for all else.
enum class Optimizer { adam, sgd, lion, muon };
/// int8: bitsandbytes' 8-bit states (Dettmers et al. 2021, arXiv:2110.02861), others Megatron-Core's.
enum class MomentDType { fp32, bf16, fp16, fp8, int8 };
/// "bf16".
constexpr const char* moment_dtype_name(MomentDType type) {
  constexpr const char* kNames[] = {"fp32", "bf16", "fp16", "fp8", "int8"};
  return kNames[static_cast<int>(type)];
}

/// Parameters by what an optimizer may do to them: matrices of layers, and embeddings, output layers and
/// vectors.
enum class ParameterClass { matrix, other };

/// Size of an orthogonal update of `rows` x `cols`: sqrt(max(rows, cols)), sqrt(rows/cols) or sqrt(max(1,
/// rows/cols)).
enum class MuonScale { spectral, unit_rms_norm, shape_scaling };
/// Coefficients of the Newton-Schulz steps: 3.4445, -4.7750, 2.0315, or those of the modded-nanogpt speedrun.
enum class MuonCoefficients { simple, quintic };
/// With tensor parallelism every rank's part of a matrix by itself, or the gathered matrix on every rank.
enum class MuonTensorMode { blockwise, duplicated };

/// Names and defaults are Megatron-LM's, with muon_ in front; the momentum is Megatron-Bridge's.
struct MuonConfig {
  double momentum = 0.95;
  bool nesterov = false;
  MuonScale scale_mode = MuonScale::spectral;
  double extra_scale_factor = 1;
  std::int64_t num_ns_steps = 5;
  MuonCoefficients coefficient_type = MuonCoefficients::quintic;
  MuonTensorMode tp_mode = MuonTensorMode::duplicated;
  bool split_qkv = true;  // queries, keys and values are matrices of their own
};

struct OptimizerConfig {
  Optimizer kind = Optimizer::adam;
  double learning_rate = 1e-4;
  double weight_decay = 0.1;
  double clip_grad = 1.0;  // global norm; 0: off
  double sgd_momentum = 0;
  MuonConfig muon{};
  /// Adam's moments, and master weights of which only the 16 bits are kept that bf16 weights lack
  /// (Megatron-Core's names, use_precision_aware_optimizer), or in bitsandbytes' 8 bits; not plumbline's own.
  MomentDType exp_avg_dtype = MomentDType::fp32;
  MomentDType exp_avg_sq_dtype = MomentDType::fp32;
  bool store_param_remainders = false;

  /// Numbers kept of every element of such a parameter, besides a master weight.
  int moments(ParameterClass of) const {
    switch (kind) {
      case Optimizer::sgd:
        return sgd_momentum > 0 ? 1 : 0;
      case Optimizer::lion:
        return 1;
      case Optimizer::muon:
        return of == ParameterClass::matrix ? 1 : 2;
      case Optimizer::adam:
        break;
    }
    return 2;
  }
  bool muons() const { return kind == Optimizer::muon; }
  /// Both moments in 8 bits by blocks: bitsandbytes has no other mixture.
  bool blockwise() const {
    return exp_avg_dtype == MomentDType::int8 || exp_avg_sq_dtype == MomentDType::int8;
  }
  bool lean() const {
    return exp_avg_dtype != MomentDType::fp32 || exp_avg_sq_dtype != MomentDType::fp32 ||
           store_param_remainders;
  }
};

/// "muon", as the key optimizer has it.
constexpr const char* optimizer_name(Optimizer kind) {
  constexpr const char* kNames[] = {"adam", "sgd", "lion", "muon"};
  return kNames[static_cast<int>(kind)];
}

}  // namespace plumbline
