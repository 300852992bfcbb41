// Derivation of stage shapes from configuration, schedule and training software.
#pragma once

#include <vector>

#include "analysis/step/software_of.hpp"
#include "analysis/step/stage_shape.hpp"
#include "core/config/run_config.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// Shapes of all stages of the schedule, every route of it, by stage number.
std::vector<StageShape> stage_shapes(const RunConfig& config, const Schedule& schedule);
/// The same with given traits instead of the named software's, which must outlive the shapes.
std::vector<StageShape> stage_shapes(const RunConfig& config, const Schedule& schedule,
                                     const Software& software);
/// Run of the teacher (which must exist) as if it were the model: the basis of its shapes and its routing.
RunConfig evaluated_teacher(const RunConfig& config);
/// Shapes of the teacher's stages, as evaluated forward only: neither ZeRO nor recomputation, dropout or
/// FP8. Empty without one.
std::vector<StageShape> teacher_shapes(const RunConfig& config, const Schedule& schedule);
/// Shapes of a model split into `stages`, each on a rank of its own; the vocabulary is not split over them.
std::vector<StageShape> stage_shapes(const RunConfig& config, int stages);

}  // namespace plumbline
