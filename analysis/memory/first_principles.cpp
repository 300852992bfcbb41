#include "analysis/memory/first_principles.hpp"

#include <fmt/format.h>

namespace plumbline {

StateBytes state_bytes(DType precision, GradDType gradients, const OptimizerConfig& optimizer) {
  StateBytes bytes;
  bytes.parameter = static_cast<double>(size_of(precision));
  bytes.gradient = gradients == GradDType::fp32 ? 4 : bytes.parameter;
  const double moments = 4 * optimizer.moments(ParameterClass::matrix);
  const double master = precision == DType::fp32 ? 0 : 4;
  bytes.optimizer = moments + master;
  return bytes;
}

ModelStates zero_model_states(double count, int zero_stage, double data_parallel, const StateBytes& bytes) {
  const auto share = [&](int from_stage) { return zero_stage >= from_stage ? 1 / data_parallel : 1; };
  return {count * bytes.parameter * share(3), count * bytes.gradient * share(2),
          count * bytes.optimizer * share(1)};
}

double zero_bytes_per_parameter(int zero_stage, double data_parallel, const StateBytes& bytes) {
  return zero_model_states(1, zero_stage, data_parallel, bytes).total();
}

std::string zero_formula(int zero_stage, const StateBytes& bytes) {
  const double p = bytes.parameter;
  const double g = bytes.gradient;
  const double k = bytes.optimizer;
  switch (zero_stage) {
    case 0:
      return fmt::format("{} + {} + {}", p, g, k);
    case 1:
      return fmt::format("{} + {} + {}/D", p, g, k);
    case 2:
      return fmt::format("{} + ({} + {})/D", p, g, k);
    default:
      return fmt::format("({} + {} + {})/D", p, g, k);
  }
}

double classic_activation_bytes(const ClassicLayer& layer, Recompute recompute) {
  const double tokens_hidden = layer.seq * layer.batch * layer.hidden;
  const double scores = 5 * layer.heads * layer.seq / layer.hidden;
  const double t = layer.tensor;
  if (recompute == Recompute::full) return 2 * tokens_hidden / (layer.sequence_parallel ? t : 1);
  const double kept_scores = recompute == Recompute::selective ? 0 : scores;
  if (layer.sequence_parallel) return tokens_hidden / t * (34 + kept_scores);
  return tokens_hidden * (10 + 24 / t + kept_scores / t);
}

double classic_parameters(double layers, double hidden) {
  return 12 * layers * hidden * hidden;
}

double first_stage_in_flight(double pipeline, double chunks) {
  return 1 + (pipeline - 1) / (pipeline * chunks);
}

double modern_activation_bytes(const ModernLayer& layer, Recompute recompute) {
  const double e = layer.element_bytes;
  const double rows = layer.tokens / (layer.sequence_parallel ? layer.tensor : 1);
  if (recompute == Recompute::full) return rows * e * layer.hidden;
  // Two norm outputs, the middle and the output of the layer, two fp32 statistics and two masks.
  const double masks = layer.hidden_dropout ? 2 * layer.hidden : 0;
  const double read = layer.fp8 ? 1 : e;  // bytes of an element that a product reads
  const double stream = rows * (2 * (e + read) * layer.hidden + 8 + masks);
  const double attention = e * layer.query_width + 4 * layer.heads;
  const double kept_attention = recompute == Recompute::selective ? 0 : attention;
  const double qkv = e * (layer.query_width + 2 * layer.kv_width);
  return stream + layer.tokens * (qkv + kept_attention + (2 * e + read) * layer.ffn) / layer.tensor;
}

}  // namespace plumbline
