#include "bench/recovery/goodput_prediction.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "analysis/reliability/finite_run.hpp"
#include "bench/recovery/failure_sequence.hpp"

namespace plumbline {
namespace {

Seconds detection_of(Injected kind, const FailureSpec& spec, const RecoveryCosts& costs) {
  if (kind == Injected::kill) return costs.detect_kill;
  return costs.detect_hang > Seconds{} ? costs.detect_hang : spec.hang_timeout;
}

}  // namespace

PredictedGoodput predicted_goodput(const FailureSpec& spec, int ranks,
                                   const training::CheckpointOptions& options, std::int64_t steps,
                                   const RecoveryCosts& costs) {
  FiniteRun run{steps, options.interval, costs.step, costs.stall, {}, costs.restart};
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
        return RunFailure{failure.at, detection_of(failure.kind, spec, costs)};
    }
  };
  const Seconds useful = costs.step * static_cast<double>(steps);
  return {expected.mean, expected.low, expected.high, useful / replay(run, of_seed, spec.most).total, costs};
}

}  // namespace plumbline
