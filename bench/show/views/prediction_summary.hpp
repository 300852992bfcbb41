// First lines of `predict`: the question, the verdict, and memory by pipeline rank.
#pragma once

#include <string>

#include "analysis/predict/predict.hpp"
#include "analysis/published/comparable_figures.hpp"
#include "bench/record/record.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// Model, accelerators, parallel sizes, batch, precision, sharding, recomputation and software; the step
/// beside that of comparable runs; "fits: 50.1 of 79.2 GiB (63 %), largest: activations", "tight" where
/// comparable runs would make the other verdict; a line per pipeline rank, equal neighbours in one, in tables
/// of `width` columns (0: no limit). `record` is the prediction's.
std::string prediction_summary(const RunConfig& config, const Record& record, const Prediction& prediction,
                               const ComparableFigures& comparable, int width = 0);

}  // namespace plumbline
