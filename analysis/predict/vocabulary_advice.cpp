#include "analysis/predict/vocabulary_advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"

namespace plumbline {
namespace {

constexpr int kCheap = 1024;  // pipeline ranks × micro-batches whose prediction takes a millisecond or two
constexpr double kWorthAdvising = 0.99;  // of the step time

/// The heaviest over the mean, and where it is.
std::pair<double, int> heaviest(const std::vector<double>& loads) {
  double sum = 0;
  for (const double load : loads) sum += load;
  if (sum <= 0) return {1, 0};
  const auto most = std::max_element(loads.begin(), loads.end());
  return {*most * static_cast<double>(loads.size()) / sum, static_cast<int>(most - loads.begin())};
}

struct VocabularyPlacement {
  VocabPasses vocabulary;
  const char* layers;
};
constexpr VocabularyPlacement kPlacements[] = {{VocabPasses::one_barrier, "even"},
                                               {VocabPasses::two_barriers, "even"},
                                               {VocabPasses::none, "balanced"},
                                               {VocabPasses::none, "even"}};

std::string name_of(const RunConfig& config) {
  return config.parallel.splits_vocabulary()
             ? fmt::format("vocab_parallel: {}", vocab_parallel_name(config.parallel.pp.vocab_parallel))
             : fmt::format("layer_distribution: {}{}", config.parallel.pp.layer_distribution,
                           " without vocab_parallel");
}

struct Alternative {
  RunConfig config;
  Prediction prediction;
};

bool better(const Prediction& a, const Prediction& b) {
  if (a.fit.fits != b.fit.fits) return a.fit.fits;
  return a.time.step < b.time.step * kWorthAdvising;
}

/// The best other placement that is better than the given one.
std::optional<Alternative> best_alternative(const RunConfig& config, const Prediction& given,
                                            const HardwareProfile& hardware,
                                            const ScheduleMaker& schedule_for) {
  std::optional<Alternative> best;
  for (const VocabularyPlacement& placement : kPlacements) {
    Alternative other{config, {}};
    other.config.parallel.pp.vocab_parallel = placement.vocabulary;
    other.config.parallel.pp.layer_distribution = placement.layers;
    if (other.config.parallel.pp.vocab_parallel == config.parallel.pp.vocab_parallel &&
        (config.parallel.splits_vocabulary() ||
         other.config.parallel.pp.layer_distribution == config.parallel.pp.layer_distribution)) {
      continue;
    }
    if (why_invalid(other.config)) continue;
    try {
      other.prediction = predict(other.config, schedule_for(other.config), hardware);
    } catch (const InputError&) {
      continue;  // a schedule that these sizes do not allow
    }
    if (better(other.prediction, best ? best->prediction : given)) best = std::move(other);
  }
  return best;
}

double gib(Bytes bytes) {
  return static_cast<double>(bytes.value) / (1 << 30);
}

}  // namespace

PipelineImbalance pipeline_imbalance(const Schedule& schedule, const Prediction& prediction) {
  std::vector<double> times(static_cast<std::size_t>(schedule.ranks));
  std::vector<double> bytes(times.size());
  for (std::size_t stage = 0; stage < prediction.costs.stages.size(); ++stage) {
    const StageCosts& c = prediction.costs.stages[stage];
    // A schedule has B, or I and W.
    const Seconds time = c.forward + c.backward + c.backward_input + c.backward_weight + c.teacher_forward +
                         c.vocab_forward + c.vocab_backward + c.input_forward + c.input_backward;
    times[static_cast<std::size_t>(schedule.rank_of_stage[stage])] += time.value;
  }
  for (const RankMemory& rank : prediction.memory.ranks) {
    bytes[static_cast<std::size_t>(rank.pipeline_rank)] = static_cast<double>(rank.peak.total().value);
  }
  PipelineImbalance imbalance;
  std::tie(imbalance.time, imbalance.slowest_rank) = heaviest(times);
  std::tie(imbalance.bytes, imbalance.fullest_rank) = heaviest(bytes);
  return imbalance;
}

std::string vocabulary_report(const RunConfig& config, const Schedule& schedule, const Prediction& prediction,
                              const HardwareProfile& hardware, const ScheduleMaker& schedule_for) {
  if (schedule.ranks < 2 || config.distillation.teacher) return "";
  const PipelineImbalance imbalance = pipeline_imbalance(schedule, prediction);
  std::string text = fmt::format(
      "imbalance over pipeline ranks, max/mean: compute time {:.2f} (rank {}), peak memory {:.2f} (rank "
      "{})\n",
      imbalance.time, imbalance.slowest_rank, imbalance.bytes, imbalance.fullest_rank);
  if (config.parallel.splits_vocabulary()) {
    const Seconds all = total_of(prediction.vocabulary, &CollectiveOverlap::time);
    const Seconds exposed = total_of(prediction.vocabulary, &CollectiveOverlap::exposed);
    text += fmt::format("vocabulary collectives: {:.4g} s per step and rank, exposed {:.4g} s ({:.1f} %)\n",
                        all.value, exposed.value, all.value > 0 ? exposed / all * 100 : 0);
    for (const VocabularyCall call : {VocabularyCall::statistics, VocabularyCall::hidden_gradient}) {
      const double overlapped = prediction.vocabulary[static_cast<std::size_t>(call)].overlapped;
      if (std::isnan(overlapped)) continue;
      text += fmt::format("  {}: overlap in steady state {:.1f} %\n", name_of(call), 100 * overlapped);
    }
  }
  if (schedule.ranks * config.microbatches() > kCheap) return text;
  const auto best = best_alternative(config, prediction, hardware, schedule_for);
  if (!best) return text;
  const Prediction& other = best->prediction;
  text += fmt::format(
      "faster: {}: step time {:.4g} s instead of {:.4g} ({:+.1f} %), peak memory {:.2f} GiB instead of "
      "{:.2f}\n",
      name_of(best->config), other.time.step.value, prediction.time.step.value,
      (other.time.step / prediction.time.step - 1) * 100, gib(other.memory.peak),
      gib(prediction.memory.peak));
  return text;
}

}  // namespace plumbline
