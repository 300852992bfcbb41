#include "analysis/silicon/measured_products.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace plumbline::silicon {
namespace {

TEST(MeasuredProducts, GivesTheTableTimesAndTheirContinuation) {
  const MeasuredProducts products("gb300-nvl72");
  const double border = products.seconds(32768, 16384, 8192);
  EXPECT_GT(2 * 32768.0 * 16384 * 8192 / border, 1.5e15) << "of a peak of 2.5 PFLOP/s";
  EXPECT_LT(2 * 32768.0 * 16384 * 8192 / border, 2.5e15);
  EXPECT_NEAR(products.seconds(4 * 65536, 65536, 8192) / products.seconds(32768, 65536, 8192), 8, 1e-9);
  EXPECT_DOUBLE_EQ(products.seconds(65536, 4096, 1024), products.seconds(4096, 65536, 1024));
  EXPECT_NEAR(products.adding_seconds(4096, 4096, 8192) / products.seconds(4096, 4096, 8192), 1 / 0.93,
              1e-12);
}

TEST(MeasuredProducts, IsReadOnceByManyThreads) {
  const MeasuredProducts products("gb300-nvl72");
  std::vector<double> found(8);
  {
    std::vector<std::jthread> threads;
    for (double& seconds : found) threads.emplace_back([&] { seconds = products.seconds(4096, 8192, 4096); });
  }
  for (const double seconds : found) EXPECT_EQ(seconds, found.front());
}

}  // namespace
}  // namespace plumbline::silicon
