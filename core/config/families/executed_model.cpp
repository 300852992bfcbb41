#include "core/config/families/executed_model.hpp"

#include <algorithm>

#include "core/config/config_checks.hpp"

namespace plumbline {

bool is_executed(const ModelConfig& model) {
  RunConfig config;
  config.model = model;
  config.model.prediction_modules = 0;  // a run's own choice: mtp_num_layers
  config.batch.seq_length = std::min<std::int64_t>(model.position.max, 64);
  return !why_invalid(config) && !why_unsupported(config);
}

}  // namespace plumbline
