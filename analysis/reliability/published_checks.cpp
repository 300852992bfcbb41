#include "analysis/reliability/published_checks.hpp"

#include <cmath>

#include "analysis/hardware/embedded.hpp"
#include "analysis/reliability/fleet.hpp"
#include "analysis/reliability/job_failures.hpp"
#include "core/base/json_keys.hpp"

namespace plumbline {
namespace {

/// A fleet of one node a GPU, in which a node fails this often.
Seconds between_failures(double nodes, double per_node_day) {
  Fleet fleet;
  fleet.gpus_per_node = 1;
  fleet.causes = {{"node", per_node_day}};
  return fleet.time_between_failures(nodes);
}

double checkpoint_bytes(double parameters) {
  return static_cast<double>(kCheckpointBytesPerParameter) * parameters;
}

double computed(const std::string& law, const JsonKeys& inputs, const JsonKeys& check) {
  constexpr double kTiB = 1024 * kBytesPerGiB;
  const auto input = [&](const char* key) { return inputs.number(key, 1e-9, 1e15); };
  if (law == "hours_between") return 24 * input("days") / input("failures");
  if (law == "per_1000_node_days") return 1000 * input("failures") / (input("days") * input("nodes"));
  if (law == "hours_of_rate" || law == "minutes_of_rate") {
    const Seconds between = between_failures(input("nodes"), input("per_1000_node_days") / 1000);
    return between.value / (law == "hours_of_rate" ? 3600 : 60);
  }
  if (law == "checkpoint_gib") return checkpoint_bytes(input("parameters")) / kBytesPerGiB;
  if (law == "checkpoint_tib") return checkpoint_bytes(input("parameters")) / kTiB;
  check.refuse("law", "a law of published_checks.cpp");
}

PublishedCheck check_of(const JsonKeys& keys) {
  PublishedCheck check;
  check.quantity = keys.string("quantity");
  check.unit = keys.string("unit");
  check.source = keys.string("source");
  check.printed = keys.number("printed");
  check.measured = keys.boolean_or("measured", false);
  check.why = keys.string_or("why", "");
  if (!check.why.empty()) return check;
  check.computed = computed(keys.string("law"), keys.object("inputs"), keys);
  const double rounding =
      keys.number("rounding", 0, 1e9) + *check.computed * keys.number_or("input_rounding", 0, 1, 0);
  check.within = std::abs(*check.computed - check.printed) <= rounding;
  return check;
}

}  // namespace

std::vector<PublishedCheck> published_checks() {
  const Json file =
      parse_json_object(embedded_text(analysis_files(), "published_checks.json"), "published_checks.json");
  std::vector<PublishedCheck> checks;
  const JsonKeys keys(file, "published_checks.json");
  const std::vector<JsonKeys> list = keys.objects("checks");
  checks.reserve(list.size());
  for (const JsonKeys& each : list) checks.push_back(check_of(each));
  return checks;
}

}  // namespace plumbline
