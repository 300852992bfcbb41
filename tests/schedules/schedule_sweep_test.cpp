// Every schedule at every legal size with P <= 16, V <= 4, M <= 64: valid, free of deadlock, within its peak
// and its closed form.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "analysis/simulate/closed_forms.hpp"
#include "analysis/simulate/simulator.hpp"
#include "core/base/error.hpp"
#include "core/validate/deadlock.hpp"
#include "core/validate/validate.hpp"
#include "schedules/make_schedule.hpp"
#include "schedules/passes.hpp"

namespace plumbline::schedule_sweep_test {
namespace {

constexpr double kTeacher = 0.7;

/// Upper bound of any rank's activations, where no closed form gives it.
double stated_peak(const std::string& name, int p, int m) {
  if (name == "vocab-1") return std::min(p + 2, m);
  if (name == "vocab-2") return std::min(p + 1, m);
  if (name == "interlaced") return std::min(1.5 * p, static_cast<double>(m));
  if (name == "dualpipe") return p + 1;
  if (name == "dualpipev") return p + 0.5;
  if (name == "v-half") return std::min(p / 2 + 1.0 + (p % 2 == 0 ? 0 : 0.5), static_cast<double>(m));
  if (name == "v-min") return std::min(p / 3 + 2.0, static_cast<double>(m));
  if (name == "v-half-vocab-1") return std::min(p / 2 + 3.5, static_cast<double>(m));
  if (name == "v-half-vocab-2") return std::min(p / 2 + 2.5, static_cast<double>(m));
  return std::min(p, m);  // zb-auto, zb-h1, zb-v, abeja
}

void check_closed_form(const Schedule& schedule, const ScheduleRequest& request, double b, double w) {
  const bool distillation = request.name.rfind("nemo", 0) == 0;
  const auto form = closed_form(request.name, request.ranks, request.microbatches, request.chunks,
                                {{1}, {b}, {w}, {kTeacher}});
  double peak = 0;
  for (int rank = 0; rank < schedule.ranks; ++rank) peak = std::max(peak, peak_in_flight(schedule, rank));
  if (!form) {
    ASSERT_LE(peak, stated_peak(request.name, request.ranks, request.microbatches) + 1e-9);
    return;
  }
  const double chunks = static_cast<double>(schedule.stages_per_route()) / schedule.ranks;
  const StageCosts each{.forward = {1 / chunks},
                        .backward = {(b + w) / chunks},
                        .backward_input = {b / chunks},
                        .backward_weight = {w / chunks},
                        .teacher_forward = {kTeacher}};
  const Trace trace = simulate(schedule, uniform_costs(schedule.stages, each));
  const double work = schedule.microbatches * (1 + b + w + (distillation ? kTeacher : 0));
  double idle = 0;
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const auto& events = trace.ranks[static_cast<std::size_t>(rank)];
    idle = std::max(idle, (events.back().end - events.front().start - trace.busy(rank)).value);
  }
  ASSERT_NEAR(trace.makespan().value - work, form->bubble.value, 1e-9);
  ASSERT_NEAR(idle, form->idle.value, 1e-9);
  ASSERT_DOUBLE_EQ(peak, form->peak_activations);
}

void check_one(const ScheduleRequest& request) {
  Schedule schedule;
  try {
    schedule = make_schedule(request);
  } catch (const InputError&) {
    return;  // the sizes do not allow it
  }
  SCOPED_TRACE(request.name + " P=" + std::to_string(request.ranks) +
               " M=" + std::to_string(request.microbatches) + " V=" + std::to_string(request.chunks));
  ASSERT_EQ(find_fault(schedule).rule, "");
  const Schedule complete = add_step_end(add_transfers(schedule), {true, true});
  ASSERT_EQ(find_fault(complete).rule, "");
  ASSERT_EQ(find_deadlock(complete, Ordering::synchronous).what, "");
  ASSERT_EQ(find_deadlock(complete, Ordering::grouped).what, "");
  ASSERT_EQ(find_deadlock(complete, Ordering::posted_sends).what, "");
  const Schedule sends_first = add_transfers(schedule, TransferOrder::sends_first);
  ASSERT_EQ(find_deadlock(sends_first, Ordering::grouped).what, "");
  ASSERT_EQ(find_deadlock(sends_first, Ordering::posted_sends).what, "");
  const Schedule posted = add_transfers(schedule, TransferOrder::posted);
  ASSERT_EQ(find_fault(posted).rule, "");
  ASSERT_EQ(find_deadlock(posted, Ordering::posted_sends).what, "");
  check_closed_form(schedule, request, 1, 1);
  check_closed_form(schedule, request, 1.2, 0.8);
}

class Sweep : public testing::TestWithParam<std::string_view> {};

TEST_P(Sweep, EveryLegalSize) {
  for (int ranks = 1; ranks <= 16; ++ranks) {
    for (int microbatches = 1; microbatches <= 64; ++microbatches) {
      const bool any_chunks = GetParam() == "interleaved";
      for (int chunks = any_chunks ? 1 : 0; chunks <= (any_chunks ? 4 : 0); ++chunks) {
        ScheduleRequest request;
        request.name = GetParam();
        request.ranks = ranks;
        request.microbatches = microbatches;
        request.chunks = chunks;
        check_one(request);
        if (HasFatalFailure()) return;
      }
    }
  }
}

std::string test_name(const testing::TestParamInfo<std::string_view>& info) {
  std::string name(info.param);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Schedules, Sweep, testing::ValuesIn(schedule_names()), test_name);

}  // namespace
}  // namespace plumbline::schedule_sweep_test
