#include "analysis/memory/memory_walk.hpp"

#include <algorithm>
#include <map>

namespace plumbline {
namespace {

/// Marks actions that do more than others of their type (`with_extra` of action_profile).
class Extras {
 public:
  Extras(const Schedule& schedule, bool teacher)
      : schedule_(schedule),
        teacher_(teacher),
        last_microbatch_(static_cast<std::uint32_t>(schedule.microbatches) - 1) {}

  /// To be asked once for every action of a rank, in order.
  bool in(const Action& action) {
    if (action.type == ActionType::input_forward) return action.microbatch == 0;
    if (action.type == ActionType::vocab_forward) return action.microbatch != last_microbatch_;
    return loss_in(action);
  }
  /// True if the extra work falls on micro-batches that are neither the first nor the last.
  static bool in_the_middle(const Action& action) { return action.type != ActionType::input_forward; }

 private:
  /// True for the later of a micro-batch's two forwards on the last stage. Without a teacher F always
  /// computes the loss.
  bool loss_in(const Action& action) {
    const bool student = action.type == ActionType::forward;
    if (!student && action.type != ActionType::teacher_forward) return true;
    if (!teacher_ || !schedule_.last_of_route(action.stage)) return true;
    if (action.microbatch >= seen_.size()) seen_.resize(action.microbatch + 1);
    const bool later = seen_[action.microbatch];
    seen_[action.microbatch] = true;
    return later;
  }

  const Schedule& schedule_;
  bool teacher_;
  std::uint32_t last_microbatch_;
  std::vector<bool> seen_;  // by micro-batch: one of the two is done
};

std::vector<LastGradients> last_gradients(const Schedule& schedule, const std::vector<Action>& actions) {
  std::vector<LastGradients> last;
  const auto of = [&](const Action& action) -> LastGradients& {
    auto at = std::find_if(last.begin(), last.end(), [&](const auto& l) { return l.stage == action.stage; });
    return at == last.end() ? last.emplace_back(LastGradients{action.stage}) : *at;
  };
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const auto position = static_cast<std::uint32_t>(i);
    switch (actions[i].type) {
      case ActionType::backward:
        of(actions[i]).layers = of(actions[i]).output = of(actions[i]).embedding = position;
        break;
      case ActionType::backward_weight:
        of(actions[i]).output = position;
        if (!schedule.defers_output_gradient) of(actions[i]).layers = position;
        break;
      case ActionType::backward_input:
        of(actions[i]).embedding = position;
        if (schedule.defers_output_gradient) of(actions[i]).layers = position;
        break;
      case ActionType::vocab_backward:
        of(actions[i]).scores = position;
        break;
      case ActionType::input_backward:
        of(actions[i]).input = position;
        break;
      default:
        break;
    }
  }
  std::sort(last.begin(), last.end(), [](const auto& a, const auto& b) { return a.stage < b.stage; });
  return last;
}

/// Writes the plan of a rank.
class RankPlan {
 public:
  RankPlan(const std::vector<Action>& actions, bool by_action, MemoryPlan::Rank& plan)
      : actions_(actions), by_action_(by_action), plan_(plan), has_last_(actions.size()) {
    for (const LastGradients& last : plan.last) {
      for (const std::uint32_t at : {last.layers, last.output, last.embedding, last.scores, last.input})
        has_last_[at] = true;
    }
  }

  /// The actions of [begin, end). `extra`: by position. `final`: gradients become final in them.
  void add(std::size_t begin, std::size_t end, std::int64_t copy, const std::vector<bool>& extra,
           bool final) {
    codes_.clear();
    for (std::size_t i = begin; i < end; ++i) {
      const Action& action = actions_[i];
      const std::uint32_t type = 2 * static_cast<std::uint32_t>(action.type) + (extra[i] ? 1 : 0);
      // An action that makes a gradient final is like no other.
      codes_.push_back(final && has_last_[i]
                           ? kUnique + static_cast<std::uint32_t>(i)
                           : 64U * action.stage + type + (action.overlaps_next ? kPaired : 0));
    }
    bool alone = false;  // the last run is one that may be added to
    for (std::size_t i = 0; i < codes_.size();) {
      const auto [length, times] = repetition(i);
      const std::size_t last = begin + i + length * (times - 1);
      if (times > 1 || !alone || by_action_)
        plan_.runs.push_back(
            {static_cast<std::uint32_t>(plan_.items.size()), 0, static_cast<std::int64_t>(times), copy});
      for (std::size_t at = begin + i; at < begin + i + length; ++at) {
        plan_.items.push_back({actions_[at], actions_[last + at - begin - i].microbatch,
                               static_cast<std::uint32_t>(at), extra[at], final && has_last_[at]});
      }
      plan_.runs.back().items += static_cast<std::uint32_t>(length);
      alone = times == 1;
      i += length * times;
    }
  }

 private:
  static constexpr std::uint32_t kUnique = std::uint32_t{1} << 31U;
  static constexpr std::uint32_t kPaired = std::uint32_t{1} << 30U;
  static constexpr std::size_t kLongest = 64;

  struct Repetition {
    std::size_t length = 1;
    std::size_t times = 1;
  };
  /// Consecutive repetitions of the sequence that begins at `i`.
  Repetition repetition(std::size_t i) const {
    Repetition best;
    const std::size_t end = codes_.size();
    for (std::size_t length = 1; !by_action_ && length <= kLongest && i + 2 * length <= end; ++length) {
      if (codes_[i + length] != codes_[i]) continue;
      if ((codes_[i + length - 1] & kPaired) != 0) continue;  // it would part a pair
      std::size_t at = i;
      while (at + length < end && codes_[at] == codes_[at + length]) ++at;
      const std::size_t times = 1 + (at - i) / length;
      if (length * (times - 1) > best.length * (best.times - 1)) best = {length, times};
      if (times > 2) break;  // longer ones are this one twice
    }
    return best;
  }

  const std::vector<Action>& actions_;
  bool by_action_;
  MemoryPlan::Rank& plan_;
  std::vector<bool> has_last_;
  std::vector<std::uint32_t> codes_;  // of alike actions the same
};

}  // namespace

MemoryPlan memory_plan(const RepeatedSchedule& step, bool teacher, bool by_action) {
  MemoryPlan plan;
  plan.ranks.resize(step.once.actions.size());
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const std::vector<Action>& actions = step.once.actions[rank];
    MemoryPlan::Rank& mine = plan.ranks[rank];
    mine.last = last_gradients(step.once, actions);
    Extras extras(step.once, teacher);
    std::vector<bool> extra(actions.size());
    for (std::size_t i = 0; i < actions.size(); ++i) extra[i] = extras.in(actions[i]);
    RankPlan writer(actions, by_action, mine);
    if (!step.repeats()) {
      writer.add(0, actions.size(), 0, extra, true);
      continue;
    }
    const RepeatedSchedule::Period& period = step.periods[rank];
    std::vector<bool> between = extra;
    for (std::size_t i = period.first; i < period.end(); ++i) between[i] = Extras::in_the_middle(actions[i]);
    writer.add(0, period.first, 0, extra, true);
    writer.add(period.first, period.end(), 0, between, false);
    writer.add(period.first, actions.size(), step.copies - 1, extra, true);
  }
  return plan;
}

std::vector<FinalAction> final_actions(std::span<const StageShape> stages,
                                       const std::vector<LastGradients>& last) {
  std::map<std::uint32_t, FinalUnits> by_position;
  for (const LastGradients& at : last) {
    const StageShape& shape = stages[at.stage];
    by_position[at.layers].layers = true;
    if (shape.place.first && shape.ends.positions > 0) by_position[at.embedding].positions = true;
    if (shape.vocabulary.carries) {
      if (!shape.ends.tied || at.scores > at.input) by_position[at.scores].output = true;
      if (!shape.ends.tied || at.scores < at.input) by_position[at.input].embedding = true;
    }
    const bool looks_up_output = shape.own_modules() > 0 && shape.ends.tied && !shape.ends.shared_output;
    if (shape.ends.embedding_copy || (looks_up_output && at.embedding >= at.output)) {
      by_position[at.embedding].lookup = true;
    }
    if (shape.scores() && !shape.ends.shared_output && !(looks_up_output && at.embedding >= at.output))
      by_position[at.output].output = true;
    if (!shape.embeds()) continue;
    // Whichever use of a shared embedding comes last; its own when both are in one action.
    std::uint32_t output = 0;
    bool shared = false;
    for (const LastGradients& other : last) {
      if (!stages[other.stage].ends.shared_output) continue;
      output = std::max(output, other.output);
      shared = true;
    }
    if (shared && output > at.embedding) {
      by_position[output].output = true;
    } else {
      by_position[at.embedding].embedding = true;
    }
  }
  std::vector<FinalAction> result;
  result.reserve(by_position.size());
  for (const auto& [position, units] : by_position) result.push_back({position, units});
  return result;
}

}  // namespace plumbline
