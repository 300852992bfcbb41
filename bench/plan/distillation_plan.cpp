#include "bench/plan/distillation_plan.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "analysis/memory/action_memory.hpp"
#include "analysis/memory/memory_model.hpp"
#include "analysis/step/step_model.hpp"
#include "analysis/time/stage/time_model.hpp"
#include "analysis/work/operator_list.hpp"
#include "core/schedule/schedule_traits.hpp"
#include "schedules/generators.hpp"
#include "schedules/make_schedule.hpp"
#include "schedules/passes.hpp"

namespace plumbline {
namespace {

Seconds flops_as_time(const std::vector<OperatorCall>& calls) {
  Flops sum;
  for (const OperatorCall& call : calls) sum += flops_of(call);
  return {sum.value};
}

DistillationTimes times_by_flops(const RunConfig& config) {
  const Schedule placement = distillation_abeja(config.parallel.pipeline, 1);
  DistillationTimes times;
  const StepModel model(config, placement);
  for (const StageShape& shape : model.shapes()) {
    times.forward.push_back(flops_as_time(forward_calls(shape)));
    times.backward.push_back(flops_as_time(backward_calls(shape)));
    times.backward_input.push_back(flops_as_time(backward_input_calls(shape)));
    times.backward_weight.push_back(flops_as_time(backward_weight_calls(shape)));
  }
  for (const StageShape& shape : model.teachers) {
    times.teacher.push_back(flops_as_time(forward_calls(shape)));
  }
  return times;
}

DistillationTimes times_by_hardware(const RunConfig& config, const HardwareProfile& hardware,
                                    const CompleteStep& complete) {
  const Schedule whole = distillation_abeja(config.parallel.pipeline, config.microbatches());
  const Costs costs = stage_costs(config, complete(whole), hardware).costs;
  const Costs split = stage_costs(config, complete(split_backward(whole)), hardware).costs;
  DistillationTimes times;
  for (const StageCosts& stage : costs.stages) {
    times.teacher.push_back(stage.teacher_forward);
    times.forward.push_back(stage.forward);
    times.backward.push_back(stage.backward);
  }
  for (const StageCosts& stage : split.stages) {
    times.backward_input.push_back(stage.backward_input);
    times.backward_weight.push_back(stage.backward_weight);
  }
  times.transfer = costs.transfer + costs.latency;
  times.teacher_transfer = costs.teacher_transfer.value_or(costs.transfer) + costs.latency;
  return times;
}

std::int64_t of_student(const MemoryBreakdown& bytes) {
  return bytes[Category::activations].value + bytes[Category::logits].value;
}

/// Bytes of one teacher output that waits for its loss.
std::int64_t output_bytes(const StageShape& last_of_teacher) {
  std::int64_t bytes =
      action_profile(last_of_teacher, ActionType::teacher_forward, false).net[Category::teacher].value;
  if (!last_of_teacher.place.first) {
    bytes += action_profile(last_of_teacher, ActionType::receive_teacher).net[Category::teacher].value;
  }
  return bytes;
}

/// Peaks by pipeline rank.
std::vector<std::int64_t> peaks_of(const RunConfig& config, const Schedule& step) {
  std::vector<std::int64_t> peaks(static_cast<std::size_t>(step.ranks), 0);
  for (const RankMemory& rank : predict_memory(config, step).ranks) {
    std::int64_t& peak = peaks[static_cast<std::size_t>(rank.pipeline_rank)];
    peak = std::max(peak, rank.peak.total().value);
  }
  return peaks;
}

/// Makes bubble-fill fit.
class FillWithinMemory {
 public:
  FillWithinMemory(const RunConfig& config, const CompleteStep& complete)
      : config_(config), complete_(complete), ranks_(config.parallel.pipeline) {
    request_.name = config.distillation.schedule;
    request_.ranks = ranks_;
    request_.microbatches = config.microbatches();
    std::int64_t budget = config.machine.memory_budget.value;
    if (config.machine.hardware.empty()) {
      request_.distillation = times_by_flops(config);
    } else {
      HardwareProfile hardware = load_hardware(config.machine.hardware);
      if (config.machine.backend == Backend::emulated) hardware.unshare_processors();
      if (budget == 0) budget = hardware.memory.value;
      request_.distillation = times_by_hardware(config, hardware, complete);
    }
    bound(budget);
  }

  Schedule run() {
    make_room();
    Schedule schedule = make_schedule(request_);
    // The room is counted in activations; other memory is only known for a whole schedule.
    while (tighten(peaks_of(config_, complete_(schedule)))) schedule = make_schedule(request_);
    return schedule;
  }

 private:
  std::int64_t activations_of_abeja(std::size_t rank) const {
    return std::min<std::int64_t>(ranks_ - static_cast<std::int64_t>(rank), request_.microbatches);
  }

  /// K, and the bound for every rank.
  void bound(std::int64_t budget) {
    const Schedule abeja = distillation_abeja(ranks_, request_.microbatches);
    peaks_ = peaks_of(config_, complete_(abeja));
    const std::int64_t output = output_bytes(StepModel(config_, abeja).teachers.back());
    std::int64_t cached = config_.distillation.cache_limit;
    if (cached == 0) {
      // More than two per rank are no use to the order.
      cached = std::min<std::int64_t>(request_.microbatches, 2 * std::int64_t{ranks_});
      if (budget > 0) cached = std::min(cached, 1 + (budget - std::min(budget, peaks_.back())) / output);
    }
    request_.cached_outputs = cached;
    std::int64_t most = *std::max_element(peaks_.begin(), peaks_.end()) + cached * output;
    if (budget > 0) most = std::min(most, budget);
    most_.assign(peaks_.size(), most);
    most_.back() = std::max(most_.back(), peaks_.back() + (cached - 1) * output);
    for (std::size_t r = 0; r < peaks_.size(); ++r) most_[r] = std::max(most_[r], peaks_[r]);
    peaks_.back() += (cached - 1) * output;
  }

  /// As many activations as fit with the rest, P at most.
  void make_room() {
    DistillationRoom room;
    const Schedule placement = distillation_abeja(ranks_, 1);
    const StepModel model(config_, placement);
    for (const StageShape& shape : model.shapes()) {
      const std::size_t r = room.activations.size();
      const auto weight =
          static_cast<double>(of_student(action_profile(shape, ActionType::backward_weight).net));
      const auto both =
          weight + static_cast<double>(of_student(action_profile(shape, ActionType::backward_input).net));
      const double more = static_cast<double>(most_[r] - peaks_[r]) / std::max(1.0, -both);
      const double fits = static_cast<double>(activations_of_abeja(r)) + more;
      room.activations.push_back(std::min<double>(fits, ranks_));
      room.deferred.push_back(both < 0 ? weight / both : 1);
      room.may_split.push_back(true);
      activation_.push_back(std::max(1.0, -both));
    }
    request_.distillation_room = room;
  }

  /// Takes room from ranks that need more than they may; at abeja's number of activations they get whole
  /// backwards, as abeja has them. False when there was nothing to take.
  bool tighten(const std::vector<std::int64_t>& peaks) {
    DistillationRoom& room = *request_.distillation_room;
    bool changed = false;
    for (std::size_t r = 0; r < peaks.size(); ++r) {
      if (peaks[r] <= most_[r] || !room.may_split[r]) continue;
      const auto least = static_cast<double>(activations_of_abeja(r));
      double& activations = room.activations[r];
      if (activations > least) {
        const double less = activations - static_cast<double>(peaks[r] - most_[r]) / activation_[r];
        activations = std::max(least, std::min(less, std::ceil(activations) - 1));
      } else {
        room.may_split[r] = false;
      }
      changed = true;
    }
    return changed;
  }

  const RunConfig& config_;
  const CompleteStep& complete_;
  int ranks_;
  ScheduleRequest request_;
  std::vector<std::int64_t> peaks_;  // abeja's by rank, with K outputs
  std::vector<std::int64_t> most_;   // bytes that each rank may reach
  std::vector<double> activation_;   // bytes of one micro-batch by rank
};

}  // namespace

Schedule distillation_schedule_for(const RunConfig& config, const CompleteStep& complete) {
  if (schedule_traits(config.distillation.schedule).order == OrderFrom::distillation_times)
    return FillWithinMemory(config, complete).run();
  ScheduleRequest request;
  request.name = config.distillation.schedule;
  request.ranks = config.parallel.pipeline;
  request.microbatches = config.microbatches();
  return make_schedule(request);
}

}  // namespace plumbline
