// Visits the actions of a schedule in an order in which everything an action waits for comes before it. The
// one place that knows which action waits for which; validation, transfers and the simulator share it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/schedule/dependency_signals.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// Throws InputError unless ranks, stages, micro-batches, routes and rank_of_stage agree and every action
/// names a stage of its rank and a micro-batch in range. Message: rank and column of the first bad cell.
void check_ranges(const Schedule& schedule);

/// Does any rank hold explicit SEND or RECV actions?
bool has_transfers(const Schedule& schedule);

class DependencyWalk {
 public:
  /// One thing to wait for: `index` is stage × micro-batches + micro-batch, micro-batch, or 0 (see Signal).
  struct Need {
    Signal signal;
    std::int32_t index;
  };

  /// The schedule must outlive the walk and pass check_ranges().
  DependencyWalk(const Schedule& schedule, WalkOptions options);

  /// Visits until nothing more can run. Returns whether every action was visited. The visitor gives numbers
  /// of its own (nodes) to what it is shown and receives them back as dependencies; -1 means none:
  ///   int wait(int rank, int node)              the rank waits for `node`; returns a node of that moment
  ///   int place(int rank, int position, int node)  the action runs after its predecessor and `node`; returns
  ///   the
  ///                                             node at which its result is ready for others
  ///   std::pair<int, int> place_pair(int rank, int position, int node)  the same for an overlapped pair
  ///   int join(Signal, int index, int node)     one member's arrival at a meeting of many; returns the node
  ///   of
  ///                                             the meeting so far
  template <class Visitor>
  bool run(Visitor& visitor);

  /// Unless transfers are posted: is the other side of this SEND or RECV still to come?
  bool half_open(const Action& half) { return entry(need_of(*hop_of(half))) < 0; }
  /// Lets a waiting SEND or RECV happen as if the other side had come to it; run() may then go on.
  template <class Visitor>
  void meet_now(Visitor& visitor, const Action& half) {
    arrive(visitor, need_of(*hop_of(half)), kAbsent);
  }

  /// Where each rank stopped: the position of the first action that was not visited.
  const std::vector<std::uint32_t>& stopped_at() const { return cursor_; }

  /// What the action at which `rank` stopped still waits for.
  Need unmet(int rank);

 private:
  static constexpr std::int32_t kAbsent = -1;
  struct Needs {
    std::array<Need, 3> list;
    int count = 0;
    void add(Signal signal, std::int32_t index) { list[static_cast<std::size_t>(count++)] = {signal, index}; }
  };

  /// What is asked about a stage for every action.
  struct StageFacts {
    bool
        takes_activation;  // F waits for the previous stage's F (not for a RECV, not at the start of a route)
    bool takes_gradient;   // B and I wait for the next stage's
    bool first;
    bool last;
    std::size_t activation;  // rows of the stage in the table
    std::size_t gradient;
  };

  std::int32_t at(int stage, std::uint32_t microbatch) const {
    return stage * schedule_.microbatches + static_cast<std::int32_t>(microbatch);
  }
  std::int32_t& entry(Need need) {
    return table_[offset_[static_cast<std::size_t>(need.signal)] + static_cast<std::size_t>(need.index)];
  }
  bool blocking() const { return options_.transfers != TransferSemantics::posted; }
  Need need_of(const Hop& hop) const { return {signal_of(hop.payload), at(hop.from, hop.microbatch)}; }
  /// Last position of what runs together with the action at `first`: an overlapped pair or a group of
  /// transfers.
  std::uint32_t span_end(const std::vector<Action>& actions, std::uint32_t first) const;
  Needs needs_of(const Action& action) const;
  void add_send_buffer_needs(const Action& action, Needs& needs) const;
  /// The meeting an action takes part in by arriving, if any.
  bool meeting_of(const Action& action, Need& need) const;
  int members(Signal signal) const;
  void publish(Need need, std::int32_t node);
  void wake(std::int32_t& slot, std::int32_t node);
  template <class Visitor>
  void arrive(Visitor& visitor, Need need, std::int32_t node);
  template <class Visitor>
  void announce(Visitor& visitor, const Action& action, std::int32_t node);
  template <class Visitor>
  bool try_place(Visitor& visitor, int rank);
  template <class Visitor>
  bool try_place_plain(Visitor& visitor, int rank, const Action& action);
  static bool is_plain(const Action& action) {
    return action.type <= ActionType::backward_weight && !action.overlaps_next;
  }
  const StageFacts& facts(const Action& action) const { return facts_[action.stage]; }

  const Schedule& schedule_;
  WalkOptions options_;
  bool transfers_ = false;
  bool plain_ = false;  // F, B, I, W wait for their neighbours only
  std::vector<StageFacts> facts_;
  std::array<bool, kActionTypes> present_{};
  std::array<std::size_t, kSignals> offset_{};
  std::vector<std::int32_t> table_;     // node, kAbsent, or -2 - rank of the latest waiter
  std::vector<std::int32_t> arrivals_;  // how many have come to each meeting; table_ from meetings_begin_ on
  std::size_t meetings_begin_ = 0;
  std::vector<std::int32_t> next_waiter_;
  std::vector<std::uint32_t> cursor_;
  std::vector<std::uint32_t> progress_;  // arrivals made and needs met at the cursor
  std::vector<std::int32_t> last_sent_;  // one_send_buffer: micro-batch + 1 by (stage, direction)
  std::vector<std::int32_t> queue_;      // ranks that may go on; a ring
  std::size_t head_ = 0;
  std::size_t queued_ = 0;
};

}  // namespace plumbline

#include "core/schedule/dependency_walk_steps.hpp"  // the bodies
