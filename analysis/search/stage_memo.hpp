// What stages take, remembered: the candidates of a search share most of theirs.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/simulate/costs.hpp"
#include "analysis/time/processor_contention.hpp"
#include "analysis/work/operator_list.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// Lower bounds of action times by stage shape, for one layout of ranks at a time, on a device for every rank.
class StageMemo {
 public:
  explicit StageMemo(const HardwareProfile& hardware) : hardware_(hardware) {}

  /// Candidates with another layout follow.
  void forget();

  /// No action of the stage takes less; of `present`, the others stay 0. The end of the step is not in it.
  const StageCosts& passes(const StageShape& shape, const ActionTypes& present, const Load& load);
  /// OPT, and of ARG and ARE what cannot overlap with the last backwards, on a rank that holds these stages.
  const StageCosts& step_end(const HeldStages& rank, const RunConfig& config, const Load& load);

 private:
  struct Hash {
    std::size_t operator()(const StageShape& shape) const;
    std::size_t operator()(const std::vector<StageShape>& shapes) const;
  };
  struct Known {
    StageCosts costs;
    ActionTypes present{};  // those that are in `costs`
  };
  const HardwareProfile& hardware_;
  std::unordered_map<StageShape, Known, Hash> passes_;
  std::unordered_map<std::vector<StageShape>, StageCosts, Hash> ends_;
};

}  // namespace plumbline
