// A prediction of task `generate`, as text and as JSON.
#pragma once

#include <string>

#include "analysis/hardware/hardware.hpp"
#include "analysis/predict/generation.hpp"
#include "core/base/json_keys.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// Configuration, verdict, memory by pipeline rank, times, throughput, and the basis of the figures.
std::string generation_text(const RunConfig& config, const HardwareProfile& hardware,
                            const GenerationPrediction& prediction);

/// {"config", "fits", "limit_bytes", "memory": {"peak_bytes", "peak_rank", "ranks": [{"pipeline_rank",
/// "parameters_bytes", "cache_bytes", "workspace_bytes", "total_bytes"}]}, "time": {"prefill_s",
/// "decode": [{"length", "step_s", "bound_s"}], "decode_s", "total_s"}, "throughput": {"tokens_per_s",
/// "tokens_per_s_per_gpu", "decode_tokens_per_s"}, "trust": {"parameters_and_cache", "workspace", "time"}}.
OrderedJson generation_json(const RunConfig& config, const HardwareProfile& hardware,
                            const GenerationPrediction& prediction);

}  // namespace plumbline
