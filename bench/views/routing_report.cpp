#include "bench/views/routing_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/evaluate/plan.hpp"
#include "core/base/byte_text.hpp"
#include "core/base/error.hpp"

namespace plumbline {

RoutingInterval routing_interval(const RunConfig& config, int routings, Bytes budget) {
  const Schedule schedule = schedule_for(config);
  const std::vector<StageShape> shapes = stage_shapes(config, schedule);
  if (std::none_of(shapes.begin(), shapes.end(),
                   [](const StageShape& s) { return s.depends_on_routing(); })) {
    throw InputError(fmt::format(
        "--routings: found {}, whose memory is the same whatever the routing is; expected a mixture with "
        "expert_model_parallel_size above 1, fp8_format or moe_expert_capacity_factor, not padded",
        config.model.name));
  }
  if (config.spreads_teacher_experts()) {
    throw InputError(fmt::format(
        "--routings: found the teacher {} with experts on several ranks, whose routings are not drawn; "
        "expected a dense one, or none",
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
      "memory over {} random routings, as likely as moe_routing {} says: 99.6 % of steps need {} to {} ({} "
      "to {} bytes), half of "
      "them at most {}\n",
      interval.routings, config.mixture.routing, bytes(interval.low), bytes(interval.high),
      interval.low.value, interval.high.value, bytes(interval.half));
  if (budget.value > 0) {
    text += fmt::format("{:.2f} % of steps need more than the {} there are\n", 100 * interval.over_budget,
                        bytes(budget));
  }
  return text;
}

}  // namespace plumbline
