// Activations offloaded to host memory between forward and backward (bench/training/offload.md).
#pragma once

#include <vector>

#include "analysis/step/stage_shape.hpp"
#include "analysis/work/routing/routed_rows.hpp"
#include "core/base/units.hpp"
#include "core/schedule/repeated_schedule.hpp"

namespace plumbline {

/// Bytes per micro-batch that each of a stage's offloaded layers keeps from forward to backward, first layer
/// first.
std::vector<Bytes> offloaded_bytes(const StageShape& shape);

/// The most that pipeline rank `rank` has on the host at a time; `shapes` by stage. `rows`: of a known
/// routing, of a step that does not repeat; null: micro-batches are alike.
Bytes host_peak(const std::vector<StageShape>& shapes, const RepeatedSchedule& step, int rank,
                const RoutedRows* rows = nullptr);

}  // namespace plumbline
