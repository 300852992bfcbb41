// Every generated schedule, held against its row of the table of traits.
#include "core/schedule/schedule_traits.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

#include "core/base/error.hpp"
#include "schedules/make_schedule.hpp"

namespace plumbline::schedule_traits_test {
namespace {

Schedule made(std::string_view name, int ranks, int microbatches, int chunks = 0, bool pairs = false) {
  ScheduleRequest request;
  request.name = std::string(name);
  request.ranks = ranks;
  request.microbatches = microbatches;
  request.chunks = chunks;
  request.pairs = pairs;
  return make_schedule(request);
}

bool has(const Schedule& schedule, ActionType type) {
  return std::any_of(schedule.actions.begin(), schedule.actions.end(), [&](const auto& actions) {
    return std::any_of(actions.begin(), actions.end(), [&](const Action& a) { return a.type == type; });
  });
}

bool has_pairs(const Schedule& schedule) {
  return std::any_of(schedule.actions.begin(), schedule.actions.end(), [](const auto& actions) {
    return std::any_of(actions.begin(), actions.end(), [](const Action& a) { return a.overlaps_next; });
  });
}

int expected_rank(const ScheduleTraits& traits, int ranks, int stage) {
  const int turn = stage / ranks;
  const int place = stage % ranks;
  const bool back = (traits.v_shaped() || traits.bidirectional()) && turn == 1;
  return back ? ranks - 1 - place : place;
}

TEST(ScheduleTraits, HoldForEverySchedule) {
  constexpr int kRanks = 4;
  constexpr int kMicrobatches = 8;
  for (const ScheduleTraits& traits : known_schedules()) {
    SCOPED_TRACE(traits.name);
    const Schedule schedule = made(traits.name, kRanks, kMicrobatches);
    EXPECT_EQ(schedule.name, traits.name);
    EXPECT_EQ(schedule.stages, kRanks * traits.chunks());
    EXPECT_EQ(schedule.stages_per_route(), kRanks * traits.parts());
    EXPECT_EQ(schedule.routes, traits.bidirectional() ? 2 : 1);
    for (int stage = 0; stage < schedule.stages; ++stage) {
      EXPECT_EQ(schedule.rank_of_stage[static_cast<std::size_t>(stage)], expected_rank(traits, kRanks, stage))
          << "stage " << stage;
    }
    EXPECT_EQ(has(schedule, ActionType::backward_weight), traits.split_backward);
    EXPECT_EQ(has(schedule, ActionType::backward_input), traits.split_backward);
    EXPECT_EQ(has(schedule, ActionType::teacher_forward), traits.teacher);
    EXPECT_EQ(schedule.vocab, traits.vocab);
    EXPECT_EQ(has(schedule, ActionType::vocab_forward), traits.vocab != VocabPasses::none);
    EXPECT_EQ(has_pairs(made(traits.name, kRanks, kMicrobatches, 0, true)), traits.pairs);
    EXPECT_EQ(default_chunks(traits.name), traits.chunks());
    if (traits.any_chunks()) {
      EXPECT_EQ(made(traits.name, kRanks, kMicrobatches, 3).stages, 3 * kRanks);
    } else {
      EXPECT_THROW(made(traits.name, kRanks, kMicrobatches, 3), InputError);
    }
    if (!traits.chunked.empty()) {
      ASSERT_NE(find_schedule_traits(traits.chunked), nullptr);
      EXPECT_TRUE(find_schedule_traits(traits.chunked)->any_chunks());
    }
  }
}

TEST(ScheduleTraits, OneRowPerNameInTheOrderOfTheNames) {
  ASSERT_EQ(schedule_names().size(), known_schedules().size());
  for (std::size_t i = 0; i < known_schedules().size(); ++i) {
    EXPECT_EQ(schedule_names()[i], known_schedules()[i].name);
    EXPECT_EQ(find_schedule_traits(known_schedules()[i].name), &known_schedules()[i]);
  }
  EXPECT_EQ(find_schedule_traits("1f1b.csv"), nullptr);
}

/// Passes can be asked for on exactly the schedules that have a row with them.
TEST(ScheduleTraits, VocabularyPassesOfABase) {
  for (const ScheduleTraits& traits : known_schedules()) {
    if (!traits.base.empty()) continue;
    for (const VocabPasses vocab :
         {VocabPasses::none, VocabPasses::two_barriers, VocabPasses::one_barrier, VocabPasses::interlaced}) {
      SCOPED_TRACE(std::string(traits.name) + " with " + std::string(vocab_parallel_name(vocab)));
      ScheduleRequest request;
      request.name = std::string(traits.name);
      request.ranks = 4;
      request.microbatches = 8;
      request.vocab = vocab;
      const ScheduleTraits* with_passes = find_with_passes(traits.name, vocab);
      if (with_passes == nullptr) {
        EXPECT_THROW(make_schedule(request), InputError);
        continue;
      }
      const Schedule schedule = make_schedule(request);
      EXPECT_EQ(schedule.name, with_passes->name);
      EXPECT_EQ(schedule.vocab, vocab);
    }
  }
}

}  // namespace
}  // namespace plumbline::schedule_traits_test
