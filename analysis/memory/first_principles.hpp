// Closed forms from the literature that the exact memory model is cross-checked against. Bytes are plain
// doubles here: the formulas are continuous in the sizes.
#pragma once

#include <string>

#include "core/base/units.hpp"
#include "core/config/numerics_config.hpp"
#include "core/config/optimizer_config.hpp"
#include "core/config/recompute_config.hpp"

namespace plumbline {

/// Bytes that training keeps per parameter.
struct StateBytes {
  double parameter = 2;
  double gradient = 2;
  double optimizer = 12;  // K: fp32 master weight and Adam's two moments
};
/// 16-bit storage: 2, 2 or 4, and a master weight besides the moments; fp32: 4, 4 and the moments alone.
StateBytes state_bytes(DType precision, GradDType gradients, const OptimizerConfig& optimizer);

/// Bytes of model states on one rank.
struct ModelStates {
  double parameters = 0;
  double gradients = 0;
  double optimizer = 0;
  double total() const { return parameters + gradients + optimizer; }
};
/// Model states of `count` parameters under ZeRO (Rajbhandari et al., arXiv:1910.02054, §5). Optimizer
/// states are sharded over `data_parallel` ranks from stage 1 on, gradients from 2, parameters from 3.
ModelStates zero_model_states(double count, int zero_stage, double data_parallel, const StateBytes& bytes);
/// The same per parameter.
double zero_bytes_per_parameter(int zero_stage, double data_parallel, const StateBytes& bytes = {});
/// Its formula: "2 + (2 + 12)/D".
std::string zero_formula(int zero_stage, const StateBytes& bytes);

/// Sizes of the classic GPT layer with dropout and a kept s×s softmax.
struct ClassicLayer {
  double seq = 0;
  double batch = 0;
  double hidden = 0;
  double heads = 0;
  double tensor = 1;
  bool sequence_parallel = false;
};
/// Bytes of 16-bit activations one layer keeps (Korthikanti et al., arXiv:2205.05198, table 2). Full
/// recomputation keeps the input, 2·s·b·h.
double classic_activation_bytes(const ClassicLayer& layer, Recompute recompute);

/// Parameters of the layers of a GPT: 12·L·h², without biases, norms and vocabulary.
double classic_parameters(double layers, double hidden);
/// Activations kept by the first stage of interleaved 1F1B, in layers per layer of the model: 1 +
/// (P-1)/(P·V) (arXiv:2205.05198, §4.2.3; 1F1B is V = 1, and one stage keeps 1).
double first_stage_in_flight(double pipeline, double chunks);

/// Sizes of the modern layer: RMSNorm, grouped-query attention without stored scores, SwiGLU.
struct ModernLayer {
  double tokens = 0;  // s·b
  double hidden = 0;
  double query_width = 0;  // a·d
  double kv_width = 0;     // k·d
  double ffn = 0;
  double heads = 0;
  double element_bytes = 2;
  double tensor = 1;
  bool sequence_parallel = false;
  bool hidden_dropout = false;
  bool fp8 = false;
};
/// Bytes one modern layer keeps, derived from bench/training/README.md for a layer that owns its output. With
/// 16-bit storage: 8h + 4·a·d + 4·k·d + 6F + 4a + 8 per token, where 8 are the two fp32 norm statistics;
/// dropout adds 2h for its masks. Sequence parallelism splits 8h, 8 and the masks over tensor ranks; tensor
/// parallelism splits the rest. Selective recomputation drops the attention's output and its log-sum-exp;
/// full keeps the input. With fp8 the outputs of norms and activation have one byte per element: 6h + … +
/// 5F (bench/training/fp8.md; the 36 bytes of tensorwise scales are left out).
double modern_activation_bytes(const ModernLayer& layer, Recompute recompute);

}  // namespace plumbline
