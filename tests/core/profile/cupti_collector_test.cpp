// The collector with a CUPTI that hands out a step's last records only if forced to. The real one does so
// while any record of their buffer is incomplete.
#include "core/profile/cupti_collector.hpp"

#include <cuda_runtime_api.h>
#include <cupti.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace {

CUpti_BuffersCallbackRequestFunc request = nullptr;
CUpti_BuffersCallbackCompleteFunc complete_buffer = nullptr;
std::vector<CUpti_ActivityKernel10> under_way;
std::vector<std::uint64_t> pushed;  // numbers of launches, the last one counts

CUpti_ActivityKernel10 kernel_with(std::uint32_t correlation, std::uint64_t start, std::uint64_t end) {
  CUpti_ActivityKernel10 kernel{};
  kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  kernel.name = "kernel";
  kernel.correlationId = correlation;
  kernel.start = start;
  kernel.end = end;
  return kernel;
}

}  // namespace

extern "C" {

CUptiResult cuptiActivityFlushAll(std::uint32_t flag) {
  if (flag != CUPTI_ACTIVITY_FLAG_FLUSH_FORCED || under_way.empty()) return CUPTI_SUCCESS;
  std::uint8_t* buffer = nullptr;
  std::size_t size = 0;
  std::size_t most = 0;
  request(&buffer, &size, &most);
  const std::size_t bytes = under_way.size() * sizeof under_way[0];
  std::memcpy(buffer, under_way.data(), bytes);
  under_way.clear();
  complete_buffer(nullptr, 0, buffer, size, bytes);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid, CUpti_Activity** record) {
  std::uint8_t* next =
      *record == nullptr ? buffer : reinterpret_cast<std::uint8_t*>(*record) + sizeof(CUpti_ActivityKernel10);
  if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                                           CUpti_BuffersCallbackCompleteFunc completed) {
  request = requested;
  complete_buffer = completed;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc) {
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind) {
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityDisable(CUpti_ActivityKind) {
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t, std::size_t* dropped) {
  *dropped = 0;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind, std::uint64_t id) {
  pushed.push_back(id);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind, std::uint64_t*) {
  pushed.pop_back();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*, CUpti_SubscriberParams*) {
  return CUPTI_SUCCESS;
}
CUptiResult cuptiSubscribe(CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*) {
  return CUPTI_SUCCESS;
}
CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) {
  return CUPTI_SUCCESS;
}
CUptiResult cuptiFinalize() {
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetVersion(std::uint32_t* version) {
  *version = 0;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetResultString(CUptiResult, const char** text) {
  *text = "refused";
  return CUPTI_SUCCESS;
}

}  // extern "C"

namespace plumbline::cupti_collector_test {
namespace {

TEST(CuptiCollector, KeepsTheLastRecordsOfAStepAndNoneThatIsIncomplete) {
  std::string reason;
  const auto collector = CuptiCollector::start(reason);
  ASSERT_NE(collector, nullptr) << reason;
  std::vector<Event> events;
  Seconds communication;
  under_way = {kernel_with(1, 5, 6)};  // before the step
  collector->step_begins(0);
  under_way = {kernel_with(2, 10, 20), kernel_with(3, 20, 30), kernel_with(4, 30, CUPTI_TIMESTAMP_UNKNOWN)};
  collector->step_ends({}, events, communication);
  ASSERT_EQ(collector->recorded().activities.size(), 2U);
  EXPECT_EQ(collector->recorded().activities[0].correlation, 2U);
  EXPECT_EQ(collector->recorded().activities[1].correlation, 3U);
  EXPECT_NEAR(collector->recorded().activities[1].end.value, 30e-9, 1e-15);
}

/// Launches have the number of the action that works, which changes within a pair.
TEST(CuptiCollector, GivesLaunchesOfAPairToTheActionThatWorks) {
  std::string reason;
  const auto collector = CuptiCollector::start(reason);
  ASSERT_NE(collector, nullptr) << reason;
  collector->step_begins(0);
  const Action forward{ActionType::forward, true, 0, 1}, backward{ActionType::backward, false, 0, 0};
  const auto number = [&](const Action& action) {
    for (const ActionWindow& window : collector->windows())
      if (window.action == action) return window.external;
    return std::uint64_t{0};
  };
  collector->action_begins(forward, {});
  collector->action_begins(backward, {});
  for (const Action& works : {forward, backward, forward, forward, backward}) {
    collector->action_goes_on(works);
    ASSERT_EQ(pushed.size(), 2U);
    EXPECT_EQ(pushed.back(), number(works));
  }
  collector->action_ends(forward);
  collector->action_ends(backward);
  EXPECT_TRUE(pushed.empty());
  EXPECT_NE(number(forward), number(backward));
}

}  // namespace
}  // namespace plumbline::cupti_collector_test
