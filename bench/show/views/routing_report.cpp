#include "bench/show/views/routing_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/step/step_model.hpp"
#include "bench/plan/plan.hpp"
#include "core/base/byte_text.hpp"
#include "core/base/error.hpp"

namespace plumbline {

RoutingInterval routing_interval(const RunConfig& config, int routings, Bytes budget) {
  const Schedule schedule = schedule_for(config);
  const StepModel model(config, schedule);
  const std::vector<StageShape>& shapes = model.shapes();
  if (std::none_of(shapes.begin(), shapes.end(),
                   [](const StageShape& s) { return s.depends_on_routing(); })) {
    throw InputError(fmt::format(
        "--routings: found {}, whose memory does not depend on routing; expected an MoE model with "
        "expert_model_parallel_size above 1, fp8_format or moe_expert_capacity_factor, not padded",
        config.model.name));
  }
  if (config.spreads_teacher_experts()) {
    throw InputError(fmt::format(
        "--routings: found the teacher {} with experts on several ranks; expected a dense teacher or none",
        config.distillation.teacher->name));
  }
  const MeanLoad load = mean_load(config, given_routing(config));
  return interval_of(needs_of_routings(config, schedule, load, routings, config.measure.seed), budget);
}

OrderedJson to_json(const RoutingInterval& interval) {
  return {{"routings", interval.routings},
          {"low_bytes", interval.low.value},
          {"half_bytes", interval.half.value},
          {"high_bytes", interval.high.value},
          {"share_over_budget", interval.over_budget}};
}

std::string describe(const RoutingInterval& interval, const RunConfig& config, Bytes budget) {
  const auto bytes = [](Bytes b) { return readable_bytes(static_cast<double>(b.value)); };
  std::string text = fmt::format(
      "peak memory over {} random routings with the mean load of moe_routing {}: 99.6 % interval {} to {} "
      "({} "
      "to {} bytes), median {}\n",
      interval.routings, config.mixture.routing, bytes(interval.low), bytes(interval.high),
      interval.low.value, interval.high.value, bytes(interval.half));
  if (budget.value > 0) {
    text +=
        fmt::format("{:.2f} % of steps exceed the budget of {}\n", 100 * interval.over_budget, bytes(budget));
  }
  return text;
}

}  // namespace plumbline
