// bubble-fill: correct steps that cannot deadlock within their limits at many sizes and costs, and faster
// than the other distillation schedules.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "analysis/simulate/simulator.hpp"
#include "core/base/error.hpp"
#include "core/validate/deadlock.hpp"
#include "core/validate/validate.hpp"
#include "schedules/generators.hpp"
#include "schedules/passes.hpp"

namespace plumbline::bubble_fill_test {
namespace {

/// Most teacher outputs that wait for their loss on the last stage.
int most_cached(const Schedule& schedule) {
  int cached = 0;
  int most = 0;
  for (const Action& action : schedule.actions.back()) {
    if (action.type == ActionType::teacher_forward) most = std::max(most, ++cached);
    if (action.type == ActionType::forward) --cached;
  }
  return most;
}

/// Work of one rank and micro-batch, with B = I + W.
struct Load {
  double teacher, forward, input, weight;
  double message = 0;
  double last_rank = 1;  // how many times longer everything takes there
};

DistillationTimes times_of(int ranks, const Load& load, bool split = true) {
  DistillationTimes times;
  for (int rank = 0; rank < ranks; ++rank) {
    const double factor = rank == ranks - 1 ? load.last_rank : 1;
    times.teacher.push_back({load.teacher * factor});
    times.forward.push_back({load.forward * factor});
    times.backward.push_back({(load.input + load.weight) * factor});
    if (!split) continue;
    times.backward_input.push_back({load.input * factor});
    times.backward_weight.push_back({load.weight * factor});
  }
  times.transfer = times.teacher_transfer = {load.message};
  return times;
}

Costs costs_of(int ranks, const Load& load) {
  const DistillationTimes times = times_of(ranks, load);
  Costs costs = uniform_costs(ranks, {});
  for (std::size_t r = 0; r < costs.stages.size(); ++r) {
    costs.stages[r].teacher_forward = times.teacher[r];
    costs.stages[r].forward = times.forward[r];
    costs.stages[r].backward = times.backward[r];
    costs.stages[r].backward_input = times.backward_input[r];
    costs.stages[r].backward_weight = times.backward_weight[r];
  }
  costs.latency = times.transfer;
  costs.one_send_buffer = true;
  return costs;
}

/// As executed: with transfers and one send buffer per stage.
double step(const Schedule& schedule, const Costs& costs) {
  return simulate_makespan(add_transfers(schedule, TransferOrder::posted), costs).value;
}

/// Room of the first rank of 1F1B, on every rank.
DistillationRoom room_of_first_rank(int ranks) {
  DistillationRoom room = room_of_one_f_one_b(ranks);
  room.activations.assign(room.activations.size(), ranks);
  return room;
}

TEST(BubbleFill, ValidFreeOfDeadlockAndWithinItsLimits) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (const int microbatches : {1, 2, 5, 16, 24}) {
      for (const std::int64_t cached : {1, 3, 100}) {
        for (const double teacher : {0.3, 1.0, 3.0}) {
          for (const bool tight : {false, true}) {
            const std::string what = fmt::format("P {} M {} K {} teacher {} tight {}", ranks, microbatches,
                                                 cached, teacher, tight);
            const Load load{teacher, 1, 1.1, 0.8, 0.05, tight ? 1.4 : 1};
            const DistillationRoom room = tight ? room_of_one_f_one_b(ranks) : room_of_first_rank(ranks);
            const Schedule order =
                distillation_bubble_fill(ranks, microbatches, cached, times_of(ranks, load), room);
            EXPECT_LE(most_cached(order), cached) << what;
            for (int rank = 0; rank < ranks; ++rank) {
              EXPECT_LE(peak_in_flight(order, rank), tight ? ranks - rank : ranks)
                  << what << " rank " << rank;
            }
            for (const TransferOrder transfers : {TransferOrder::blocking, TransferOrder::posted}) {
              const Schedule complete = add_transfers(order, transfers);
              EXPECT_EQ(find_fault(complete).rule, "") << what;
              EXPECT_FALSE(find_deadlock(complete, Ordering::posted_sends).found) << what;
              if (transfers == TransferOrder::posted) continue;
              EXPECT_NO_THROW(check_deadlock_free(complete)) << what;
            }
          }
        }
      }
    }
  }
}

constexpr Load kLoads[] = {
    {1, 1, 1, 1},           {3, 1, 1, 1},      {0.4, 1, 1, 1},           {2, 1, 1.2, 0.8},
    {1, 1, 1, 1, 0.05},     {3, 1, 1, 1, 0.1}, {0.4, 1, 0.8, 1.2, 0.02}, {2, 1, 1.2, 0.8, 0, 1.5},
    {2, 1, 1, 1, 0.05, 1.2}};

TEST(BubbleFill, BeatsTheOthersWithinTheirMemoryAndAFewOutputs) {
  for (const int ranks : {4, 8}) {
    for (const int microbatches : {2 * ranks, 4 * ranks}) {
      for (const std::int64_t cached : {1, 4}) {
        for (const bool tight : {false, true}) {
          for (const Load& load : kLoads) {
            const Costs costs = costs_of(ranks, load);
            const DistillationRoom room = tight ? room_of_one_f_one_b(ranks) : room_of_first_rank(ranks);
            const double mine = step(
                distillation_bubble_fill(ranks, microbatches, cached, times_of(ranks, load), room), costs);
            for (const Schedule& other :
                 {distillation_nemo_2504(ranks, microbatches), distillation_abeja(ranks, microbatches),
                  distillation_nemo_13065(ranks, microbatches)}) {
              EXPECT_LT(mine, 0.995 * step(other, costs))
                  << other.name << " P " << ranks << " M " << microbatches << " K " << cached << " tight "
                  << tight << " teacher " << load.teacher << " message " << load.message << " last "
                  << load.last_rank;
            }
          }
        }
      }
    }
  }
}

TEST(BubbleFill, WholeBackwardsAreNoSlowerThanAbejaAndWithAllOutputsThanNemo) {
  for (const int ranks : {2, 4, 8}) {
    for (const int microbatches : {1, 3, 8, 32}) {
      for (const Load& load : kLoads) {
        const Costs costs = costs_of(ranks, load);
        const auto mine = [&](std::int64_t cached) {
          return step(distillation_bubble_fill(ranks, microbatches, cached, times_of(ranks, load, false),
                                               room_of_one_f_one_b(ranks)),
                      costs);
        };
        EXPECT_LE(mine(1), step(distillation_abeja(ranks, microbatches), costs) + 1e-9);
        EXPECT_LE(mine(microbatches), step(distillation_nemo_2504(ranks, microbatches), costs) + 1e-9);
      }
    }
  }
}

TEST(BubbleFill, BubblesOfEqualStages) {
  struct Case {
    Load load;
    bool tight;
    double bubble;  // over (P-1)
  };
  constexpr Case kCases[] = {
      {{1, 1, 1, 1}, false, 1},        // max(f_T, f_S) + b - w
      {{3, 1, 1, 1}, false, 3},        //
      {{2, 1, 1.3, 0.9}, false, 2.4},  //
      {{1, 1, 1, 1}, true, 2},         // max(f_T, f_S) + b
      {{3, 1, 1, 1}, true, 4},         //
      {{2, 1, 1.3, 0.9}, true, 3.3},   //
  };
  for (const int ranks : {2, 4, 8}) {
    const int microbatches = 4 * ranks;
    for (const Case& c : kCases) {
      const Load& load = c.load;
      const DistillationRoom room = c.tight ? room_of_one_f_one_b(ranks) : room_of_first_rank(ranks);
      const Schedule order =
          distillation_bubble_fill(ranks, microbatches, ranks, times_of(ranks, load), room);
      const double work = microbatches * (load.teacher + load.forward + load.input + load.weight);
      EXPECT_LE(step(order, costs_of(ranks, load)) - work, (ranks - 1) * c.bubble + 1e-9)
          << ranks << " ranks, teacher " << load.teacher << ", tight " << c.tight;
    }
  }
}

TEST(BubbleFill, LeavesBackwardsWholeWhereItMust) {
  DistillationRoom room = room_of_one_f_one_b(4);
  room.deferred.assign(4, 20);  // no W can ever wait
  const Load load{1, 1, 1, 1};
  const auto count_split = [&] {
    std::ptrdiff_t split = 0;
    for (const auto& actions : distillation_bubble_fill(4, 8, 2, times_of(4, load), room).actions) {
      split += std::count_if(actions.begin(), actions.end(),
                             [](const Action& a) { return a.type == ActionType::backward_input; });
    }
    return split;
  };
  EXPECT_EQ(count_split(), 0);
  room.deferred.assign(4, 1);
  EXPECT_GT(count_split(), 0);
  room.may_split.assign(4, false);
  EXPECT_EQ(count_split(), 0);
}

TEST(BubbleFill, RefusesInOneLine) {
  const auto complaint = [](std::int64_t cached, const DistillationTimes& times,
                            const DistillationRoom& room) {
    try {
      distillation_bubble_fill(2, 4, cached, times, room);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const Load load{1, 1, 1, 1};
  const DistillationRoom room = room_of_first_rank(2);
  EXPECT_EQ(complaint(1, times_of(2, load), room), "accepted");
  EXPECT_EQ(complaint(0, times_of(2, load), room),
            "schedule bubble-fill: 0 cached teacher outputs; expected at least 1");
  EXPECT_THAT(complaint(1, times_of(3, load), room),
              testing::HasSubstr("times of 3, 3 and 3 ranks; expected 2"));
  DistillationTimes half = times_of(2, load);
  half.backward_weight.clear();
  EXPECT_THAT(complaint(1, half, room), testing::HasSubstr("I and W of 2 and 0 ranks; expected 2"));
  EXPECT_THAT(complaint(1, times_of(2, load), room_of_first_rank(3)),
              testing::HasSubstr("room of 3, 3 and 3"));
}

}  // namespace
}  // namespace plumbline::bubble_fill_test
