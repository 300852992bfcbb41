#include "bench/ask/schedule_answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "analysis/simulate/costs_json.hpp"
#include "analysis/simulate/simulator.hpp"
#include "bench/ask/schedule_source.hpp"
#include "bench/ask/simulation_json.hpp"
#include "core/base/error.hpp"
#include "core/schedule_text/schedule_text.hpp"
#include "core/trace/trace_files.hpp"
#include "core/validate/validate.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kMostCells = 100'000;  // pipeline ranks × micro-batches × chunks of a reply
constexpr double kMostActivations = 1e9;

ScheduleSource source_of(const OrderedJsonKeys& request) {
  constexpr int kMostRanks = 65535;
  constexpr int kMostMicrobatches = 1 << 24;
  ScheduleSource source;
  source.name_or_file = request.string("name");
  source.pp = static_cast<int>(request.integer_or("pp", kMostRanks, 1));
  source.microbatches = static_cast<int>(request.integer_or("microbatches", kMostMicrobatches, 1));
  source.chunks = static_cast<int>(request.integer_or("chunks", 0, kMostRanks, 0));
  source.group = static_cast<int>(request.integer_or("group", 0, kMostMicrobatches, 0));
  source.memory_limit = request.number_or("memory_limit", 1, kMostActivations, 0);
  source.transfers = request.boolean_or("transfers", false);
  const std::int64_t cells =
      std::int64_t{source.pp} * source.microbatches * std::max<std::int64_t>(source.chunks, 1);
  if (cells > kMostCells) {
    throw InputError(
        fmt::format("microbatches: found {} with {} pipeline ranks and {} chunks, expected at most {} passes "
                    "in all; use fewer micro-batches",
                    source.microbatches, source.pp, std::max(source.chunks, 1), kMostCells));
  }
  check_schedule_name(source.name_or_file);
  return source;
}

OrderedJson simulated(const Schedule& schedule, const Costs& costs) {
  const Trace trace = simulate(schedule, costs);
  const SimulationReport report = report_of(schedule, costs, trace);
  return {{"simulation", simulation_json(report, critical_path(schedule, costs))},
          {"svg", to_svg(schedule, trace)}};
}

}  // namespace

OrderedJson schedule_answer(const OrderedJsonKeys& request) {
  const ScheduleSource source = source_of(request);
  request.refuse_unknown();
  const Schedule schedule = source.load();
  validate(schedule);
  const Schedule timed = source.load_to_simulate(source.name_or_file, nullptr);
  OrderedJson json = {{"schedule", OrderedJson::parse(to_json(schedule))}};
  json.update(simulated(timed, unit_costs(timed)));
  return json;
}

OrderedJson simulate_answer(const OrderedJsonKeys& request) {
  const ScheduleSource source = source_of(request);
  const OrderedJson* given = request.find("costs");
  if (given == nullptr || !given->is_object()) request.refuse("costs", "a JSON object");
  const std::string text = given->dump();
  request.refuse_unknown();
  Schedule schedule = source.load_to_simulate(source.name_or_file, nullptr);
  const Costs costs = parse_costs_json(text, "costs", schedule);
  schedule = source.load_to_simulate(source.name_or_file, &costs);
  validate(schedule);
  return simulated(schedule, costs);
}

}  // namespace plumbline
