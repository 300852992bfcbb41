// Tables of kernel shapes: the shape itself, interpolation, shapes out of reach, hostile text.
#include "analysis/hardware/kernel_rates.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/hardware/hardware.hpp"
#include "analysis/time/accelerator_time.hpp"
#include "core/base/error.hpp"

namespace plumbline::kernel_rates_test {
namespace {

TEST(KernelRates, TheShapeItselfOrTheNearest) {
  const auto tables = parse_kernel_rates(
      "# where from\naccelerator,kernel,m,n,k,share\n"
      "x,forward,1024,1024,1024,0.5\nx,forward,2048,1024,1024,0.7\nx,attention_forward,64,4096,128,1.2\n",
      "rates.csv");
  const KernelRates& rates = tables.at("x");
  struct Case {
    RatedKernel kernel;
    std::array<double, 3> sizes;
    double share;  // 0: none
  };
  const Case cases[] = {
      {RatedKernel::forward, {1024, 1024, 1024}, 0.5},
      {RatedKernel::forward, {2048, 1024, 1024}, 0.7},
      {RatedKernel::forward, {1024 * 1.41421356, 1024, 1024}, 0.6},           // halfway
      {RatedKernel::forward, {512, 1024, 1024}, (0.5 / 1 + 0.7 / 4) / 1.25},  // one doubling, two doublings
      {RatedKernel::forward, {511, 1024, 1024}, 0},
      {RatedKernel::input_gradient, {1024, 1024, 1024}, 0},
      {RatedKernel::attention_forward, {128, 4096, 128}, 1.2},
      {RatedKernel::attention_forward, {64, 4096, 64}, 0},  // heads of another size
  };
  for (const Case& c : cases) {
    const auto share = rates.share(c.kernel, c.sizes);
    ASSERT_EQ(share.has_value(), c.share > 0) << c.sizes[0];
    EXPECT_NEAR(share.value_or(0), c.share, 1e-6) << c.sizes[0];
  }
}

TEST(KernelRates, DamagedTablesAreRefusedWithTheirLine) {
  const std::string head = "accelerator,kernel,m,n,k,share\n";
  for (const char* line :
       {"x,forward,1,1,1", "x,forward,1,1,1,1,1", "x,sideways,1,1,1,1", "x,forward,0,1,1,1",
        "x,forward,1,1,1,nan", "x,forward,1,1,1,-1", "x,forward,1,1,1,3", "x,forward,a,1,1,1"}) {
    try {
      (void)parse_kernel_rates(head + line + "\n", "rates.csv");
      FAIL() << line;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("rates.csv:2: ")) << line;
    }
  }
}

TEST(KernelRates, ProductsAndAttentionTakeWhatTheTableSays) {
  const Device& b200 = find_hardware_preset("b200-sxm-180gb")->accelerator()->constants.device;
  ASSERT_NE(b200.rates, nullptr);
  struct Case {
    GemmPass pass;
    std::int64_t out;
    double share;
  };
  const Case cases[] = {
      {GemmPass::input_gradient, 10240, 0.49804},  // of the source, for this very shape
      {GemmPass::forward, 10240, 0.5},             // 0.64516 after an idle GPU: a step does not sustain it
      {GemmPass::weight_gradient, 10240, 0.5 * 0.93},  // 0.59842: the same, with an fp32 result
      {GemmPass::weight_gradient, 57344, 0.45373},     // of the source
  };
  OperatorCall call{.work = GemmCall{.tokens = 4096, .in = 8192}};
  auto& product = call.get<GemmCall>();
  for (const Case& c : cases) {
    product.pass = c.pass;
    product.out = c.out;
    const double flops = 2.0 * 4096 * static_cast<double>(c.out) * 8192;
    EXPECT_NEAR(accelerator_time(call, b200).value * 2250e12 / flops, 1 / c.share, 1e-3) << c.share;
  }
  product.pass = GemmPass::input_gradient;
  product.out = 10240;
  const double flops = 2.0 * 4096 * 10240 * 8192;
  product.fp8 = true;  // nothing is tabled
  EXPECT_LT(accelerator_time(call, b200).value, flops / (2250e12 * 0.7));
  const OperatorCall attention{.work = AttentionCall{.queries = 4096, .head_dim = 128, .heads = 64}};
  EXPECT_NEAR(accelerator_time(attention, b200).value, 4.0 * 64 * 4096 * 4096 * 128 / (2250e12 * 0.85331),
              2e-9);
}

}  // namespace
}  // namespace plumbline::kernel_rates_test
