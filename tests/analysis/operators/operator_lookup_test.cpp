#include "analysis/operators/operator_lookup.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "analysis/hardware/profiles/profiles.hpp"
#include "core/base/error.hpp"

namespace plumbline::silicon::operator_lookup_test {
namespace {

OperatorLookup lookup_on(const std::string& accelerator) {
  return {accelerator, built_in_profiles().machine(accelerator)};
}

TEST(OperatorLookup, GivesMeasuredTimes) {
  auto h200 = lookup_on("h200-sxm-141gb");
  const OperatorTime product = h200.product({"bf16", 32, 128, 128});
  EXPECT_DOUBLE_EQ(product.seconds, 2.555e-6);  // gemm_h200-sxm-141gb, sustained
  EXPECT_EQ(product.basis, Basis::measured);
  EXPECT_TRUE(product.sustained);
  EXPECT_DOUBLE_EQ(h200.product({"bf16", 32, 128, 128}, Clock::burst).seconds, 2.758e-6);
  auto h100 = lookup_on("h100-sxm-80gb");
  EXPECT_DOUBLE_EQ(h100.attention({"bf16", 1, 512, 4, 1, 64, 0}).seconds,
                   17.04e-6);  // the least of three frameworks
  auto a100 = lookup_on("a100-sxm-80gb");
  EXPECT_DOUBLE_EQ(a100.collective({"all_gather", 2, 1024}).seconds, 9.08e-6);
}

struct Border {
  const char* name;
  std::function<OperatorTime(OperatorLookup&, double)> time;  // of a size, in parts of the border's
};

TEST(OperatorLookup, JoinsTheTableWithoutAStep) {
  const Border borders[] = {
      {"rows of a product",
       [](OperatorLookup& l, double x) {
         return l.product({"fp8", 32768 * x, 65536, 4096});
       }},
      {"width of a product",
       [](OperatorLookup& l, double x) {
         return l.product({"bf16", 4096, 65536 * x, 4096});
       }},
      {"depth of a product",
       [](OperatorLookup& l, double x) {
         return l.product({"bf16", 4096, 4096, 65536 * x});
       }},
      {"sequence",
       [](OperatorLookup& l, double x) {
         return l.attention({"bf16", 1, 16384 * x, 32, 8, 128, 0});
       }},
      {"tokens",
       [](OperatorLookup& l, double x) {
         return l.experts({"fp8_block", 16384 * x, 7168, 2048, 8, 256, 1, 8, 0});
       }},
      {"cast",
       [](OperatorLookup& l, double x) {
         return l.cast({"cast", 4096 * x, 65536 * x});
       }},
  };
  for (const char* accelerator : {"h100-sxm-80gb", "gb200-nvl72"}) {
    auto lookup = lookup_on(accelerator);
    for (const Border& border : borders) {
      const double inside = border.time(lookup, 1 - 1e-4).seconds,
                   outside = border.time(lookup, 1 + 1e-4).seconds;
      EXPECT_NEAR(outside / inside, 1, 0.02) << accelerator << ": " << border.name;
      EXPECT_EQ(border.time(lookup, 2).basis, Basis::estimated) << border.name;
      EXPECT_GT(border.time(lookup, 2).seconds, 1.3 * inside) << accelerator << ": " << border.name;
    }
  }
}

TEST(OperatorLookup, ManyRowsOfANarrowResultAreTheProductTheOtherWayRound) {
  auto h200 = lookup_on("h200-sxm-141gb");
  EXPECT_DOUBLE_EQ(h200.product({"bf16", 65536, 4096, 1024}).seconds,
                   h200.product({"bf16", 4096, 65536, 1024}).seconds);
}

TEST(OperatorLookup, EstimatesWhereThereIsNoTable) {
  auto mi300 = lookup_on("mi300x");
  const OperatorTime product = mi300.product({"bf16", 8192, 8192, 8192});
  EXPECT_EQ(product.basis, Basis::estimated);
  EXPECT_FALSE(product.sustained);
  const double rate = 2 * 8192.0 * 8192 * 8192 / product.seconds;
  EXPECT_GT(rate, 0.3 * 1307e12);
  EXPECT_LT(rate, 1307e12);
}

TEST(OperatorLookup, RefusesWhatTheAcceleratorLacks) {
  auto h100 = lookup_on("h100-sxm-80gb");
  EXPECT_THROW(h100.product({"nvfp4", 128, 128, 128}), InputError);
  EXPECT_THROW(h100.product({"fp6", 128, 128, 128}), InputError);
  EXPECT_THROW(h100.product({"bf16", 128, 128, 128}, Clock::sustained), InputError);  // measured on H200 only
  EXPECT_THROW(h100.collective({"broadcast", 2, 128}), InputError);
}

}  // namespace
}  // namespace plumbline::silicon::operator_lookup_test
