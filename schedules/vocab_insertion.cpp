#include "schedules/vocab_insertion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

/// Side passes in order of preference when several could start at once.
enum Side : std::size_t { kScores, kGradient, kInput, kInputGradient };
constexpr std::size_t kSides = 4;

class Insertion {
 public:
  Insertion(const Schedule& schedule, VocabPasses passes, bool input_layer, const VocabTimes& times,
            const InsertionRules& rules)
      : source_(schedule),
        result_(schedule),
        passes_(passes),
        input_layer_(input_layer),
        times_(times),
        rules_(rules),
        ranks_(static_cast<std::size_t>(schedule.ranks)) {
    result_.vocab = passes;
    const auto m = static_cast<std::size_t>(schedule.microbatches);
    const std::size_t cells = static_cast<std::size_t>(schedule.stages) * m;
    forward_end_.assign(cells, kUnknown);
    gradient_end_.assign(cells, kUnknown);
    for (auto& release : release_) release.assign(m, kUnknown);
    hidden_.assign(m, kUnknown);
    for (auto& done : done_) done.assign(m, 0);
    for (auto& end : end_) end.assign(m, 0);
    for (auto& reached : reached_) reached.assign(m, 0);
    if (input_layer) release_[kInput][0] = 0;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      result_.actions[r].clear();
      result_.actions[r].reserve(schedule.actions[r].size() + 4 * m);
      ranks_[r].lowest = schedule.stages;
    }
    for (int stage = 0; stage < schedule.stages; ++stage) {
      int& lowest =
          ranks_[static_cast<std::size_t>(schedule.rank_of_stage[static_cast<std::size_t>(stage)])].lowest;
      lowest = std::min(lowest, stage);
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (std::size_t* meeting = meeting_of(r)) ++*meeting;
    }
    for (int rank = 0; rank < schedule.ranks; ++rank) {
      room_ = std::max(room_, peak_in_flight(schedule, rank) * schedule.stages_per_route() / schedule.ranks);
    }
  }

  InsertedPasses run() {
    // In order of time: always the rank whose next pass starts first.
    while (true) {
      std::size_t best = ranks_.size();
      double start = kUnknown;
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        Rank& rank = ranks_[r];
        if (rank.undecided) rank.choice = next(r);
        rank.undecided = false;
        if (rank.choice.start < start) {
          best = r;
          start = rank.choice.start;
        }
      }
      if (best == ranks_.size()) break;
      place(best, Choice(ranks_[best].choice));
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r].cursor < source_.actions[r].size()) {
        throw InputError(
            fmt::format("schedule {}: the order of actions cannot run with vocabulary passes: rank {} "
                        "never gets past {}",
                        source_.name, r, to_string(source_.actions[r][ranks_[r].cursor])));
      }
    }
    double length = 0;
    for (const Rank& rank : ranks_) length = std::max(length, rank.clock);
    return {std::move(result_), length};
  }

 private:
  struct Choice {
    double start = kUnknown;
    std::size_t side = kSides;  // kSides: the next action of the schedule; kWeight: a W that moves
  };
  struct Rank {
    double clock = 0;
    double meeting = 0;  // when the latest interlaced pass began
    std::size_t cursor = 0;
    std::array<std::uint32_t, kSides> next{};  // micro-batch of the next side pass of each kind
    int lowest = 0;                            // stage that side passes carry
    int held = 0;                              // activations of its stages
    std::vector<Action> weights;               // W's of the I's so far, if they move
    std::size_t weights_done = 0;
    Choice choice;          // its next action
    bool undecided = true;  // something has happened since that it may wait for
    bool pending() const { return weights_done < weights.size(); }
  };
  static constexpr std::size_t kWeight = kSides + 1;

  std::size_t cell(int stage, std::uint32_t m) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(source_.microbatches) + m;
  }
  double end_of_others(std::size_t side, std::uint32_t m) const {
    return done_[side][m] == source_.ranks ? end_[side][m] : kUnknown;
  }

  double hop(int stage, int other) const {
    return source_.crosses_ranks(stage, other) ? times_.transfer.value : 0;
  }

  /// Time at which the action's inputs from other actions exist.
  double ready(const Action& action) const {
    const int stage = action.stage;
    const std::uint32_t m = action.microbatch;
    switch (action.type) {
      case ActionType::forward:
        if (!source_.first_of_route(stage)) return forward_end_[cell(stage - 1, m)] + hop(stage, stage - 1);
        return input_layer_ ? end_of_others(kInput, m) + times_.embedding.value : 0;
      case ActionType::backward:
      case ActionType::backward_input:
        if (!source_.last_of_route(stage)) return gradient_end_[cell(stage + 1, m)] + hop(stage, stage + 1);
        if (passes_ == VocabPasses::interlaced) return 0;  // S and T are in the schedule already
        if (passes_ == VocabPasses::one_barrier) return end_of_others(kScores, m) + after_scores();
        return end_of_others(kGradient, m) + times_.gradient.value;
      case ActionType::vocab_forward:
      case ActionType::vocab_backward:
        return everybody_at(action);
      default:
        return 0;
    }
  }

  /// Interlaced passes begin when all ranks have reached them.
  double everybody_at(const Action& pass) const {
    double latest = 0;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const auto& actions = source_.actions[r];
      const std::size_t at = ranks_[r].cursor;
      const bool here =
          at < actions.size() && actions[at].type == pass.type && actions[at].microbatch == pass.microbatch;
      const bool passed =
          at > 0 && actions[at - 1].type == pass.type && actions[at - 1].microbatch == pass.microbatch;
      if (!here && !passed) return kUnknown;
      latest = std::max(latest, passed ? ranks_[r].meeting : ranks_[r].clock);
    }
    return latest;
  }

  /// When the pass of an earlier micro-batch is done everywhere whose buffer this one uses again
  /// (bench/training/vocabulary.md).
  double buffer_free(std::size_t side, std::uint32_t m) const {
    const std::uint32_t back = side == kGradient ? 2 : 1;
    if (m < back || side == kScores || (side == kGradient && passes_ == VocabPasses::one_barrier)) return 0;
    return end_of_others(side, m - back);
  }

  /// F's wait for W's if these move.
  bool has_room(const Rank& rank, const Action& action) const {
    return action.type != ActionType::forward || !rank.pending() || rank.held + 1 <= room_;
  }

  Choice next(std::size_t r) const {
    const Rank& rank = ranks_[r];
    Choice choice;
    for (std::size_t side = 0; side < kSides; ++side) {
      const std::uint32_t m = rank.next[side];
      if (m >= static_cast<std::uint32_t>(source_.microbatches)) continue;
      const bool waits = side == kScores && r != static_cast<std::size_t>(source_.rank_of_stage.back());
      const double release = waits ? hidden_[m] : release_[side][m];
      const double start = std::max({rank.clock, release, buffer_free(side, m)});
      if (start < choice.start) choice = {start, side};
    }
    if (rank.cursor < source_.actions[r].size() && has_room(rank, source_.actions[r][rank.cursor])) {
      const double start = std::max(rank.clock, ready(source_.actions[r][rank.cursor]));
      if (start < choice.start) choice = {start, kSides};
    }
    const double wait = rules_.patience * duration(ActionType::backward_weight);
    if (rank.pending() && choice.start > rank.clock + wait) choice = {rank.clock, kWeight};
    return choice;
  }

  void place(std::size_t r, const Choice& choice) {
    Rank& rank = ranks_[r];
    if (choice.side < kSides) {
      side_pass(r, choice);
    } else if (choice.side == kWeight) {
      rank.clock = choice.start + duration(ActionType::backward_weight);
      result_.actions[r].push_back(rank.weights[rank.weights_done++]);
      --rank.held;
    } else {
      next_of_schedule(r, choice.start);
    }
    rank.undecided = true;
    // The rank's waiting point decides when the others meet it.
    if (const std::size_t* meeting = meeting_of(r); meeting != nullptr && *meeting == ranks_.size())
      wake_all();
  }

  void next_of_schedule(std::size_t r, double start) {
    Rank& rank = ranks_[r];
    const Action& action = source_.actions[r][rank.cursor++];
    if (rules_.weights_move) skip_weights(r);
    if (std::size_t* meeting = meeting_of(r)) ++*meeting;
    const bool first = source_.first_of_route(action.stage);
    const bool last = source_.last_of_route(action.stage);
    const std::uint32_t m = action.microbatch;
    rank.clock = start + duration(action.type);
    rank.meeting = start;
    result_.actions[r].push_back(action);
    if (action.type == ActionType::backward_input && rules_.weights_move) {
      rank.weights.push_back({ActionType::backward_weight, false, action.stage, m});
    }
    if (action.type == ActionType::forward) {
      ++rank.held;
      forward_end_[cell(action.stage, m)] = rank.clock;
      if (!last) wake(action.stage + 1);
      if (last && passes_ != VocabPasses::interlaced) {
        release_[kScores][m] = rank.clock;
        hidden_[m] = rank.clock + times_.hidden.value;
        wake_all();
      }
      if (first && input_layer_ && m + 1 < release_[kInput].size()) {
        release_[kInput][m + 1] = start;
        wake_all();
      }
    } else if (action.type == ActionType::backward || action.type == ActionType::backward_input) {
      gradient_end_[cell(action.stage, m)] = rank.clock;
      if (!first) wake(action.stage - 1);
      if (first && input_layer_) {
        release_[kInputGradient][m] = rank.clock + times_.embedding_gradient.value;
        wake_all();
      }
    }
  }

  void wake(int stage) {
    ranks_[static_cast<std::size_t>(source_.rank_of_stage[static_cast<std::size_t>(stage)])].undecided = true;
  }
  void wake_all() {
    for (Rank& rank : ranks_) rank.undecided = true;
  }

  /// Number of ranks that have reached the interlaced pass that a rank does next; null when it does something
  /// else.
  std::size_t* meeting_of(std::size_t r) {
    const auto& actions = source_.actions[r];
    const std::size_t at = ranks_[r].cursor;
    if (at >= actions.size()) return nullptr;
    if (actions[at].type == ActionType::vocab_forward) return &reached_[0][actions[at].microbatch];
    if (actions[at].type == ActionType::vocab_backward) return &reached_[1][actions[at].microbatch];
    return nullptr;
  }

  void skip_weights(std::size_t r) {
    const auto& actions = source_.actions[r];
    std::size_t& cursor = ranks_[r].cursor;
    while (cursor < actions.size() && actions[cursor].type == ActionType::backward_weight) ++cursor;
  }

  void side_pass(std::size_t r, const Choice& choice) {
    static constexpr std::array<ActionType, kSides> kTypes = {
        ActionType::vocab_forward, ActionType::vocab_backward, ActionType::input_forward,
        ActionType::input_backward};
    const std::array<Seconds, kSides> costs = {times_.vocab_forward, times_.vocab_backward,
                                               times_.input_forward, times_.input_backward};
    Rank& rank = ranks_[r];
    const std::size_t side = choice.side;
    const std::uint32_t m = rank.next[side]++;
    rank.clock = choice.start + costs[side].value;
    result_.actions[r].push_back({kTypes[side], false, static_cast<std::uint16_t>(rank.lowest), m});
    ++done_[side][m];
    end_[side][m] = std::max(end_[side][m], rank.clock);
    if (side == kScores && done_[side][m] == source_.ranks) {
      release_[kGradient][m] = end_[side][m] + after_scores();
    }
    if (done_[side][m] == source_.ranks) wake_all();
  }

  /// From the last S to T.
  double after_scores() const {
    const Seconds gradient = passes_ == VocabPasses::one_barrier ? times_.gradient : Seconds{};
    return (times_.statistics + gradient).value;
  }

  double duration(ActionType type) const {
    switch (type) {
      case ActionType::forward:
        return times_.forward.value;
      case ActionType::backward:
        return times_.backward.value;
      case ActionType::vocab_forward:
        return times_.vocab_forward.value;
      case ActionType::vocab_backward:
        return times_.vocab_backward.value;
      case ActionType::backward_input:
        return part(times_.backward_input);
      default:
        return part(times_.backward_weight);
    }
  }

  double part(Seconds given) const { return given.value > 0 ? given.value : times_.backward.value / 2; }

  const Schedule& source_;
  Schedule result_;
  VocabPasses passes_;
  bool input_layer_;
  VocabTimes times_;
  InsertionRules rules_;
  double room_ = 0;  // activations of single stages a rank may hold if W's move
  std::vector<Rank> ranks_;
  std::vector<double> forward_end_;
  std::vector<double> gradient_end_;
  std::array<std::vector<double>, kSides> release_;  // by micro-batch: from when on a side pass can be done
  std::vector<double> hidden_;                       // the same for S on all ranks but the last
  std::array<std::vector<int>, kSides> done_;        // by micro-batch: ranks that have done it
  std::array<std::vector<double>, kSides> end_;      // by micro-batch: the latest end so far
  std::array<std::vector<std::size_t>, 2>
      reached_;  // by micro-batch: ranks that have reached its S and its T
};

}  // namespace

InsertedPasses insert_passes(const Schedule& schedule, VocabPasses passes, bool input_layer,
                             const VocabTimes& times, const InsertionRules& rules) {
  return Insertion(schedule, passes, input_layer, times, rules).run();
}

}  // namespace plumbline
