#include "core/schedule/dependency_rules.hpp"

#include <algorithm>
#include <iterator>

namespace plumbline {
namespace dependency_table {  // names of its own: sources are compiled together
namespace {

/// Inputs that decide whether a row of the table holds.
struct Setting {
  const Schedule& schedule;
  const ActionTypes& present;
  const WalkOptions& options;
};
using Condition = bool (*)(const Setting&);

bool always(const Setting& /*setting*/) {
  return true;
}
bool joint(const Setting& s) {
  return s.schedule.joint_teacher;
}
bool apart(const Setting& s) {
  return !s.schedule.joint_teacher;
}
bool posted(const Setting& s) {
  return s.options.transfers == TransferSemantics::posted;
}
bool blocking(const Setting& s) {
  return !posted(s);
}
bool one_buffer(const Setting& s) {
  return s.options.one_send_buffer;
}
bool input_passes(const Setting& s) {
  return s.present[static_cast<std::size_t>(ActionType::input_forward)];
}
bool one_barrier(const Setting& s) {
  return s.schedule.vocab == VocabPasses::one_barrier;
}
bool not_one_barrier(const Setting& s) {
  return !one_barrier(s);
}
bool interlaced(const Setting& s) {
  return s.schedule.vocab == VocabPasses::interlaced;
}
bool gradient_barrier(const Setting& s) {
  return s.schedule.vocab == VocabPasses::two_barriers || interlaced(s);
}
bool end_barrier(const Setting& s) {
  return s.schedule.barrier_at_end;
}

struct NeedRow {
  ActionType type;
  Signal signal;
  SignalEntry entry;
  Condition holds;
};

using enum ActionType;
using At = SignalEntry;

/// Signals that each type of action waits for, in the order in which it waits.
constexpr NeedRow kNeeds[] = {
    {forward, Signal::taken_forward, At::last_sent, one_buffer},
    {forward, Signal::activation, At::previous_stage, always},
    {forward, Signal::input, At::microbatch_on_first, input_passes},
    {backward, Signal::taken_backward, At::last_sent, one_buffer},
    {backward, Signal::gradient, At::next_stage, always},
    {backward, Signal::vocab_scores, At::microbatch_on_last, one_barrier},
    {backward, Signal::vocab_gradient, At::microbatch_on_last, gradient_barrier},
    {backward_input, Signal::taken_backward, At::last_sent, one_buffer},
    {backward_input, Signal::gradient, At::next_stage, always},
    {backward_input, Signal::vocab_scores, At::microbatch_on_last, one_barrier},
    {backward_input, Signal::vocab_gradient, At::microbatch_on_last, gradient_barrier},
    {teacher_forward, Signal::activation, At::previous_stage, joint},
    {teacher_forward, Signal::teacher, At::previous_stage, apart},
    {receive_forward, Signal::sent_forward, At::message, always},
    {receive_backward, Signal::sent_backward, At::message, always},
    {receive_teacher, Signal::sent_teacher, At::message, always},
    {send_forward, Signal::sent_forward, At::message, blocking},
    {send_backward, Signal::sent_backward, At::message, blocking},
    {send_teacher, Signal::sent_teacher, At::message, blocking},
    {vocab_forward, Signal::activation, At::route_end, always},
    {vocab_forward, Signal::vocab_meet_s, At::microbatch, interlaced},
    {vocab_backward, Signal::vocab_scores, At::microbatch, always},
    // Two alternating buffers for the sums over the ranks (bench/training/vocabulary.md).
    {vocab_backward, Signal::vocab_gradient, At::two_before, not_one_barrier},
    {vocab_backward, Signal::vocab_meet_t, At::microbatch, interlaced},
    {input_forward, Signal::input, At::one_before, always},
    {input_backward, Signal::gradient, At::route_begin, always},
    {input_backward, Signal::input_gradient, At::one_before, always},
    {reduce_embedding, Signal::embedding_meet, At::step, always},
    {optimizer, Signal::end_meet, At::step, end_barrier},
};

struct GiftRow {
  ActionType type;
  Signal signal;
  SignalEntry entry;
  std::optional<SignalRef> ActionRules::*when;
  Condition holds;
};

/// Signals that each type of action gives.
constexpr GiftRow kGifts[] = {
    {forward, Signal::activation, At::own, &ActionRules::when_done, always},
    {backward, Signal::gradient, At::own, &ActionRules::when_done, always},
    {backward_input, Signal::gradient, At::own, &ActionRules::when_done, always},
    {teacher_forward, Signal::teacher, At::own, &ActionRules::when_done, always},
    {send_forward, Signal::sent_forward, At::message, &ActionRules::when_done, posted},
    {send_backward, Signal::sent_backward, At::message, &ActionRules::when_done, posted},
    {send_teacher, Signal::sent_teacher, At::message, &ActionRules::when_done, posted},
    {send_forward, Signal::sent_forward, At::message, &ActionRules::on_arrival, blocking},
    {receive_forward, Signal::sent_forward, At::message, &ActionRules::on_arrival, blocking},
    {send_backward, Signal::sent_backward, At::message, &ActionRules::on_arrival, blocking},
    {receive_backward, Signal::sent_backward, At::message, &ActionRules::on_arrival, blocking},
    {send_teacher, Signal::sent_teacher, At::message, &ActionRules::on_arrival, blocking},
    {receive_teacher, Signal::sent_teacher, At::message, &ActionRules::on_arrival, blocking},
    {receive_forward, Signal::taken_forward, At::own, &ActionRules::when_done, one_buffer},
    {receive_backward, Signal::taken_backward, At::own, &ActionRules::when_done, one_buffer},
    {vocab_forward, Signal::vocab_meet_s, At::microbatch, &ActionRules::on_arrival, interlaced},
    {vocab_backward, Signal::vocab_meet_t, At::microbatch, &ActionRules::on_arrival, interlaced},
    {vocab_forward, Signal::vocab_scores, At::microbatch, &ActionRules::when_all_done, always},
    {vocab_backward, Signal::vocab_gradient, At::microbatch, &ActionRules::when_all_done, always},
    {input_forward, Signal::input, At::microbatch, &ActionRules::when_all_done, always},
    {input_backward, Signal::input_gradient, At::microbatch, &ActionRules::when_all_done, always},
    {reduce_embedding, Signal::embedding_meet, At::step, &ActionRules::on_arrival, always},
    {optimizer, Signal::end_meet, At::step, &ActionRules::on_arrival, end_barrier},
};

}  // namespace
}  // namespace dependency_table

std::array<ActionRules, kActionTypes> dependency_rules(const Schedule& schedule, const ActionTypes& present,
                                                       const WalkOptions& options) {
  using namespace dependency_table;
  const Setting setting{schedule, present, options};
  std::array<ActionRules, kActionTypes> rules{};
  for (const NeedRow& row : kNeeds) {
    ActionRules& mine = rules[static_cast<std::size_t>(row.type)];
    if (row.holds(setting)) mine.needs.at(mine.need_count++) = {row.signal, row.entry};
  }
  for (const GiftRow& row : kGifts) {
    ActionRules& mine = rules[static_cast<std::size_t>(row.type)];
    if (row.holds(setting)) mine.*row.when = SignalRef{row.signal, row.entry};
  }
  return rules;
}

bool gives(ActionType type, Signal signal) {
  using namespace dependency_table;
  return std::any_of(std::begin(kGifts), std::end(kGifts),
                     [&](const GiftRow& row) { return row.type == type && row.signal == signal; });
}

}  // namespace plumbline
