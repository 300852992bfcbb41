#include "bench/run/recovery/goodput_prediction.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "analysis/reliability/finite_run.hpp"
#include "bench/run/recovery/failure_sequence.hpp"

namespace plumbline {
namespace {

Seconds detection_of(Injected kind, const FailureSpec& spec, const RecoveryCosts& costs) {
  if (kind == Injected::kill) return costs.detect_kill;
  return costs.detect_hang > Seconds{} ? costs.detect_hang : spec.hang_timeout;
}

std::vector<Seconds> reduced_steps(const ReplicaSizes& sizes, const RecoveryCosts& costs) {
  std::vector<Seconds> steps;
  for (const double slower : sizes.slower) steps.push_back(costs.step * slower);
  for (const ReducedSteps& measured : costs.reduced) {
    const auto place = static_cast<std::size_t>(measured.replicas) - 1;
    if (place < steps.size() && sizes.slower[place] > 0 && measured.step > Seconds{})
      steps[place] = measured.step;
  }
  return steps;
}

}  // namespace

PredictedGoodput predicted_goodput(const FailureSpec& spec, int ranks, const ReplicaSizes& sizes,
                                   const training::CheckpointOptions& options, std::int64_t steps,
                                   const RecoveryCosts& costs) {
  FiniteRun run{steps, options.interval, costs.step, costs.stall, {}, costs.restart};
  run.replacement = spec.replacement;
  run.reduced = reduced_steps(sizes, costs);
  if (options.async) run.durable = std::max(Seconds{}, costs.durable - costs.stall);
  std::vector<DetectedKind> kinds;
  for (const Injected kind : spec.kinds) {
    if (kind != Injected::disk)
      kinds.push_back({1 / static_cast<double>(spec.kinds.size()), detection_of(kind, spec, costs)});
  }
  const FiniteGoodput expected = expected_goodput(run, spec.mtbf, kinds, spec.most);
  FailureSequence sequence(spec, ranks);
  const RunFailures of_seed = [&]() -> std::optional<RunFailure> {
    if (kinds.empty()) return std::nullopt;
    for (;;) {
      const PlannedFailure failure = sequence.next();
      sequence.advance();
      if (failure.kind != Injected::disk)
        return RunFailure{failure.at, detection_of(failure.kind, spec, costs),
                          static_cast<double>(failure.rank) / ranks};
    }
  };
  const Seconds useful = costs.step * static_cast<double>(steps);
  return {expected.mean, expected.low, expected.high, useful / replay(run, of_seed, spec.most).total, costs};
}

}  // namespace plumbline
