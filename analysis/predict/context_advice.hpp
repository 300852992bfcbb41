// What the ways in which ranks share a sequence would cost.
#pragma once

#include <string>

#include "analysis/predict/predict.hpp"

namespace plumbline {

/// Lines for people: the step with every cp_comm_type that can be predicted, how much of it the ranks of a tensor or
/// context group wait for each other, the memory of the fullest rank, and why others cannot be. Empty where sequences are not shared, where there is
/// nothing to choose, and for more than 1024 pipeline ranks × micro-batches.
std::string context_report(const RunConfig& config, const RepeatedSchedule& step,
                           const Prediction& prediction, const HardwareProfile& hardware);

}  // namespace plumbline
