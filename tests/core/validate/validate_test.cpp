// Seeded faults: every kind is caught, with the right rule and cell.
#include "core/validate/validate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "core/base/error.hpp"
#include "core/validate/deadlock.hpp"
#include "schedules/make_schedule.hpp"
#include "schedules/passes.hpp"

namespace plumbline::validate_test {
namespace {

using testing::HasSubstr;

/// Small schedules of every kind, with transfers and the end of the step.
std::vector<Schedule> samples() {
  std::vector<Schedule> list;
  for (const std::string_view name : schedule_names()) {
    ScheduleRequest request;
    request.name = name;
    request.ranks = 4;
    request.microbatches = 8;
    list.push_back(make_schedule(request));
    list.push_back(add_step_end(add_transfers(list.back()), {true, true}));
  }
  return list;
}

bool has_fault(const Schedule& schedule) {
  try {
    return !find_fault(schedule).rule.empty() || find_deadlock(schedule, Ordering::synchronous).found ||
           find_deadlock(schedule, Ordering::grouped).found;
  } catch (const InputError&) {
    return true;
  }
}

/// Does the first fault name the changed cell, by its new or its old content or by its place?
bool names_cell(const Schedule& broken, int rank, std::size_t position, const Action& before) {
  const Action& now = broken.actions[static_cast<std::size_t>(rank)][position];
  try {
    const Fault fault = find_fault(broken);
    return fault.rank == rank && (fault.rule.find(to_string(now)) != std::string::npos ||
                                  fault.rule.find(to_string(before)) != std::string::npos);
  } catch (const InputError& error) {
    const std::string place =
        "rank " + std::to_string(rank) + ", column " + std::to_string(position + 1) + ": " + to_string(now);
    return std::string(error.what()).find(place) != std::string::npos;
  }
}

TEST(Validate, SamplesAreSound) {
  for (const Schedule& schedule : samples()) EXPECT_NO_THROW(validate(schedule)) << schedule.name;
}

TEST(Validate, EveryDroppedActionIsMissed) {
  for (const Schedule& schedule : samples()) {
    for (int rank = 0; rank < schedule.ranks; ++rank) {
      for (std::size_t i = 0; i < schedule.actions[static_cast<std::size_t>(rank)].size(); ++i) {
        Schedule broken = schedule;
        auto& actions = broken.actions[static_cast<std::size_t>(rank)];
        const Action dropped = actions[i];
        if (dropped.overlaps_next || (i > 0 && actions[i - 1].overlaps_next)) continue;
        actions.erase(actions.begin() + static_cast<std::ptrdiff_t>(i));
        const Fault fault = find_fault(broken);
        const bool by_name = dropped.type == ActionType::reduce_gradients ||
                             dropped.type == ActionType::reduce_embedding ||
                             dropped.type == ActionType::optimizer;
        const std::string name(by_name ? std::string(name_of(dropped.type)) : to_string(dropped));
        ASSERT_THAT(fault.rule, HasSubstr(name)) << schedule.name;
        ASSERT_THAT(fault.rule, HasSubstr("missing")) << schedule.name;
        ASSERT_EQ(fault.rank, rank) << schedule.name << ": " << fault.rule;
      }
    }
  }
}

TEST(Validate, EveryDuplicateIsFound) {
  for (const Schedule& schedule : samples()) {
    for (int rank = 0; rank < schedule.ranks; ++rank) {
      const std::size_t size = schedule.actions[static_cast<std::size_t>(rank)].size();
      for (std::size_t i = 0; i < size; i += 3) {
        Schedule broken = schedule;
        auto& actions = broken.actions[static_cast<std::size_t>(rank)];
        Action copy = actions[i];
        copy.overlaps_next = false;
        actions.push_back(copy);
        const Fault fault = find_fault(broken);
        ASSERT_THAT(fault.rule, HasSubstr(to_string(copy) + " appears twice")) << schedule.name;
        ASSERT_EQ(fault.rank, rank);
        ASSERT_EQ(fault.position, static_cast<int>(size));
      }
    }
  }
}

TEST(Validate, EveryWrongNumberIsFound) {
  for (const Schedule& schedule : samples()) {
    for (int rank = 0; rank < schedule.ranks; ++rank) {
      for (std::size_t i = 0; i < schedule.actions[static_cast<std::size_t>(rank)].size(); ++i) {
        for (const bool change_stage : {false, true}) {
          Schedule broken = schedule;
          Action& action = broken.actions[static_cast<std::size_t>(rank)][i];
          const bool per_rank = !is_compute(action.type) && !is_transfer(action.type);
          if (per_rank) continue;  // such actions carry no number of interest
          if (change_stage) {
            action.stage = static_cast<std::uint16_t>((action.stage + 1) % schedule.stages);
          } else {
            action.microbatch = (action.microbatch + 1) % static_cast<std::uint32_t>(schedule.microbatches);
          }
          ASSERT_TRUE(names_cell(broken, rank, i, schedule.actions[static_cast<std::size_t>(rank)][i]))
              << schedule.name << " rank " << rank << " position " << i;
        }
      }
    }
  }
}

TEST(Validate, SwappedTransfersAreFound) {
  // Exchanging the payloads of two transfers of a kind on one rank always disorders a channel or an order of
  // use.
  for (const Schedule& schedule : samples()) {
    for (int rank = 0; rank < schedule.ranks; ++rank) {
      const auto& actions = schedule.actions[static_cast<std::size_t>(rank)];
      for (std::size_t i = 0; i < actions.size(); ++i) {
        if (!is_transfer(actions[i].type)) continue;
        for (std::size_t j = i + 1; j < actions.size(); ++j) {
          if (actions[j].type != actions[i].type || actions[j].stage != actions[i].stage) continue;
          Schedule broken = schedule;
          auto& changed = broken.actions[static_cast<std::size_t>(rank)];
          std::swap(changed[i], changed[j]);
          ASSERT_TRUE(has_fault(broken))
              << schedule.name << " " << to_string(actions[i]) << to_string(actions[j]);
          break;
        }
      }
    }
  }
}

TEST(Validate, TransfersOnTheWrongSideOfTheirWorkAreFound) {
  for (const Schedule& schedule : samples()) {
    for (int rank = 0; rank < schedule.ranks; ++rank) {
      const auto& actions = schedule.actions[static_cast<std::size_t>(rank)];
      for (std::size_t i = 0; i + 1 < actions.size(); ++i) {
        const bool late = is_receive(actions[i].type) && is_compute(actions[i + 1].type) &&
                          actions[i].stage == actions[i + 1].stage &&
                          actions[i].microbatch == actions[i + 1].microbatch;
        const bool early = is_send(actions[i + 1].type) && is_compute(actions[i].type) &&
                           actions[i].stage == actions[i + 1].stage &&
                           actions[i].microbatch == actions[i + 1].microbatch;
        if ((!late && !early) || actions[i].overlaps_next || actions[i + 1].overlaps_next) continue;
        Schedule broken = schedule;
        auto& changed = broken.actions[static_cast<std::size_t>(rank)];
        std::swap(changed[i], changed[i + 1]);
        const Fault fault = find_fault(broken);
        ASSERT_THAT(fault.rule, HasSubstr(late ? "comes after its use" : "comes before what it sends"));
        ASSERT_EQ(fault.rank, rank);
        ASSERT_EQ(fault.position, static_cast<int>(late ? i + 1 : i));
      }
    }
  }
}

TEST(Validate, SwappedComputeIsFoundWhereItBreaksARule) {
  // Two passes of one stage and micro-batch in the wrong order.
  for (const Schedule& schedule : samples()) {
    for (int rank = 0; rank < schedule.ranks; ++rank) {
      const auto& actions = schedule.actions[static_cast<std::size_t>(rank)];
      for (std::size_t i = 0; i < actions.size(); ++i) {
        if (actions[i].type != ActionType::forward || actions[i].overlaps_next) continue;
        for (std::size_t j = i + 1; j < actions.size(); ++j) {
          const bool backward =
              actions[j].type == ActionType::backward || actions[j].type == ActionType::backward_input;
          if (!backward || actions[j].stage != actions[i].stage ||
              actions[j].microbatch != actions[i].microbatch) {
            continue;
          }
          Schedule broken = schedule;
          auto& changed = broken.actions[static_cast<std::size_t>(rank)];
          std::swap(changed[i], changed[j]);
          std::swap(changed[i].overlaps_next, changed[j].overlaps_next);
          const Fault fault = find_fault(broken);
          ASSERT_THAT(fault.rule,
                      HasSubstr(to_string(actions[j]) + " comes before " + to_string(actions[i])));
          ASSERT_EQ(fault.rank, rank);
          ASSERT_EQ(fault.position, static_cast<int>(i));
        }
      }
    }
  }
}

TEST(Validate, CircularOrderNamesTheCells) {
  Schedule schedule = one_f_one_b(2, 2);
  // rank 0: F0 F1 B0 B1; rank 1 wants micro-batch 1 first while rank 0 wants the gradient of 0 before
  // sending 1.
  schedule.actions[0] = {{ActionType::forward, false, 0, 0},
                         {ActionType::backward, false, 0, 0},
                         {ActionType::forward, false, 0, 1},
                         {ActionType::backward, false, 0, 1}};
  schedule.actions[1] = {{ActionType::forward, false, 1, 1},
                         {ActionType::backward, false, 1, 1},
                         {ActionType::forward, false, 1, 0},
                         {ActionType::backward, false, 1, 0}};
  const Fault fault = find_fault(schedule);
  EXPECT_THAT(fault.rule, HasSubstr("0B0 (rank 0, column 2) waits for 1F1 (rank 1, column 1)"));
  try {
    validate(schedule);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
    EXPECT_THAT(error.drawing(), HasSubstr(">0B0<"));
  }
}

TEST(Validate, GridShowsTheNeighbourhood) {
  const std::string grid = grid_around(one_f_one_b(8, 16), 4, 10);
  EXPECT_THAT(grid, HasSubstr(">4B3<"));
  EXPECT_THAT(grid, HasSubstr("rank   7"));
  EXPECT_THAT(grid, testing::Not(HasSubstr("rank   0 ")));
}

}  // namespace
}  // namespace plumbline::validate_test
