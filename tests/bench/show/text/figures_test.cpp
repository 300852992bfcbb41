// Numbers and labels as the output has them.
#include "bench/show/text/figures.hpp"

#include <gtest/gtest.h>

#include <set>

#include "bench/show/text/lane_titles.hpp"
#include "core/trace/step_figures.hpp"

namespace plumbline::figures_test {
namespace {

TEST(Figures, NumbersHaveFourDigitsCommasAndNoExponent) {
  const struct {
    double value;
    const char* text;
  } kCases[] = {{64328.6, "64,330"},
                {1147000, "1,147,000"},
                {8041.2, "8,041"},
                {999.96, "1,000"},
                {388.02, "388"},
                {70.031, "70.03"},
                {0.06112, "0.06112"},
                {1e-7, "0.0000001"},
                {-12344, "-12,340"},
                {0, "0"},
                {1, "1"},
                {9999.6, "10,000"}};
  for (const auto& c : kCases) EXPECT_EQ(readable_number(c.value), c.text) << c.value;
  EXPECT_EQ(grouped_digits(686134.2), "686,134");
  EXPECT_EQ(grouped_digits(999), "999");
  EXPECT_EQ(grouped_digits(1e9), "1,000,000,000");
}

TEST(Figures, ConstantsHaveAPrefixInPlaceOfAnExponent) {
  const struct {
    double value;
    const char* text;
  } kCases[] = {{9.894e14, "989.4 T"}, {3.7e11, "370 G"}, {1.5e-5, "15 µ"}, {0.7, "0.7"},
                {2.5e-6, "2.5 µ"},     {0, "0"},          {1e-3, "1 m"},    {250, "250"}};
  for (const auto& c : kCases) EXPECT_EQ(prefixed_number(c.value), c.text) << c.value;
}

TEST(Labels, FitTheTerminalColumnAndDiffer) {
  constexpr std::size_t kWidest = 34;
  std::set<std::string> titles;
  for (std::size_t place = 0; place < kLanes; ++place) {
    const std::string title = lane_title(lane_at(place));
    EXPECT_LE(title.size(), kWidest) << title;
    EXPECT_TRUE(titles.insert(title).second) << title;
  }
  for (const auto& figure : kTimeFigures) EXPECT_LE(figure.title.size() + 4, kWidest) << figure.title;
  EXPECT_EQ(lane_title(Group::tensor), "TP communication");
  EXPECT_EQ(lane_title({}), "CPU offload copies");
}

}  // namespace
}  // namespace plumbline::figures_test
