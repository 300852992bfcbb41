#include "bench/ask/schedule_source.hpp"

#include <fmt/format.h>

#include "analysis/simulate/simulator.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/schedule/schedule_traits.hpp"
#include "core/schedule_text/schedule_text.hpp"
#include "schedules/make_schedule.hpp"
#include "schedules/passes.hpp"

namespace plumbline {
namespace {

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

/// Mean over the stages.
VocabTimes vocab_times(const Costs& costs) {
  VocabTimes times{{0}, {0}, {0}, {0}, {0}, {0}};
  const double share = 1.0 / static_cast<double>(costs.stages.size());
  for (const StageCosts& stage : costs.stages) {
    times.forward += stage.forward * share;
    times.backward += stage.backward * share;
    times.backward_input += stage.backward_input * share;
    times.backward_weight += stage.backward_weight * share;
    times.vocab_forward += stage.vocab_forward * share;
    times.vocab_backward += stage.vocab_backward * share;
    times.input_forward += stage.input_forward * share;
    times.input_backward += stage.input_backward * share;
  }
  times.transfer = costs.transfer + costs.latency;
  return times;
}

ZeroBubbleCosts zero_bubble_costs(const Costs& costs) {
  ZeroBubbleCosts result;
  for (const StageCosts& stage : costs.stages) {
    result.forward.push_back(stage.forward);
    result.backward_input.push_back(stage.backward_input);
    result.backward_weight.push_back(stage.backward_weight);
  }
  result.transfer = costs.transfer + costs.latency;
  return result;
}

DistillationTimes distillation_times(const Costs& costs) {
  DistillationTimes result;
  for (const StageCosts& stage : costs.stages) {
    result.teacher.push_back(stage.teacher_forward);
    result.forward.push_back(stage.forward);
    result.backward.push_back(stage.backward);
    result.backward_input.push_back(stage.backward_input);
    result.backward_weight.push_back(stage.backward_weight);
  }
  result.transfer = costs.transfer + costs.latency;
  result.teacher_transfer = costs.teacher_transfer.value_or(costs.transfer) + costs.latency;
  return result;
}

}  // namespace

bool is_schedule_file(const std::string& name) {
  return ends_with(name, ".csv") || ends_with(name, ".json");
}

void check_schedule_name(const std::string& name) {
  if (is_schedule_file(name) || find_schedule_traits(name) != nullptr) return;
  throw InputError(
      fmt::format("schedule: found the unknown schedule \"{}\", expected one such as {}; `plumbline schedule "
                  "--list` names all; a file ends in .csv or .json",
                  printable(name), nearest_name(name, schedule_names())));
}

void ScheduleSource::check_limits() const {
  const std::string& name = name_or_file;
  const bool named = !is_schedule_file(name);
  const auto refuse = [&](std::string_view what, double found, std::string_view expected) {
    throw InputError(
        fmt::format("schedule: {}: found {} with {}, expected {}", what, found, printable(name), expected));
  };
  if (group > 0 && !(named && schedule_traits(name).any_chunks()))
    refuse("group", group, "an interleaved schedule, which has groups of micro-batches");
  if (memory_limit > 0 && !(named && schedule_traits(name).order == OrderFrom::zero_bubble_times))
    refuse("memory limit", memory_limit, "zb-auto, whose order follows it");
}

Schedule ScheduleSource::load() const {
  check_limits();
  return load(name_or_file, nullptr);
}

Schedule ScheduleSource::load(const std::string& name, const Costs* costs) const {
  if (is_schedule_file(name)) {
    const Schedule schedule = load_schedule(name);
    return transfers ? add_transfers(schedule) : schedule;
  }
  ScheduleRequest request;
  request.name = name;
  request.ranks = pp;
  request.microbatches = microbatches;
  const ScheduleTraits traits = schedule_traits(name);
  request.chunks = traits.any_chunks() || name == name_or_file ? chunks : 0;
  request.group = group;
  const bool fitting = costs != nullptr && costs->stages.size() == static_cast<std::size_t>(pp);
  if (fitting && traits.order == OrderFrom::zero_bubble_times)
    request.zero_bubble = zero_bubble_costs(*costs);
  if (fitting && traits.order == OrderFrom::distillation_times)
    request.distillation = distillation_times(*costs);
  if (costs != nullptr && default_chunks(name) > 0 && vocab_times(*costs).vocab_forward.value > 0) {
    request.vocab_times = vocab_times(*costs);
  }
  if (memory_limit > 0) {
    if (!request.zero_bubble) {
      const auto ranks = static_cast<std::size_t>(pp);
      request.zero_bubble.emplace();
      request.zero_bubble->forward.assign(ranks, {1});
      request.zero_bubble->backward_input.assign(ranks, {1});
      request.zero_bubble->backward_weight.assign(ranks, {1});
    }
    request.zero_bubble->memory_limit = memory_limit;
  }
  const Schedule schedule = make_schedule(request);
  return transfers ? add_transfers(schedule) : schedule;
}

Schedule ScheduleSource::load_to_simulate(const std::string& name, const Costs* costs) const {
  Schedule schedule = load(name, costs);
  return !transfers && ends_with(name, ".csv") && has_send_waits(name) ? drop_transfers(schedule) : schedule;
}

Costs unit_costs(const Schedule& schedule) {
  const double share = static_cast<double>(schedule.ranks) / schedule.stages_per_route();
  return uniform_costs(schedule.stages, {.forward = {share},
                                         .backward = {2 * share},
                                         .backward_input = {share},
                                         .backward_weight = {share},
                                         .teacher_forward = {share},
                                         .vocab_forward = {0.25},
                                         .vocab_backward = {0.25},
                                         .input_forward = {0.05},
                                         .input_backward = {0.05}});
}

}  // namespace plumbline
