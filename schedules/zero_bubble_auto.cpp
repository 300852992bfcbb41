// The automatic zero-bubble scheduler (Qi et al. 2023, arXiv:2401.10241 §3.1): a greedy order for measured
// times and a memory limit. Warm-up: as many forwards as memory allows before the first backward arrives.
// Then F and I alternate. W's fill the waiting before either, are forced in when memory runs out, and may
// stretch a wait as long as no rank's waiting exceeds the worst one so far. Ranks keep ahead of the next one
// by at least one forward. Three choices are tried both ways, and the shortest step wins: whether ranks may
// get further ahead, whether warm-up forwards may delay the first backward, and whether short waits are
// filled.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "schedules/generators.hpp"
#include "schedules/layouts.hpp"

namespace plumbline {
namespace {

struct Choices {
  bool delay_first_backward;
  bool hold_back_forwards;
  bool fill_short_waits;
};

constexpr double kTolerance = 1e-9;  // of an activation, for sums of fractions

class Greedy {
 public:
  Greedy(int ranks, int microbatches, const ZeroBubbleCosts& costs, Choices choices)
      : ranks_(ranks),
        microbatches_(microbatches),
        costs_(costs),
        choices_(choices),
        schedule_(one_stage_per_rank("zb-auto", ranks, microbatches)),
        state_(static_cast<std::size_t>(ranks)) {
    for (Rank& rank : state_) {
      rank.forward_end.reserve(static_cast<std::size_t>(microbatches));
      rank.input_end.reserve(static_cast<std::size_t>(microbatches));
    }
  }

  void run() {
    warm_up();
    for (int m = 1; m < microbatches_; ++m) {
      forwards_of_round();
      for (int rank = ranks_ - 1; rank >= 0; --rank) {
        make_room(rank, 0);
        fill_wait(rank, arrival_of_gradient(rank));
        if (rank == 0 && at(rank).forwards == microbatches_) {
          while (pending(rank)) weight(rank);
        }
        input(rank);
      }
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      while (at(rank).weights < microbatches_) weight(rank);
    }
  }

  /// Longest time between a rank's start and end: the step without a barrier.
  double span() const {
    double longest = 0;
    for (const Rank& rank : state_) longest = std::max(longest, rank.clock - rank.start);
    return longest;
  }
  Schedule take() { return std::move(schedule_); }

 private:
  struct Rank {
    double clock = 0;
    double start = 0;
    double waited = 0;  // since the first forward
    double held = 0;    // activations
    int forwards = 0;
    int inputs = 0;
    int weights = 0;
    std::vector<double> forward_end;
    std::vector<double> input_end;
  };

  Rank& at(int rank) { return state_[static_cast<std::size_t>(rank)]; }
  double cost(const std::vector<Seconds>& times, int rank) const {
    return times[static_cast<std::size_t>(rank)].value;
  }
  double forward_cost(int rank) const { return cost(costs_.forward, rank); }
  double input_cost(int rank) const { return cost(costs_.backward_input, rank); }
  double weight_cost(int rank) const { return cost(costs_.backward_weight, rank); }
  double transfer() const { return costs_.transfer.value; }
  bool pending(int rank) { return at(rank).weights < at(rank).inputs; }

  double arrival_of_activation(int rank) {
    if (rank == 0) return 0;
    return at(rank - 1).forward_end[static_cast<std::size_t>(at(rank).forwards)] + transfer();
  }
  double arrival_of_gradient(int rank) {
    if (rank + 1 == ranks_) return 0;
    return at(rank + 1).input_end[static_cast<std::size_t>(at(rank).inputs)] + transfer();
  }

  void start(int rank, double arrival) {
    Rank& me = at(rank);
    const double begin = std::max(me.clock, arrival);
    if (me.forwards == 0) {
      me.start = begin;
    } else {
      me.waited += begin - me.clock;
    }
    me.clock = begin;
  }
  void add(ActionType type, int rank, int microbatch) {
    schedule_.actions[static_cast<std::size_t>(rank)].push_back(
        {type, false, static_cast<std::uint16_t>(rank), static_cast<std::uint32_t>(microbatch)});
  }
  void forward(int rank) {
    start(rank, arrival_of_activation(rank));
    Rank& me = at(rank);
    me.clock += forward_cost(rank);
    me.forward_end.push_back(me.clock);
    me.held += 1;
    add(ActionType::forward, rank, me.forwards++);
  }
  void input(int rank) {
    start(rank, arrival_of_gradient(rank));
    Rank& me = at(rank);
    me.clock += input_cost(rank);
    me.input_end.push_back(me.clock);
    me.held -= 1 - costs_.held_after_input;
    add(ActionType::backward_input, rank, me.inputs++);
  }
  void weight(int rank) {
    Rank& me = at(rank);
    me.clock += weight_cost(rank);
    me.held -= costs_.held_after_input;
    add(ActionType::backward_weight, rank, me.weights++);
  }

  double worst_wait() const {
    double worst = 0;
    for (const Rank& rank : state_) worst = std::max(worst, rank.waited);
    return worst;
  }

  /// W's until `more` activations fit.
  void make_room(int rank, double more) {
    while (at(rank).held + more > costs_.memory_limit + kTolerance && pending(rank)) weight(rank);
  }

  /// W's while the rank would wait for `arrival` anyway.
  void fill_wait(int rank, double arrival) {
    Rank& me = at(rank);
    while (pending(rank) && me.clock + weight_cost(rank) <= arrival) weight(rank);
    if (!pending(rank) || me.clock >= arrival) return;
    // One more W would end after the arrival.
    const bool bearable = arrival - me.clock <= worst_wait() - me.waited;
    if (!bearable || choices_.fill_short_waits) weight(rank);
  }

  void warm_up() {
    for (int rank = 0; rank < ranks_; ++rank) forward(rank);
    // Number of further forwards that fit before the first gradient arrives, from the last rank back.
    std::vector<int> more(static_cast<std::size_t>(ranks_), 0);
    double first_input_end = at(ranks_ - 1).clock + input_cost(ranks_ - 1);
    for (int rank = ranks_ - 2; rank >= 0; --rank) {
      int& count = more[static_cast<std::size_t>(rank)];
      double clock = at(rank).clock;
      const double arrival = first_input_end + transfer();
      while (1 + count < microbatches_ && 2 + count <= costs_.memory_limit + kTolerance) {
        if (choices_.delay_first_backward ? clock >= arrival : clock + forward_cost(rank) > arrival) break;
        clock += forward_cost(rank);
        ++count;
      }
      first_input_end = std::max(clock, arrival) + input_cost(rank);
    }
    for (int rank = 1; rank < ranks_; ++rank) {
      int& count = more[static_cast<std::size_t>(rank)];
      const int before = more[static_cast<std::size_t>(rank) - 1];
      // Behind the rank before by one, unless all are done already.
      count = std::min(count, 1 + before < microbatches_ ? std::max(0, before - 1) : before);
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      for (int i = 0; i < more[static_cast<std::size_t>(rank)]; ++i) forward(rank);
    }
    for (int rank = ranks_ - 1; rank >= 0; --rank) input(rank);
  }

  /// Decides which ranks do a forward in this round, and does them.
  void forwards_of_round() {
    std::vector<bool> wanted(static_cast<std::size_t>(ranks_), false);
    for (int rank = 0; rank < ranks_; ++rank) {
      if (at(rank).forwards < microbatches_) wanted[static_cast<std::size_t>(rank)] = !holds_back(rank);
    }
    // A rank holds back when a later one does, so that it does not run away from it.
    for (int rank = ranks_ - 2; rank >= 0; --rank) {
      const auto r = static_cast<std::size_t>(rank);
      wanted[r] = wanted[r] && wanted[r + 1];
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      if (!wanted[static_cast<std::size_t>(rank)]) continue;
      make_room(rank, 1);
      if (rank > 0) fill_wait(rank, arrival_of_activation(rank));
      forward(rank);
    }
  }

  /// With two forwards in stock for the next rank, another one may wait if it would only delay the backward.
  bool holds_back(int rank) {
    if (!choices_.hold_back_forwards || rank + 1 == ranks_) return false;
    if (at(rank).forwards < at(rank + 1).forwards + 2) return false;
    const double next_gradient =
        at(rank + 1).clock + forward_cost(rank + 1) + input_cost(rank + 1) + transfer();
    if (at(rank).clock >= next_gradient) return true;
    double held = at(rank).held + 1;
    double room = 0;
    for (int w = at(rank).weights; held > costs_.memory_limit + kTolerance && w < at(rank).inputs; ++w) {
      held -= costs_.held_after_input;
      room += weight_cost(rank);
    }
    if (at(rank).clock + forward_cost(rank) + room <= next_gradient) return false;
    return next_gradient - at(rank).clock <= worst_wait() - at(rank).waited;
  }

  int ranks_;
  int microbatches_;
  const ZeroBubbleCosts& costs_;
  Choices choices_;
  Schedule schedule_;
  std::vector<Rank> state_;
};

void check(const ZeroBubbleCosts& costs, int ranks) {
  const auto expected = static_cast<std::size_t>(ranks);
  if (costs.forward.size() != expected || costs.backward_input.size() != expected ||
      costs.backward_weight.size() != expected) {
    throw InputError(fmt::format("schedule zb-auto: times for {}, {}, {} ranks given, expected {}",
                                 costs.forward.size(), costs.backward_input.size(),
                                 costs.backward_weight.size(), expected));
  }
  if (!(costs.memory_limit >= 1) || !(costs.held_after_input >= 0 && costs.held_after_input <= 1)) {
    throw InputError(
        fmt::format("schedule zb-auto: memory for {} activations, {} of one held after I; expected at least "
                    "1, and 0 to 1",
                    costs.memory_limit, costs.held_after_input));
  }
}

}  // namespace

Schedule zb_auto(int ranks, int microbatches, const ZeroBubbleCosts& costs) {
  check_sizes("zb-auto", ranks, microbatches, 1);
  check(costs, ranks);
  double shortest = std::numeric_limits<double>::infinity();
  Schedule best;
  for (int choice = 0; choice < 8; ++choice) {
    Greedy greedy(ranks, microbatches, costs, {(choice & 1) != 0, (choice & 2) != 0, (choice & 4) != 0});
    greedy.run();
    if (greedy.span() < shortest) {
      shortest = greedy.span();
      best = greedy.take();
    }
  }
  best.barrier_at_end = false;
  return best;
}

}  // namespace plumbline
