// Cost of every way to split a sequence over context-parallel ranks.
#pragma once

#include <string>

#include "analysis/predict/predict.hpp"

namespace plumbline {

/// Report text: for every cp_comm_type its step time, exposed communication of tensor and context groups, and
/// memory of the fullest rank, or why it cannot be predicted. Empty without context parallelism, without an
/// alternative, and for more than 1024 pipeline ranks × micro-batches.
std::string context_report(const RunConfig& config, const RepeatedSchedule& step,
                           const Prediction& prediction, const HardwareProfile& hardware);

}  // namespace plumbline
