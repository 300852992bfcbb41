// A simulation plan without nodes for messages: half as long where links are never the bottleneck.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/simulate/simulation_plan.hpp"

namespace plumbline::cluster {

/// Messages that take no longer than any pass that sends one never wait for a link: a rank sends its next one
/// at the end of such a pass, when the link is free again. Then a message is a delay on the way from sender
/// to receiver, and what remains are the passes.
class FusedPlan {
 public:
  explicit FusedPlan(const SimulationPlan& plan);

  /// False where one pass sends two messages over the same link (bidirectional pipelines of two ranks).
  bool usable() const { return usable_; }
  /// The end of the last pass of any rank, in ticks. `prices` are those of the plan it was made from; `ready` and
  /// `clock` are scratch space that is reused.
  Ticks makespan(const std::vector<SimulationPlan::Price>& prices, Ticks message, std::vector<Ticks>& ready,
                 std::vector<Ticks>& clock) const;

 private:
  struct Node {
    std::uint16_t lane;
    std::uint16_t sent;  // 1: its dependency comes from another rank
    std::int32_t dependency;
    std::uint32_t price;
  };
  std::vector<Node> nodes_;
  std::size_t lanes_ = 0;
  std::size_t ranks_ = 0;
  bool usable_ = true;
};

}  // namespace plumbline::cluster
