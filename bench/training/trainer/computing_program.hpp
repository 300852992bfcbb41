// What a rank's actions take without waiting: what slow ranks are told by.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "bench/training/stage/rank_stages.hpp"

namespace plumbline::training {

/// How long a rank has computed so far, on whatever clock counts that.
using WorkClock = std::function<Seconds()>;

/// Runs a rank's stages and notes the computing time of every compute action. On a processor (backend cpu) that is its wall
/// time less what it waits for other ranks, and no more than the thread had of the processor, so that ranks that share one do
/// not look slow. With a WorkClock it is what that counts: the calls of an emulated rank, whatever the machine is at meanwhile.
/// Without, backend emulated and cuda note nothing.
class ComputingProgram final : public StageProgram {
 public:
  ComputingProgram(RankStages& stages, const Communicator& communicator, WorkClock worked)
      : stages_(stages), communicator_(communicator), worked_(std::move(worked)) {}

  void run(const Action& action) override;
  bool runs_pairs() const override { return stages_.runs_pairs(); }
  /// Each of the two has half of what both take.
  void run_pair(const Action& first, const Action& second) override;
  Matrix send_buffer(const Action& action) override { return stages_.send_buffer(action); }
  Matrix receive_buffer(const Action& action) override { return stages_.receive_buffer(action); }
  void finished(const Action& action) override { stages_.finished(action); }

  /// In the order of the rank's compute actions, step after step.
  const std::vector<double>& seconds() const { return seconds_; }
  void forget() { seconds_.clear(); }

 private:
  Seconds waited() const;
  /// What `work` computes, or nothing where that is not noted.
  template <class Work>
  std::optional<Seconds> computing(const Work& work) const;

  RankStages& stages_;
  const Communicator& communicator_;
  WorkClock worked_;
  std::vector<double> seconds_;
};

/// Those of every rank, by world rank, on all ranks; nothing when nothing was noted, or more than fits memory. `mine`: of
/// `steps` steps. Collective.
std::vector<std::vector<double>> gather_computing(const Schedule& schedule, const std::vector<double>& mine,
                                                  int steps, Communicator& control);

}  // namespace plumbline::training
