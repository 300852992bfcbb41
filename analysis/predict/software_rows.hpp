// Refusals by the arguments that software has (SoftwareArguments).
#pragma once

#include <optional>
#include <span>
#include <string>

#include "analysis/hardware/software.hpp"
#include "analysis/predict/prediction_row.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// Rows of prediction_rows(), in the order in which they are asked.
std::span<const PredictionRow> software_rows();

/// Highest ZeRO stage that the software has with these parallel sizes.
int most_zero_stage(const RunConfig& config);

/// Stages of the model, those of all ranks and chunks. Empty for a schedule from a file.
std::optional<int> model_stages(const RunConfig& config);

}  // namespace plumbline
