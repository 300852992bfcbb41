#include "analysis/first_principles.hpp"

namespace plumbline {

double zero_bytes_per_parameter(int zero_stage, double data_parallel, double parameter_bytes,
                                double gradient_bytes, double optimizer_bytes) {
  const double optimizer = zero_stage >= 1 ? optimizer_bytes / data_parallel : optimizer_bytes;
  const double gradient = zero_stage >= 2 ? gradient_bytes / data_parallel : gradient_bytes;
  const double parameter = zero_stage >= 3 ? parameter_bytes / data_parallel : parameter_bytes;
  return parameter + gradient + optimizer;
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

double modern_activation_bytes_per_token(double hidden, double query_width, double kv_width, double ffn,
                                         double heads) {
  return 8 * hidden + 4 * query_width + 4 * kv_width + 6 * ffn + 4 * heads + 8;
}

}  // namespace plumbline
