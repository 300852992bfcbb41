// Check values of every schedule: bubbles and peaks from the papers, checked by simulation.
#include "schedules/generators.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "analysis/simulate/simulator.hpp"
#include "core/base/error.hpp"
#include "core/validate/deadlock.hpp"
#include "core/validate/validate.hpp"
#include "schedules/make_schedule.hpp"
#include "schedules/passes.hpp"

namespace plumbline::generators_test {
namespace {

struct Measured {
  double bubble = 0;  // makespan minus a rank's work
  double idle = 0;    // longest waiting of a rank between its first and last action
  double peak = 0;
};

/// f, b, w per rank and micro-batch; a stage takes its share.
Measured measure(const Schedule& schedule, double f, double b, double w) {
  const double chunks = static_cast<double>(schedule.stages_per_route()) / schedule.ranks;
  const StageCosts each{.forward = {f / chunks},
                        .backward = {(b + w) / chunks},
                        .backward_input = {b / chunks},
                        .backward_weight = {w / chunks}};
  const Trace trace = simulate(schedule, uniform_costs(schedule.stages, each));
  Measured result;
  result.bubble = trace.makespan().value - schedule.microbatches * (f + b + w);
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const auto& events = trace.ranks[static_cast<std::size_t>(rank)];
    const Seconds span = events.back().end - events.front().start;
    result.idle = std::max(result.idle, (span - trace.busy(rank)).value);
    result.peak = std::max(result.peak, peak_in_flight(schedule, rank));
  }
  return result;
}

Schedule named(const char* name, int ranks, int microbatches) {
  ScheduleRequest request;
  request.name = name;
  request.ranks = ranks;
  request.microbatches = microbatches;
  return make_schedule(request);
}

struct CheckValue {
  const char* name;
  int ranks, microbatches;
  double f, b, w;
  double bubble, idle, peak;
};
constexpr CheckValue kCheckValues[] = {
    {"gpipe", 8, 16, 1, 1, 1, 21, 21, 16},
    {"1f1b", 8, 16, 1, 1, 1, 21, 21, 8},
    {"interleaved", 8, 16, 1, 1, 1, 10.5, 10.5, 11.5},
    {"zb-h1", 8, 16, 1, 1, 1, 7, 7, 8},
    {"zb-h2", 8, 16, 1, 1, 1, 7, 0, 15},
    {"zb-v", 8, 16, 1, 1, 1, 3.5, 0, 8},
    {"v-half", 8, 16, 1, 1, 1, 8.5, 8.5, 5},
    {"v-min", 8, 16, 1, 1, 1, 13.5, 13.5, 4},
    {"dualpipev", 8, 16, 1, 1, 1, 7, 7, 8.5},
    {"dualpipe", 8, 16, 1, 1, 1, 6, 6, 9},  // (P/2-1)(F&B + B - 3W) = 3 · 2
    {"1f1b", 8, 16, 1, 1.2, 0.8, 21, 21, 8},
    {"zb-h1", 8, 16, 1, 1.2, 0.8, 9.8, 9.8, 8},
    {"zb-h2", 8, 16, 1, 1.2, 0.8, 7, 4.2, 15},
    {"zb-v", 8, 16, 1, 1.2, 0.8, 4.2, 2.8, 8},
    {"v-half", 8, 16, 1, 1.2, 0.8, 11.5, 11.5, 5},
    {"v-min", 8, 16, 1, 1.2, 0.8, 23.7, 23.7, 4},
    {"v-min", 8, 32, 1, 1.2, 0.8, 33.3, 33.3, 4},
};

TEST(Generators, CheckValues) {
  for (const CheckValue& value : kCheckValues) {
    SCOPED_TRACE(std::string(value.name) + " b=" + std::to_string(value.b));
    const Measured measured =
        measure(named(value.name, value.ranks, value.microbatches), value.f, value.b, value.w);
    EXPECT_NEAR(measured.bubble, value.bubble, 1e-9);
    EXPECT_NEAR(measured.idle, value.idle, 1e-9);
    EXPECT_DOUBLE_EQ(measured.peak, value.peak);
  }
}

TEST(Generators, MemoryOfOneForwardOneBackwardFallsWithRank) {
  const Schedule schedule = one_f_one_b(8, 16);
  for (int rank = 0; rank < 8; ++rank) EXPECT_DOUBLE_EQ(peak_in_flight(schedule, rank), 8 - rank);
}

TEST(Generators, VocabularyPassesHoldOneOrTwoMore) {
  const auto peak = [](const Schedule& schedule) {
    double most = 0;
    for (int rank = 0; rank < schedule.ranks; ++rank) most = std::max(most, peak_in_flight(schedule, rank));
    return most;
  };
  EXPECT_DOUBLE_EQ(peak(named("vocab-1", 8, 32)), 10);
  EXPECT_DOUBLE_EQ(peak(named("vocab-2", 8, 32)), 9);
  EXPECT_DOUBLE_EQ(peak(named("interlaced", 8, 32)), 12);
}

// arXiv:2411.05288, table 6: the passes cost V-Half next to nothing, also when I and W differ.
TEST(Generators, VHalfKeepsItsBubbleWithVocabularyPasses) {
  constexpr int kMicrobatches = 128;
  for (const int ranks : {8, 16}) {
    for (const double input : {1.0, 1.15}) {
      for (const double pass : {0.05, 0.5}) {
        const double weight = 2 - input;
        const double plain = measure(v_half(ranks, kMicrobatches), 1, input, weight).bubble;
        for (const VocabPasses passes : {VocabPasses::two_barriers, VocabPasses::one_barrier}) {
          VocabTimes times{{0.5}, {1}, {pass}, {pass}, {0.02}, {0.02}};
          times.backward_input = {input / 2};
          times.backward_weight = {weight / 2};
          const Schedule schedule = vocab_v_half(ranks, kMicrobatches, passes, true, times);
          const StageCosts each{.forward = times.forward,
                                .backward_input = times.backward_input,
                                .backward_weight = times.backward_weight,
                                .vocab_forward = times.vocab_forward,
                                .vocab_backward = times.vocab_backward,
                                .input_forward = times.input_forward,
                                .input_backward = times.input_backward};
          const double work = kMicrobatches * (3 + 2 * pass + 0.04);
          const double bubble = simulate_makespan(schedule, uniform_costs(2 * ranks, each)).value - work;
          SCOPED_TRACE(testing::Message() << ranks << " ranks, I " << input << ", S " << pass);
          EXPECT_LE(bubble, plain + 2 * pass + 1);
          const int more = passes == VocabPasses::two_barriers ? 2 : 1;
          for (int rank = 0; rank < ranks; ++rank)
            EXPECT_LE(peak_in_flight(schedule, rank), ranks / 2 + 1 + more);
        }
      }
    }
  }
}

TEST(Generators, OverlappedPairsTakeOneTime) {
  const Schedule schedule = dualpipe_v(4, 8);
  Costs costs = uniform_costs(
      8, {.forward = {0.5}, .backward = {1}, .backward_input = {0.5}, .backward_weight = {0.5}});
  costs.overlap_factor = 0.8;
  const Trace trace = simulate(schedule, costs);
  bool seen = false;
  for (const auto& events : trace.ranks) {
    for (std::size_t i = 0; i + 1 < events.size(); ++i) {
      if (!events[i].action.overlaps_next) continue;
      seen = true;
      EXPECT_EQ(events[i].start, events[i + 1].start);
      EXPECT_EQ(events[i].end, events[i + 1].end);
      EXPECT_NEAR((events[i].end - events[i].start).value, 1.2, 1e-12);
    }
  }
  EXPECT_TRUE(seen);
}

/// Between neighbouring pairs of any rank.
double longest_gap_between_pairs(const Trace& trace) {
  double longest = 0;
  for (const auto& events : trace.ranks) {
    for (std::size_t i = 0; i + 2 < events.size(); ++i) {
      if (events[i].action.overlaps_next && events[i + 2].action.overlaps_next)
        longest = std::max(longest, (events[i + 2].start - events[i].end).value);
    }
  }
  return longest;
}

TEST(Generators, PairsOfOneForwardOneBackwardRunWithoutWaiting) {
  for (const int ranks : {1, 2, 4, 7}) {
    for (const int microbatches : {1, 2 * ranks, 5 * ranks}) {
      for (const int chunks : {1, 2, 3}) {
        if (chunks > 1 && microbatches < ranks) continue;
        const Schedule schedule = chunks == 1 ? one_f_one_b_pairs(ranks, microbatches)
                                              : interleaved(ranks, microbatches, chunks, ranks, true);
        SCOPED_TRACE(testing::Message() << ranks << " ranks, " << microbatches << " of " << chunks);
        const Schedule complete = add_transfers(schedule, TransferOrder::posted);
        validate(complete);
        EXPECT_FALSE(find_deadlock(complete, Ordering::posted_sends).found);
        check_deadlock_free(add_transfers(schedule));
        const int pairs = std::max(0, microbatches * chunks - 2 * (ranks - 1) - (chunks - 1) * ranks - 1);
        EXPECT_EQ(std::count_if(schedule.actions[0].begin(), schedule.actions[0].end(),
                                [](const Action& a) { return a.overlaps_next; }),
                  pairs);
        if (chunks > 1) continue;
        EXPECT_LE(peak_in_flight(schedule, 0), std::min(2 * ranks, microbatches));
        Costs costs = uniform_costs(ranks, {.forward = {1}, .backward = {2}});
        EXPECT_NEAR(simulate(schedule, costs).makespan().value, 3 * (microbatches + ranks - 1), 1e-9);
        costs.overlap_factor = 0.7;
        EXPECT_NEAR(longest_gap_between_pairs(simulate(schedule, costs)), 0, 1e-9);
      }
    }
  }
}

struct Refusal {
  const char* name;
  int ranks, microbatches, chunks;
  const char* says;
};
constexpr Refusal kRefusals[] = {
    {"1f1b", 0, 4, 0, "at least 1"},
    {"1f1b", 4, 0, 0, "at least 1"},
    {"1f1b", 4, 4, 2, "expected 1"},
    {"zb-h2", 4, 6, 0, "at least 2P-1 = 7"},
    {"dualpipe", 3, 8, 0, "both even"},
    {"dualpipe", 4, 6, 0, "at least 2P = 8"},
    {"dualpipev", 4, 7, 0, "at least 2P = 8"},
    {"interleaved", 4, 3, 2, "ranks <= group <= micro-batches"},
    {"interleaved", 4, 6, 2, "last group"},
    {"1f1B", 4, 6, 0, "expected one such as 1f1b"},
    {"gpipe", 70000, 1, 0, "at most 65535 stages"},
};

TEST(Generators, StateTheirConstraints) {
  for (const Refusal& refusal : kRefusals) {
    ScheduleRequest request;
    request.name = refusal.name;
    request.ranks = refusal.ranks;
    request.microbatches = refusal.microbatches;
    request.chunks = refusal.chunks;
    try {
      make_schedule(request);
      ADD_FAILURE() << refusal.name << " was accepted";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(refusal.says));
    }
  }
}

TEST(Generators, InterleavedWithLargerAndUnevenGroups) {
  for (const auto& [ranks, microbatches, chunks, group] :
       {std::array{4, 16, 2, 8}, std::array{4, 12, 3, 8}, std::array{2, 7, 4, 5}, std::array{4, 9, 2, 9}}) {
    EXPECT_EQ(find_fault(interleaved(ranks, microbatches, chunks, group)).rule, "");
  }
}

TEST(Generators, AutomaticSchedulerRespectsItsMemory) {
  for (const double limit : {1.0, 3.0, 8.0, 16.0}) {
    ZeroBubbleCosts costs;
    costs.forward.assign(8, {1});
    costs.backward_input.assign(8, {1.1});
    costs.backward_weight.assign(8, {0.7});
    costs.transfer = {0.05};
    costs.memory_limit = limit;
    const Schedule schedule = zb_auto(8, 24, costs);
    EXPECT_EQ(find_fault(schedule).rule, "");
    for (int rank = 0; rank < 8; ++rank) EXPECT_LE(peak_in_flight(schedule, rank), limit);
  }
}

}  // namespace
}  // namespace plumbline::generators_test
