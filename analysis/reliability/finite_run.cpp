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
class RunReplay {
 public:
  RunReplay(const FiniteRun& run, const RunFailures& failures, std::uint64_t most)
      : run_(run), failures_(failures), left_(most), all_(static_cast<int>(run.reduced.size()) + 1) {
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
  /// Skips a failure that hits an absent rank; it does not count towards the limit.
  void pass() {
    ++left_;
    take_next();
  }
  /// The next failure comes before `until`, to a rank that is there.
  bool fails_before(Seconds until) {
    while (next_ && next_->at < until && next_->place * all_ >= size_) pass();
    return next_ && next_->at < until;
  }

  Seconds step_of(int replicas) const {
    return replicas == all_ ? run_.step : run_.reduced[static_cast<std::size_t>(replicas) - 1];
  }
  /// Replicas that could start at this time.
  int size_at(Seconds time) const {
    const auto lost = std::count_if(back_.begin(), back_.end(), [&](Seconds back) { return back > time; });
    int size = std::max(0, all_ - static_cast<int>(lost));
    while (size > 0 && size < all_ && step_of(size) <= Seconds{}) --size;
    return size;
  }
  /// From when on more replicas could.
  std::optional<Seconds> growth() const {
    if (size_at(now_) > size_) return now_;
    const auto found = std::find_if(back_.begin(), back_.end(),
                                    [&](Seconds back) { return back > now_ && size_at(back) > size_; });
    return found == back_.end() ? std::nullopt : std::optional(*found);
  }

  /// From step done_ on; false when the last step is made.
  bool train() {
    const Seconds step = step_of(size_);
    const std::int64_t steps = run_.steps - done_;
    // The save after the last step is not waited for.
    const std::int64_t saves = run_.interval > 0 ? (steps - 1) / run_.interval : 0;
    const Seconds end = now_ + step * static_cast<double>(steps) + run_.stall * static_cast<double>(saves);
    const Seconds cycle = step * static_cast<double>(run_.interval) + run_.stall;
    Seconds until = end;
    std::int64_t last = 0;  // save that more replicas start from
    if (const auto grown = growth()) {
      const double wanted = std::ceil((*grown - now_ - run_.durable) / cycle);
      last = saves > 0 ? std::max<std::int64_t>(1, static_cast<std::int64_t>(wanted)) : 0;
      const Seconds back = now_ + cycle * static_cast<double>(last) + run_.durable;
      if (saves < last || back >= end) last = 0;
      if (last > 0) until = back;
    }
    if (fails_before(until)) {
      const Seconds ran = next_->at - now_;
      const double written = saves > 0 ? std::floor(std::max(0.0, (ran - run_.durable) / cycle)) : 0;
      keep(std::min(saves, static_cast<std::int64_t>(written)), ran);
      detect();
      return true;
    }
    if (last > 0) {
      keep(last, until - now_);
      ++times_.returns;
      return true;
    }
    times_.stalls += run_.stall * static_cast<double>(saves);
    times_.missing += (step - run_.step) * static_cast<double>(steps);
    now_ = end;
    return false;
  }

  /// Keeps the part of a stretch of work that came before its `saves`-th save.
  void keep(std::int64_t saves, Seconds ran) {
    const Seconds step = step_of(size_);
    const auto kept = static_cast<double>(saves * run_.interval);
    times_.stalls += run_.stall * static_cast<double>(saves);
    times_.lost += ran - step * kept - run_.stall * static_cast<double>(saves);
    times_.missing += (step - run_.step) * kept;
    done_ += saves * run_.interval;
    now_ += ran;
  }

  /// The failure that is next has come.
  void detect() {
    ++times_.failures;
    times_.detect += next_->detect;
    now_ += next_->detect;
    if (run_.replacement > Seconds{}) back_.push_back(now_ + run_.replacement);
    take_next();
    while (next_ && next_->at <= now_) pass();
  }

  /// Until there are ranks to start with.
  void wait() {
    back_.erase(std::remove_if(back_.begin(), back_.end(), [&](Seconds back) { return back <= now_; }),
                back_.end());
    size_ = size_at(now_);
    if (size_ > 0) return;
    const Seconds back = *growth();
    times_.waiting += back - now_;
    now_ = back;
    size_ = size_at(now_);
    while (next_ && next_->at <= now_) pass();
  }

  void restart() {
    wait();
    while (fails_before(now_ + run_.restart) && times_.failures < kHopeless) {
      times_.restart += next_->at - now_;
      now_ = next_->at;
      detect();
      wait();
    }
    times_.restart += run_.restart;
    now_ += run_.restart;
  }

  const FiniteRun& run_;
  const RunFailures& failures_;
  std::uint64_t left_;  // failures that are still to have an effect, apart from next_
  const int all_;       // replicas; 1 if the run needs all of its ranks
  int size_ = all_;
  std::vector<Seconds> back_;  // when ranks are there for those that were lost, in this order
  std::optional<RunFailure> next_;
  Seconds now_;
  std::int64_t done_ = 0;  // steps of the checkpoint that the run resumes from
  FiniteRunTimes times_;
};

}  // namespace

FiniteRunTimes replay(const FiniteRun& run, const RunFailures& failures, std::uint64_t most) {
  return RunReplay(run, failures, most).times();
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
          if (place < 0) return RunFailure{at, kind.detect, run.reduced.empty() ? 0 : random.uniform()};
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
