// Attention by plumbline's own kernels costs what they were recorded to take, where a call asks for them.
#include <gtest/gtest.h>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/time/accelerator_time.hpp"
#include "analysis/time/operator_time.hpp"

namespace plumbline::own_attention_test {
namespace {

const Device& h100() {
  static const HardwareProfile profile = load_hardware("h100-sxm-80gb");
  return profile.accelerator()->constants.device;
}

double tflops(const AttentionCall& call, DType type = DType::bf16) {
  const OperatorCall whole{.work = call, .type = type};
  return flops_of(whole).value / accelerator_time(whole, h100()).value / 1e12;
}

AttentionCall part(std::int64_t queries, std::int64_t past, bool backward = false) {
  return {.backward = backward,
          .own_step = true,
          .queries = queries,
          .head_dim = 128,
          .group = 4,
          .heads = 32,
          .past = past,
          .keys = past > 0 ? queries : 0};
}

TEST(OwnAttention, PartsOfASequenceTakeTheRecordedRates) {
  EXPECT_NEAR(tflops(part(8192, 8192)), 207, 8);
  EXPECT_NEAR(tflops(part(8192, 8192, true)), 137, 6);
  AttentionCall others = part(8192, 8192);
  others.own_step = false;
  EXPECT_GT(tflops(others), 330);  // of software whose kernels take parts
}

TEST(OwnAttention, WholeSequencesAreCudnns) {
  const AttentionCall whole = part(8192, 0);
  EXPECT_GT(tflops(whole), 330);
  AttentionCall block = whole;  // the first of a ring
  block.keys = 8192;
  EXPECT_NEAR(tflops(block), 201, 8);
  EXPECT_NEAR(tflops(block, DType::fp32), 7.3, 0.4);
}

/// One query a sequence: a block of 64 rows for each head, on as many processors.
TEST(OwnAttention, DecodingLeavesProcessorsIdle) {
  const auto decode = [](std::int64_t heads, std::int64_t past) {
    AttentionCall call = part(1, past);
    call.heads = heads;
    call.keys = 0;
    call.cached = true;
    return accelerator_time({.work = call, .type = DType::bf16}, h100()).value;
  };
  EXPECT_NEAR(decode(32, 4096) / decode(64, 4096), 1, 0.01);
  EXPECT_GT(decode(1024, 4096), 4 * decode(132, 4096));
  EXPECT_GT(decode(32, 512), 5e-6);
}

/// A profile by `calibrate` has the times of cuDNN's whole sequences: they count as measured, parts do not.
TEST(OwnAttention, CalibratedTimesAreThoseOfTheirKernels) {
  const HardwareProfile profile =
      load_hardware(PLUMBLINE_SOURCE_DIR "/results/recorded/nvidia-h100-80gb-hbm3/profile.json");
  const auto seconds = [&](const AttentionCall& call) {
    return time_of({.work = call, .type = DType::bf16}, profile, {}).value;
  };
  const AttentionCall block = part(4096, 4096);
  const double flops = flops_of({.work = block}).value;
  EXPECT_NEAR(flops / seconds(block) / 1e12, 207, 12);
  EXPECT_FALSE(is_measured({.work = block, .type = DType::bf16}, profile));
  const AttentionCall whole = part(4096, 0);
  EXPECT_GT(flops_of({.work = whole}).value / seconds(whole) / 1e12, 400);
  EXPECT_TRUE(is_measured({.work = whole, .type = DType::bf16}, profile));
  const GemmCall product{.tokens = 8192, .out = 4096, .in = 4096};
  EXPECT_TRUE(is_measured({.work = product, .type = DType::bf16}, profile));
  const CollectiveCall sum{.ranks = 2, .elements = 1000};
  EXPECT_FALSE(is_measured({.work = sum, .type = DType::bf16}, profile));
}

}  // namespace
}  // namespace plumbline::own_attention_test
