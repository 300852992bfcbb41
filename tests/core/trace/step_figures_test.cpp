// The table of a step's figures: every number of the structs is in it once.
#include "core/trace/step_figures.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace plumbline::step_figures_test {
namespace {

/// Sets every figure to another number and reads it back.
template <class Owner, std::size_t N>
void expect_all_apart(const Figure<Owner> (&figures)[N], std::size_t numbers) {
  EXPECT_EQ(N, numbers) << "a member without a figure, or two figures of one";
  Owner owner;
  std::set<std::string> names;
  double value = 1;
  for (const auto& figure : figures) {
    figure.set(owner, value++);
    EXPECT_TRUE(names.emplace(figure.key).second) << figure.key;
    EXPECT_TRUE(names.emplace(figure.title).second) << figure.title;
    EXPECT_EQ(figure.unit == FigureUnit::seconds,
              figure.key.ends_with("_s") && !figure.key.ends_with("per_s"))
        << figure.key;
  }
  value = 1;
  for (const auto& figure : figures) EXPECT_EQ(figure.of(owner), value++) << figure.key;
}

TEST(StepFigures, EveryNumberHasOne) {
  expect_all_apart(kTimeFigures,
                   (sizeof(StepTime) - sizeof(StepTime::vocabulary_collectives)) / sizeof(double));
  expect_all_apart(kThroughputFigures, sizeof(Throughput) / sizeof(double));
}

TEST(StepFigures, AreFoundByKey) {
  StepTime time;
  time.exposed_data = {3};
  time.bubble_ratio = 4;
  Throughput throughput;
  throughput.mfu = 5;
  EXPECT_EQ(time_figure("exposed_data_s").of(time), 3);
  EXPECT_EQ(time_figure("bubble_ratio").of(time), 4);
  EXPECT_EQ(throughput_figure("mfu").of(throughput), 5);
}

}  // namespace
}  // namespace plumbline::step_figures_test
