#include "analysis/size/sized_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "analysis/predict/predict.hpp"
#include "analysis/reliability/effective_time.hpp"
#include "analysis/reliability/goodput_simulation.hpp"
#include "analysis/stragglers/slow_machines.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"

namespace plumbline {
namespace {

constexpr double kSecondsPerDay = 86400;
constexpr double kHoursPerDay = 24;
constexpr double kNearlyAll = 0.9;  // of the largest batch

/// The largest multiple of `unit` up to `most`.
int multiple_below(int most, int unit) {
  return most / unit * unit;
}

/// The hours of a job by the parts of its steps.
GpuHours hours_of(const SizedJob& job, const StepTime& time) {
  const double all = job.days * kHoursPerDay * job.gpus;
  const double kept = all * job.effective / job.step.value;  // hours of a second of a step
  GpuHours hours;
  hours.compute = kept * time.compute.value;
  hours.tensor = kept * time.exposed_tensor.value;
  hours.pipeline = kept * time.exposed_pipeline.value;
  hours.data = kept * (time.exposed_data + time.exposed_offload).value;
  hours.optimizer = kept * time.optimizer.value;
  hours.slow = kept * (job.step - time.step).value;
  hours.failures = all - kept * job.step.value;
  // Parts of a step are means over ranks: what they leave of it is waiting.
  hours.pipeline += all - hours.sum();
  return hours;
}

struct ChosenLayout {
  Candidate best;
  bool complete = true;
};

std::optional<ChosenLayout> best_layout(const SizeQuestion& question, const RunConfig& config,
                                        std::string& why) {
  const SearchRequest request{.config = config,
                              .top = 1,
                              .threads = question.threads,
                              .limits = question.limits,
                              .wanted = question.wanted,
                              .stopped = question.stopped,
                              .deadline_s = question.deadline_s};
  const SearchResult result = search(request, question.hardware, question.make);
  if (!result.best.empty()) return ChosenLayout{result.best.front(), result.complete};
  const int gpus = config.parallel.world_size;
  why = result.configurations == 0 ? fmt::format("no layout of {} GPUs: {}", gpus, result.refused)
        : result.complete
            ? fmt::format("none of {} configurations on {} GPUs fits", result.configurations, gpus)
            : fmt::format("stopped among {} configurations on {} GPUs", result.configurations, gpus);
  return {};
}

/// The configuration itself.
std::optional<ChosenLayout> own_layout(const SizeQuestion& question, const RunConfig& config,
                                       std::string& why) {
  auto reason = why_invalid(config);
  if (!reason) reason = why_unpredictable(config, question.hardware);
  if (reason) {
    why = *reason;
    return {};
  }
  const Prediction prediction = predict(config, question.make(config), question.hardware);
  if (!prediction.fit.fits) {
    why = fmt::format("the configuration does not fit on {} GPUs", config.parallel.world_size);
    return {};
  }
  return ChosenLayout{{.keys = keys_of(config),
                       .peak = prediction.memory.peak,
                       .time = prediction.time,
                       .fit = prediction.fit,
                       .device = prediction.device ? prediction.device->fullest().total() : Bytes{},
                       .throughput = prediction.throughput}};
}

constexpr double kLeastEffective = 1e-3;  // a trial without progress has no days

/// Effective share of trials as long as the job, ascending; empty where none are simulated.
std::vector<double> effective_of_trials(const SizeQuestion& question, const SizedJob& job) {
  constexpr int kTrials = 400;
  constexpr double kMostFailures = 1e6;
  GoodputRequest request = question.job;
  if (request.recovery.elastic_groups) return {};
  const JobFailures failures = job_failures(request.fleet, job.gpus, request.recovery, request.checkpoint);
  TrialPlan plan;
  plan.trials = kTrials;
  plan.horizon = {job.days * kSecondsPerDay};
  if (!makes_progress(failures) || kTrials * (plan.horizon / failures.between) > kMostFailures) return {};
  const SavePlan saves =
      saves_of(request.checkpoint, request.interval.value_or(best_interval(failures, request.checkpoint)));
  return simulate_goodput(failures, saves, plan).effective;
}

}  // namespace

int batch_for(const BatchRange& range, int gpus) {
  constexpr std::array<int, 7> kShares = {1, 2, 4, 8, 16, 32, 64};
  for (const int share : kShares) {
    if (gpus % share != 0) continue;
    const int batch = multiple_below(range.most, gpus / share);
    if (batch >= range.least && batch >= kNearlyAll * range.most) return batch;
  }
  return range.most;
}

SizedJob job_of_step(const SizeQuestion& question, int gpus, int batch, const StepTime& time) {
  SizedJob job;
  job.gpus = gpus;
  job.batch = batch;
  job.step = slow_machines(time.step, gpus).expected;
  GoodputRequest request = question.job;
  request.gpus = gpus;
  request.step = job.step;
  request.tokens_per_step =
      static_cast<double>(batch) * static_cast<double>(question.config.batch.seq_length);
  job.effective = expected_effective(request);
  job.days = question.tokens / request.tokens_per_step * job.step.value / job.effective / kSecondsPerDay;
  job.hours = hours_of(job, time);
  if (request.prices.gpu_hour) job.cost = job.hours.sum() * *request.prices.gpu_hour;
  return job;
}

std::optional<SizedJob> size_job(const SizeQuestion& question, int gpus, std::string& why) {
  RunConfig config = question.config;
  config.parallel.world_size = gpus;
  config.batch.global_batch_size = batch_for(question.batch, gpus);
  std::optional<ChosenLayout> found;
  try {
    found = question.fixed ? own_layout(question, config, why) : best_layout(question, config, why);
  } catch (const InputError& error) {  // no layout of this many
    why = error.what();
  }
  if (!found) return {};
  SizedJob job =
      job_of_step(question, gpus, static_cast<int>(config.batch.global_batch_size), found->best.time);
  job.layout = found->best;
  job.complete = found->complete;
  if (!question.fixed) set_keys(found->best.keys, config);
  job.verdict = verdict_of(config, question.hardware, found->best.fit);
  if (question.hardware.accelerator() == nullptr) return job;
  const ComparableRuns runs(known_runs(), kind_of(config, question.hardware), "step_s");
  job.interval = runs.interval();
  if (job.interval) job.spread = spread_of(job, runs, effective_of_trials(question, job));
  return job;
}

JobSpread spread_of(const SizedJob& job, const ComparableRuns& runs, const std::vector<double>& effective) {
  const SlowMachines slow = slow_machines({1}, job.gpus);
  const auto times = [&](const Draw& draw) {
    const double machines = draw.slow < slow.probability ? SlowMachines::kFactor : 1;
    const auto trial = static_cast<std::size_t>(draw.failures * static_cast<double>(effective.size()));
    const double kept = effective.empty() ? job.effective : std::max(effective[trial], kLeastEffective);
    return runs.ratio_at(draw.step) * machines / slow.expected.value * job.effective / kept;
  };
  const auto spread = [&](double figure) {
    return drawn_interval([&](const Draw& draw) { return figure * times(draw); });
  };
  JobSpread all{spread(job.days), spread(job.hours.sum()), {}};
  if (job.cost) all.cost = spread(*job.cost);
  return all;
}

}  // namespace plumbline
