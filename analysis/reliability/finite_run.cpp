#include "analysis/reliability/finite_run.hpp"

#include <algorithm>
#include <cmath>

#include "analysis/reliability/trials.hpp"

namespace plumbline {
namespace {

constexpr int kTrials = 2000;
constexpr std::uint64_t kSeed = 1;
constexpr int kHopeless = 1'000'000;

/// One run, on a clock that starts with its first step.
class Replay {
 public:
  Replay(const FiniteRun& run, const RunFailures& failures, std::uint64_t most)
      : run_(run), failures_(failures), left_(most) {
    take_next();
  }

  FiniteRunTimes times() {
    while (train()) {
      if (times_.failures >= kHopeless) {
        times_.total = {std::numeric_limits<double>::infinity()};
        return times_;
      }
      restart();
    }
    times_.total = now_;
    return times_;
  }

 private:
  void take_next() {
    next_ = left_ > 0 ? failures_() : std::nullopt;
    if (left_ > 0) --left_;
  }

  /// From step done_ on; false when the last step is made.
  bool train() {
    const std::int64_t steps = run_.steps - done_;
    // The save behind the last step is not waited for.
    const std::int64_t saves = run_.interval > 0 ? (steps - 1) / run_.interval : 0;
    const Seconds end =
        now_ + run_.step * static_cast<double>(steps) + run_.stall * static_cast<double>(saves);
    if (!next_ || next_->at >= end) {
      times_.stalls += run_.stall * static_cast<double>(saves);
      now_ = end;
      return false;
    }
    const Seconds cycle = run_.step * static_cast<double>(run_.interval) + run_.stall;
    const Seconds ran = next_->at - now_;
    const double written = saves > 0 ? std::floor(std::max(0.0, (ran - run_.durable) / cycle)) : 0;
    const std::int64_t kept = std::min(saves, static_cast<std::int64_t>(written));
    times_.stalls += run_.stall * static_cast<double>(kept);
    times_.lost += ran - cycle * static_cast<double>(kept);
    done_ += kept * run_.interval;
    now_ = next_->at;
    detect();
    return true;
  }

  /// The failure that is next has come.
  void detect() {
    ++times_.failures;
    times_.detect += next_->detect;
    now_ += next_->detect;
    const std::uint64_t left = left_;
    do {
      left_ = left;  // what passes is none of the most
      take_next();
    } while (next_ && next_->at <= now_);
  }

  void restart() {
    while (next_ && next_->at < now_ + run_.restart && times_.failures < kHopeless) {
      times_.restart += next_->at - now_;
      now_ = next_->at;
      detect();
    }
    times_.restart += run_.restart;
    now_ += run_.restart;
  }

  const FiniteRun& run_;
  const RunFailures& failures_;
  std::uint64_t left_;  // failures that are still to have an effect, apart from next_
  std::optional<RunFailure> next_;
  Seconds now_;
  std::int64_t done_ = 0;  // steps of the checkpoint that the run goes on from
  FiniteRunTimes times_;
};

}  // namespace

FiniteRunTimes replay(const FiniteRun& run, const RunFailures& failures, std::uint64_t most) {
  return Replay(run, failures, most).times();
}

FiniteGoodput expected_goodput(const FiniteRun& run, Seconds between, const std::vector<DetectedKind>& kinds,
                               std::uint64_t most) {
  const double useful = run.step.value * static_cast<double>(run.steps);
  std::vector<double> shares;
  shares.reserve(kTrials);
  for (int trial = 0; trial < kTrials; ++trial) {
    TrialRandom random(kSeed, static_cast<std::uint64_t>(trial));
    Seconds at;
    const RunFailures failures = [&]() -> std::optional<RunFailure> {
      while (!kinds.empty()) {
        at += Seconds{random.exponential(between.value)};
        double place = random.uniform();
        for (const DetectedKind& kind : kinds) {
          place -= kind.share;
          if (place < 0) return RunFailure{at, kind.detect};
        }
      }
      return std::nullopt;
    };
    shares.push_back(useful / replay(run, failures, most).total.value);
  }
  std::sort(shares.begin(), shares.end());
  FiniteGoodput goodput;
  for (const double share : shares) goodput.mean += share / kTrials;
  goodput.low = shares[kTrials / 20];
  goodput.high = shares[kTrials - 1 - kTrials / 20];
  return goodput;
}

}  // namespace plumbline
