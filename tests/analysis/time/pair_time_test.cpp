// Two actions alternately, by hand: hidden and exposed exchanges.
#include "analysis/time/pair_time.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "analysis/work/operator_list_calls.hpp"

namespace plumbline::pair_time_test {
namespace {

constexpr double kBytesPerSecond = 1e9;

/// Kernels take their bytes at 1 GB/s, collectives of two ranks twice as long as their share of the bytes.
HardwareProfile machine_of(double held) {
  HardwareProfile p;
  Machine& constants = p.kind.emplace<Accelerator>(Accelerator{"a test's", {}}).constants;
  constants.device.processors = 100;
  constants.device.collective_processors = held;
  constants.device.bandwidth = kBytesPerSecond;
  constants.device.stream_share = 1;
  constants.network.node_bandwidth = kBytesPerSecond;
  constants.network.nic_step_s = 1;
  return p;
}

OperatorCall kernel(double seconds) {
  return CallList::memory_call("add", static_cast<std::int64_t>(seconds * kBytesPerSecond), 1, DType::uint8);
}
OperatorCall collective(CallKind kind, double seconds, Group group) {
  return CallList::collective_call(kind, "a", group, 2,
                                   static_cast<std::int64_t>(2 * seconds * kBytesPerSecond), DType::uint8);
}
OperatorCall awaited(double seconds) {
  return collective(CallKind::all_gather, seconds, Group::expert);
}
OperatorCall exchange(double seconds) {
  OperatorCall call = awaited(seconds);
  call.get<CollectiveCall>().hands_over = true;
  return call;
}
/// `times` layers of these calls; the gradient of each is scattered afterwards.
ActionWork work_of(std::vector<OperatorCall> calls, std::int64_t times = 1, double scatter = 0) {
  ActionWork work;
  work.parts.emplace_back().calls = std::move(calls);
  if (scatter > 0) work.parts.back().scatter = collective(CallKind::reduce_scatter, scatter, Group::data);
  work.runs.push_back({0, times});
  return work;
}

struct Case {
  const char* name;
  ActionWork first, second;
  double all, tensor;
  double hidden;  // of the expert group's collectives
  double held = 0;
};

TEST(PairTime, ByHand) {
  const Case cases[] = {
      {"nothing to exchange", work_of({kernel(2)}), work_of({kernel(3)}), 5, 0, 0},
      {"both hidden", work_of({kernel(2), exchange(3), kernel(2)}),
       work_of({kernel(4), exchange(1), kernel(1)}), 9, 0, 4},
      {"one lane: the second exchange begins after the first", work_of({kernel(1), exchange(5), kernel(1)}),
       work_of({kernel(1), exchange(5), kernel(1)}), 12, 8, 2},
      {"the other one has ended", work_of({kernel(1)}), work_of({kernel(1), exchange(2), kernel(1)}), 5, 2,
       0},
      {"what is awaited waits for the lane", work_of({kernel(1), exchange(4), kernel(1)}),
       work_of({kernel(1), awaited(1), kernel(1)}), 8, 4, 1},
      {"20 of 100 processors are held: 4 s of the kernel do 3.2 s of its work",
       work_of({kernel(1), exchange(4), kernel(1)}), work_of({kernel(10)}), 12.8, 0.8, 4, 20},
      {"layer by layer: behind what is left of the other one, nothing",
       work_of({kernel(1), exchange(2), kernel(1)}, 2), work_of({kernel(3), exchange(1)}), 9, 2, 3},
      {"gradients are scattered alongside, and waited for where their action ends",
       work_of({kernel(1), exchange(4), kernel(1)}), work_of({kernel(2)}, 1, 3), 7, 0, 4},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    Load load;
    load.layout = {1, 1, 2};
    load.layout.expert = 2;
    const PairTime time = time_pair({c.first, load}, {c.second, load}, machine_of(c.held));
    EXPECT_NEAR(time.all.value, c.all, 1e-9);
    EXPECT_NEAR(time.tensor.value, c.tensor, 1e-9);
    double paid = 0;
    double hidden = 0;
    double exposed = 0;
    for (const Alongside& part : time.alongside) {
      paid += (part.exposed + part.slower).value;
      exposed += part.exposed.value;
      hidden += (part.all - part.exposed).value;
    }
    EXPECT_NEAR(paid, c.tensor, 1e-9);
    double waited = 0;
    double unseen = 0;
    double busy = 0;  // the lane of the expert group, until
    for (const LaneSpan& span : time.lanes) {
      EXPECT_LE(span.end.value, c.all + 1e-9);
      if (span.group != Group::expert) continue;
      EXPECT_GE(span.start.value, busy - 1e-9);
      busy = span.end.value;
      waited += span.waited.value;
      unseen += (span.end - span.start).value;
    }
    EXPECT_NEAR(waited, c.held > 0 ? 0 : c.tensor, 1e-9);  // held: all of it is computation that takes longer
    EXPECT_NEAR(unseen, c.hidden + exposed, 1e-9);
    EXPECT_NEAR(hidden, c.hidden, 1e-9);
  }
}

}  // namespace
}  // namespace plumbline::pair_time_test
