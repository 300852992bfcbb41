// A schedule compiled to flat arrays that one sweep turns into times: the simulator's inner form.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/simulate/costs.hpp"
#include "analysis/simulate/ticks.hpp"
#include "core/schedule/schedule.hpp"
#include "core/trace/collective_trace.hpp"

namespace plumbline {

struct PlanOptions {
  bool links = false;            // transfers take time: give every ordered pair of ranks a lane
  bool receive_busy = false;     // implicit receives occupy the receiver
  bool one_send_buffer = false;  // see Costs
  bool pairs_in_turn = false;    // see Costs
  bool last_backward = false;    // the last B or W of a stage has a price of its own
  bool first_forward = false;    // and so has its first F
  int ranks_per_node = 0;        // see Costs
  bool collectives = false;      // those of vocabulary parallelism take time
  bool links_by_rank = false;    // messages of every sender have prices of their own
};

/// Options that the plan of a schedule needs under these costs.
PlanOptions plan_options(const Costs& costs);

/// Nodes in an order in which every dependency comes first. A node runs on a lane (a rank, a link between two
/// ranks, a kind of collective, or a meeting of several ranks), after the previous node on that lane and
/// after `dependency`.
class SimulationPlan {
 public:
  struct Node {
    std::int32_t lane;
    std::int32_t dependency;  // node 0 is the start of the step
    std::uint32_t price;      // index into prices()
  };
  /// Time of a node on its lane, and the delay until others have its result.
  struct Price {
    Ticks cost;
    Ticks delay;
  };

  /// Throws InputError when the schedule has cells out of range or cannot run to its end.
  SimulationPlan(const Schedule& schedule, PlanOptions options);

  const std::vector<Node>& nodes() const { return nodes_; }
  int ranks() const { return ranks_; }
  int lanes() const { return lanes_; }
  /// Number of actions of the schedule.
  std::size_t actions() const { return node_of_action_.size(); }
  /// Node of each action, rank after rank in schedule order.
  const std::vector<std::int32_t>& node_of_action() const { return node_of_action_; }
  /// True if nodes of this price keep a processor busy (compute and receive copies).
  bool occupies_processor(std::uint32_t price) const { return price < first_link_price_; }

  /// A collective of vocabulary parallelism: the node after which it is done.
  struct CollectiveNode {
    std::int32_t node;
    VocabularyCall call;
    std::uint32_t microbatch;
  };
  /// All of them, in order of their nodes.
  const std::vector<CollectiveNode>& collectives() const { return collectives_; }
  /// Is it a collective of vocabulary parallelism?
  bool is_collective(const Node& node) const { return node.price >= first_collective_price_; }

  /// The prices of all nodes, each rounded once. Throws InputError for costs that do not fit (count,
  /// negative, not finite, too long).
  std::vector<Price> prices(const Costs& costs) const;

 private:
  friend class PlanBuilder;
  struct Pair {
    std::uint32_t first;
    std::uint32_t second;
    std::uint32_t plain_first;  // of every such action, not the first or last one alone
    std::uint32_t plain_second;
  };
  std::vector<Node> nodes_;
  std::vector<std::int32_t> node_of_action_;
  std::vector<CollectiveNode> collectives_;
  std::vector<Pair> pairs_;  // overlapped pairs: prices of the two
  int ranks_ = 0;
  int stages_ = 0;
  int lanes_ = 0;
  std::vector<ActionType> last_backward_;  // by stage: B or W, or F if there is none
  std::uint32_t first_last_price_ = 0;     // by stage, when there are any
  bool first_forwards_ = false;            // have prices after these, by stage
  std::uint32_t first_pair_price_ = 0;
  std::uint32_t first_link_price_ = 0;
  std::uint32_t link_senders_ = 1;  // that have link prices
  std::uint32_t first_collective_price_ = 0;
};

/// End times of a sweep.
struct SweepTimes {
  std::vector<Ticks> ready;  // per node: when its result is there for others
  std::vector<Ticks> clock;  // per lane: end of its last node
};

/// One pass over the nodes. Reuses the vectors. Throws InputError for a step longer than kMostTicks.
void sweep(const SimulationPlan& plan, const std::vector<SimulationPlan::Price>& prices, SweepTimes& times);

}  // namespace plumbline
