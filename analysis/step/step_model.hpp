// The one description of a step: derived once from configuration, schedule and training software, and handed
// on to memory, work, time and advice.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "analysis/step/stage_kinds.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "core/config/run_config.hpp"
#include "core/parallel/layout.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// References are kept.
struct StepModel {
  /// Throws InputError for unknown software, or a mixture that it does not describe.
  StepModel(const RunConfig& run, const Schedule& step) : StepModel(run, step, software_of(run)) {}
  /// The same with given traits instead of those that `software` names.
  StepModel(const RunConfig& run, const Schedule& step, const Software& traits)
      : config(run),
        schedule(step),
        layout(run.layout()),
        software(traits),
        kinds(stage_shapes(run, step, traits), step),
        teachers(teacher_shapes(run, step)) {}

  /// By stage of the schedule.
  const std::vector<StageShape>& shapes() const { return kinds.shapes; }
  /// Any of them, for what all stages share.
  const StageShape& any() const { return kinds.shapes.front(); }
  /// The stages of one part of the model, in order.
  std::span<const StageShape> route() const {
    return std::span(kinds.shapes).first(static_cast<std::size_t>(schedule.stages_per_route()));
  }

  const RunConfig& config;
  const Schedule& schedule;
  const Layout layout;
  const Software& software;
  StageKinds kinds;
  const std::vector<StageShape> teachers;  // evaluated forward only; empty without distillation
};

}  // namespace plumbline
