// Samples without those of a low clock, times on the processor, and every call that is benchmarked.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>
#include <vector>

#include "bench/measure/operators/benched_call.hpp"
#include "bench/measure/operators/cpu_timer.hpp"
#include "core/run/monotonic_clock.hpp"
#include "kernels/cpu/cpu_operators.hpp"

namespace plumbline::operator_timer_test {
namespace {

TEST(ClockedSamples, LeaveOutThoseOfALowClock) {
  struct Case {
    const char* name;
    std::vector<double> seconds, clocks;
    double median;
    int throttled;
    bool slow;
  };
  const Case cases[] = {
      {"steady", {1, 1, 1}, {2, 2, 2}, 1, 0, false},
      {"one low", {1, 3, 1}, {2, 1, 2}, 1, 1, false},
      {"just enough", {1, 3, 3}, {2, 1.5, 1.6}, 3, 0, false},
      {"low before the highest", {3, 3, 1}, {1, 1, 2}, 1, 2, false},
      {"unknown", {1, 2, 3}, {0, 0, 0}, 2, 0, false},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    std::size_t next = 0;
    const ClockReader clock = [&] { return c.clocks[next++]; };
    double highest = 0;
    ClockedSamples samples(clock, highest);
    for (const double each : c.seconds) samples.add(each);
    EXPECT_FALSE(samples.enough(false));
    EXPECT_TRUE(samples.enough(true));
    const BenchedTime time = samples.time(10);
    EXPECT_EQ(time.seconds, c.median);
    EXPECT_EQ(time.throttled, c.throttled);
    EXPECT_EQ(time.slow, c.slow);
    EXPECT_EQ(time.calls, 10 * static_cast<std::int64_t>(c.seconds.size() - c.throttled));
  }
  const ClockReader low = [] { return 1.0; };
  double highest = 2;
  ClockedSamples samples(low, highest);
  samples.add(5);
  EXPECT_TRUE(samples.time(1).slow);
  EXPECT_EQ(samples.time(1).seconds, 5);
  EXPECT_EQ(samples.time(1).clock, 0.5);
}

TEST(CpuTimer, TimesACallAndItsClock) {
  constexpr double kCall = 300e-6;
  const auto call = [] {
    const double end = monotonic_now().value + kCall;
    while (monotonic_now().value < end) {
    }
  };
  CpuTimer timer;
  for (const BenchedTime& time : {timer.isolated(call, 0.05), timer.batched(call, 0.05)}) {
    EXPECT_GE(time.seconds, kCall);
    EXPECT_LT(time.seconds, 3 * kCall);  // beside other programs
    EXPECT_GT(time.clock, 0);
  }
  const double clock = multiplication_clock();
  EXPECT_GT(clock, 1e7);  // multiplications per second
  EXPECT_LT(clock, 1e11);
}

TEST(BenchedCall, PreparesEveryOperatorInBothTypes) {
  const auto operators = make_cpu_operators();
  const auto memory = host_memory();
  std::vector<BenchedShape> shapes;
  const auto add = [&](BenchedOperator kind, BenchedPass pass) -> BenchedShape& {
    shapes.emplace_back().kind = kind;
    shapes.back().pass = pass;
    return shapes.back();
  };
  for (const std::string_view name : memory_bound_operators()) {
    BenchedShape& shape = add(BenchedOperator::memory_bound, BenchedPass::forward);
    shape.name = name;
    shape.tokens = 8, shape.width = 64;
  }
  for (const BenchedPass pass :
       {BenchedPass::forward, BenchedPass::input_gradient, BenchedPass::weight_gradient}) {
    BenchedShape& shape = add(BenchedOperator::gemm, pass);
    shape.m = 8, shape.n = 16, shape.k = 24;
  }
  for (const BenchedPass pass : {BenchedPass::forward, BenchedPass::backward}) {
    BenchedShape& shape = add(BenchedOperator::attention, pass);
    shape.batch = 2, shape.sequence = 16, shape.heads = 4, shape.kv_heads = 2, shape.head = 16;
    shape.window = 4;
  }
  for (const std::int64_t ep : {1, 2}) {
    BenchedShape& shape = add(BenchedOperator::experts, BenchedPass::forward);
    shape.tokens = 32, shape.hidden = 16, shape.ffn = 32, shape.choices = 2, shape.experts = 4;
    shape.tp = 2, shape.ep = ep;
  }
  for (const DType type : {DType::fp32, DType::bf16}) {
    for (BenchedShape shape : shapes) {
      shape.type = type;
      SCOPED_TRACE(shape.name + " " + shape_text(shape));
      const PreparedOperator prepared = prepare(shape, *operators, *memory);
      prepared.run();
      prepared.run();
      EXPECT_GT(prepared.bytes, 0);
      if (shape.kind == BenchedOperator::memory_bound) {
        // The largest matrix has tokens x width elements.
        EXPECT_GE(prepared.bytes, 8 * 64 * size_of(type == DType::bf16 ? DType::bf16 : DType::fp32));
        EXPECT_LE(prepared.bytes, 8 * 64 * 40);
      }
    }
  }
}

}  // namespace
}  // namespace plumbline::operator_timer_test
