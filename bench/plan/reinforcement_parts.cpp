#include "bench/plan/reinforcement_parts.hpp"

#include <limits>
#include <optional>
#include <utility>

#include "bench/plan/prediction_parts.hpp"

namespace plumbline {

Fit fit_of(const ReinforcementPrediction& prediction) {
  const StepPhase& fullest = prediction.phases[prediction.fullest];
  const Bytes tensors = sum_of(fullest.memory);
  Fit fit;
  fit.fits = prediction.fits;
  fit.by_device = prediction.update.fit.by_device;
  fit.tensors = tensors;
  fit.needed = fullest.needed;
  fit.limit = prediction.limit;
  if (fit.limit.value > 0) fit.budget = fit.limit - (fullest.needed - tensors);
  return fit;
}

PredictionReport report_of(const ReinforcementPrediction& prediction) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  const StepPhase& fullest = prediction.phases[prediction.fullest];
  RankMemoryReport rank;
  for (const MemoryPart& part : fullest.memory) rank.bytes[part.category] += part.bytes;
  rank.at = fullest.name;
  rank.ranks_alike = prediction.gpus;
  PredictionReport report;
  report.fits = prediction.fits;
  set_verdict(verdict_of(fit_of(prediction), std::nullopt), report);
  report.times_guessed = prediction.update.guessed;
  report.times_estimated = prediction.update.estimated;
  report.memory = MemoryReport::of({rank});
  for (const auto& figure : kTimeFigures) figure.set(report.time, kUnknown);
  for (const auto& figure : kThroughputFigures) figure.set(report.throughput, kUnknown);
  report.time.step = prediction.step;
  report.throughput.tokens_per_s = prediction.tokens / prediction.step.value;
  report.throughput.tokens_per_s_per_gpu = prediction.tokens_per_s_per_gpu;
  return report;
}

}  // namespace plumbline
