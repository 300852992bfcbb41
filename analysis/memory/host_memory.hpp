// What is in the memory of the host between forward and backward (bench/training/offload.md).
#pragma once

#include <vector>

#include "analysis/work/shapes.hpp"
#include "core/base/units.hpp"
#include "core/schedule/repeated_schedule.hpp"

namespace plumbline {

/// What each of a stage's offloaded layers keeps of a micro-batch from forward to backward, from the first layer on.
std::vector<Bytes> offloaded_bytes(const StageShape& shape);

/// The most that pipeline rank `rank` has on the host at a time; `shapes` by stage.
Bytes host_peak(const std::vector<StageShape>& shapes, const RepeatedSchedule& step, int rank);

}  // namespace plumbline
