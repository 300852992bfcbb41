// The table of dependencies, held against hand-made rows and against itself.
#include "core/schedule/dependency_rules.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace plumbline::dependency_rules_test {
namespace {

using enum ActionType;

struct Setting {
  VocabPasses vocab = VocabPasses::none;
  bool joint = false;
  bool input_passes = false;
  TransferSemantics transfers = TransferSemantics::posted;
  bool one_send_buffer = false;
};

std::array<ActionRules, kActionTypes> rules_of(const Setting& setting) {
  Schedule schedule;
  schedule.vocab = setting.vocab;
  schedule.joint_teacher = setting.joint;
  ActionTypes present{};
  present[static_cast<std::size_t>(input_forward)] = setting.input_passes;
  return dependency_rules(schedule, present, {setting.transfers, setting.one_send_buffer});
}

std::vector<Signal> needs_of(ActionType type, const Setting& setting) {
  const ActionRules rules = rules_of(setting)[static_cast<std::size_t>(type)];
  std::vector<Signal> needs;
  for (std::size_t i = 0; i < rules.need_count; ++i) needs.push_back(rules.needs[i].signal);
  return needs;
}

TEST(DependencyRules, Needs) {
  using enum Signal;
  struct Case {
    ActionType type;
    Setting setting;
    std::vector<Signal> needs;
  };
  constexpr auto kGrouped = TransferSemantics::grouped;
  const Case cases[] = {
      {forward, {}, {activation}},
      {forward, {.input_passes = true, .one_send_buffer = true}, {taken_forward, activation, input}},
      {backward, {}, {gradient}},
      {backward_input, {.vocab = VocabPasses::one_barrier}, {gradient, vocab_scores}},
      {backward, {.vocab = VocabPasses::two_barriers}, {gradient, vocab_gradient}},
      {backward, {.vocab = VocabPasses::interlaced}, {gradient, vocab_gradient}},
      {backward_weight, {}, {}},
      {teacher_forward, {}, {teacher}},
      {teacher_forward, {.joint = true}, {activation}},
      {send_backward, {}, {}},
      {send_backward, {.transfers = kGrouped}, {sent_backward}},
      {receive_teacher, {}, {sent_teacher}},
      {vocab_forward, {.vocab = VocabPasses::two_barriers}, {activation}},
      {vocab_forward, {.vocab = VocabPasses::interlaced}, {activation, vocab_meet_s}},
      {vocab_backward, {.vocab = VocabPasses::one_barrier}, {vocab_scores}},
      {vocab_backward, {.vocab = VocabPasses::interlaced}, {vocab_scores, vocab_gradient, vocab_meet_t}},
      {input_backward, {}, {gradient, input_gradient}},
      {reduce_gradients, {}, {}},
      {reduce_embedding, {}, {embedding_meet}},
      {optimizer, {}, {end_meet}},
  };
  for (const Case& c : cases) EXPECT_EQ(needs_of(c.type, c.setting), c.needs) << name_of(c.type);
}

/// In every setting each needed signal is given by another type, at one moment each.
TEST(DependencyRules, WhatIsNeededIsGiven) {
  for (const VocabPasses vocab :
       {VocabPasses::none, VocabPasses::two_barriers, VocabPasses::one_barrier, VocabPasses::interlaced}) {
    for (const auto transfers :
         {TransferSemantics::posted, TransferSemantics::synchronous, TransferSemantics::grouped}) {
      const auto all = rules_of({vocab, false, true, transfers, true});
      std::vector<int> given(kSignals);
      for (std::size_t type = 0; type < all.size(); ++type) {
        for (const auto& gift : {all[type].on_arrival, all[type].when_done, all[type].when_all_done}) {
          if (!gift) continue;
          ++given[static_cast<std::size_t>(gift->signal)];
          EXPECT_TRUE(gives(static_cast<ActionType>(type), gift->signal));
        }
      }
      for (std::size_t type = 0; type < all.size(); ++type) {
        for (std::size_t i = 0; i < all[type].need_count; ++i) {
          EXPECT_GT(given[static_cast<std::size_t>(all[type].needs[i].signal)], 0)
              << name_of(static_cast<ActionType>(type));
        }
      }
    }
  }
}

}  // namespace
}  // namespace plumbline::dependency_rules_test
