// bubble-fill at many sizes and costs: a correct step that cannot deadlock, within its limits.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/deadlock.hpp"
#include "core/error.hpp"
#include "core/validate.hpp"
#include "schedules/generators.hpp"
#include "schedules/passes.hpp"

namespace plumbline {
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

DistillationTimes times_of(int ranks, double teacher, bool uneven) {
  DistillationTimes times;
  for (int rank = 0; rank < ranks; ++rank) {
    const double load = uneven ? 1 + 0.3 * ((rank * 7) % 3) : 1;  // stages of different lengths
    times.teacher.push_back({teacher * load});
    times.forward.push_back({load});
    times.backward.push_back({2 * load});
  }
  return times;
}

TEST(BubbleFill, ValidFreeOfDeadlockAndWithinItsLimits) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (const int microbatches : {1, 2, 5, 16, 24}) {
      for (const std::int64_t cached : {1, 2, 5, 100}) {
        for (const double teacher : {0.3, 1.0, 3.0}) {
          for (const bool uneven : {false, true}) {
            const std::string what =
                fmt::format("P {} M {} K {} teacher {}", ranks, microbatches, cached, teacher);
            const Schedule order =
                distillation_bubble_fill(ranks, microbatches, cached, times_of(ranks, teacher, uneven));
            EXPECT_LE(most_cached(order), cached) << what;
            for (int rank = 0; rank < ranks; ++rank) {
              EXPECT_LE(peak_in_flight(order, rank), ranks - rank) << what << " rank " << rank;
            }
            for (const TransferOrder transfers : {TransferOrder::blocking, TransferOrder::sends_first}) {
              const Schedule step = add_transfers(order, transfers);
              EXPECT_EQ(find_fault(step).rule, "") << what;
              EXPECT_FALSE(find_deadlock(step, Ordering::posted_sends).found) << what;
              if (transfers == TransferOrder::sends_first) continue;
              EXPECT_NO_THROW(check_deadlock_free(step)) << what;
            }
          }
        }
      }
    }
  }
}

TEST(BubbleFill, RefusesNoCacheAndTimesOfOtherRanks) {
  EXPECT_THROW(distillation_bubble_fill(2, 4, 0, times_of(2, 1, false)), InputError);
  EXPECT_THROW(distillation_bubble_fill(2, 4, 1, times_of(3, 1, false)), InputError);
}

}  // namespace
}  // namespace plumbline
