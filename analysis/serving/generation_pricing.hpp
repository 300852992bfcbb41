// Time of passes of generation on a replica's stages.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/serving/inference_engine.hpp"
#include "analysis/step/stage_shape.hpp"
#include "analysis/time/stage/cost_lines.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// A training step's configuration with the same layers, for `seq` tokens of every sequence: its forward is
/// that of a pass.
RunConfig generation_pass(const RunConfig& config, std::int64_t seq);

/// Stages of a pass, with the windows of sequences of seq_length tokens.
std::vector<StageShape> generation_shapes(const RunConfig& config, std::int64_t seq);

/// `touched`: parameters and cache of a rank of every stage. Configuration and hardware must outlive it.
class GenerationPricing {
 public:
  GenerationPricing(const RunConfig& config, const HardwareProfile& hardware, std::vector<Bytes> touched)
      : config_(config), hardware_(hardware), touched_(std::move(touched)) {}

  /// One pass of all new tokens of `shapes` behind `past` ones, through all stages; its lines, if wanted.
  Seconds pass(const std::vector<StageShape>& shapes, std::int64_t past, const std::string& phase,
               std::vector<CostLine>* lines) const;
  /// Least time of a decoding step: reading parameters and cache.
  Seconds bound(const std::vector<StageShape>& shapes, std::int64_t length) const;

 private:
  Seconds stage_seconds(const StageShape& shape, std::int64_t past, CostLines& explained) const;
  /// Time of an engine's host that the GPUs wait for, besides `kernels` calls that take `device`.
  Seconds host_seconds(bool decoding, double kernels, Seconds device) const;
  Seconds message_after(const StageShape& shape) const;

  const RunConfig& config_;
  const HardwareProfile& hardware_;
  const std::vector<Bytes> touched_;
  const InferenceEngine& engine_ = inference_engine(config_.machine.software);
};

}  // namespace plumbline
