// Compute time of a rank's actions without waiting: the basis for detecting slow ranks.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "bench/training/stage/rank_stages.hpp"

namespace plumbline::training {

/// Time that a rank has computed so far, on its clock for computation.
using WorkClock = std::function<Seconds()>;

/// Runs a rank's stages and notes the computing time of every compute action. On backend cpu that is its wall
/// time less its waiting for other ranks. At most the thread's processor time, so that ranks that share a
/// processor do not look slow. With a WorkClock it is that clock's time: the calls of an emulated rank,
/// whatever the machine does meanwhile. Without one, backends emulated and cuda note nothing.
class ComputingProgram final : public StageProgram {
 public:
  ComputingProgram(RankStages& stages, const Communicator& communicator, WorkClock worked)
      : stages_(stages), communicator_(communicator), worked_(std::move(worked)) {}

  void run(const Action& action) override;
  bool runs_pairs() const override { return stages_.runs_pairs(); }
  /// Each of the two gets half of their joint time.
  void run_pair(const Action& first, const Action& second,
                const std::function<void(const Action&)>& goes_on) override;
  Matrix send_buffer(const Action& action) override { return stages_.send_buffer(action); }
  Matrix receive_buffer(const Action& action) override { return stages_.receive_buffer(action); }
  void finished(const Action& action) override { stages_.finished(action); }

  /// In the order of the rank's compute actions, step after step.
  const std::vector<double>& seconds() const { return seconds_; }
  void forget() { seconds_.clear(); }

 private:
  Seconds waited() const;
  /// Computing time of `work`, or nothing if that is not noted.
  template <class Work>
  std::optional<Seconds> computing(const Work& work) const;

  RankStages& stages_;
  const Communicator& communicator_;
  WorkClock worked_;
  std::vector<double> seconds_;
};

/// Computing times of every rank, by world rank, on all ranks; nothing when nothing was noted, or it does not
/// fit memory. `mine`: of `steps` steps. Collective.
std::vector<std::vector<double>> gather_computing(const Schedule& schedule, const std::vector<double>& mine,
                                                  int steps, Communicator& control);

}  // namespace plumbline::training
