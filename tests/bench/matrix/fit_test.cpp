// The size that a machine gets of a matrix with a section `fit:`.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "bench/evaluate/evaluation.hpp"
#include "bench/matrix/fit_choice.hpp"
#include "bench/matrix/matrix_source.hpp"
#include "bench/plan/plan.hpp"
#include "core/base/error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace plumbline::fit_test {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;
constexpr const char* kDemo = PLUMBLINE_SOURCE_DIR "/bench/matrices/demo.yaml";

/// A machine of this many FLOP/s per processor; products of the demo's sizes reach a part of it.
HardwareProfile machine_of(double flops, int processors) {
  HardwareProfile machine = rough_guess();
  machine.kind = Calibrated{processors};
  machine.peak_fp32 = machine.peak_16bit = {flops};
  machine.memory_bandwidth = {10e9 + flops / 50};
  return machine;
}

class Fit : public testing::Test {
 protected:
  MatrixSource fitted(const HardwareProfile& machine, const std::string& folder, bool keep,
                      const std::string& precision = "fp32") const {
    MatrixSource source(kDemo, {{"precision", precision}});
    CellEstimates estimates([&](const RunConfig&) { return &machine; });
    source.fit_machine(folder, keep, estimates);
    return source;
  }
  static Seconds duration(const HardwareProfile& machine, const std::vector<MatrixCell>& cells) {
    return CellEstimates([&](const RunConfig&) { return &machine; }).sum(cells);
  }
  static std::vector<std::string> ids(const MatrixSource& source) {
    std::vector<std::string> ids;
    for (const MatrixCell& cell : source.cells()) ids.push_back(cell.id);
    return ids;
  }

  const test::TemporaryFolder temporary_;
  const std::string folder_ = temporary_.folder_;
};

// Between one and three minutes: predictions may be off by half as much.
TEST_F(Fit, TheDemoIsPredictedToTakeTwoMinutesAtMostOnAnyMachine) {
  for (const char* precision : {"fp32", "bf16"}) {
    for (const int processors : {1, 2, 8}) {
      for (double flops = 0.04e12; flops < 3.1e12; flops *= 1.3) {
        const HardwareProfile machine = machine_of(flops, processors);
        const std::vector<MatrixCell> cells = fitted(machine, folder_, false, precision).cells();
        const double seconds = duration(machine, cells).value;
        EXPECT_GE(seconds, 70) << precision << " " << processors << " " << flops;
        EXPECT_LE(seconds, 120) << precision << " " << processors << " " << flops;
        ASSERT_EQ(cells.size(), 11U);
        for (std::size_t i = 0; i < cells.size(); ++i) {
          EXPECT_EQ(cells[i].invalid.empty(), i != 10) << i;
          if (!cells[i].invalid.empty()) continue;
          const Bytes budget = cells[i].config.machine.memory_budget;
          const bool fits = predict_memory(cells[i].config, step_for(cells[i].config)).fits(budget);
          EXPECT_EQ(fits, i != 9) << i;
        }
      }
    }
  }
}

TEST_F(Fit, AFolderKeepsItsSize) {
  const std::string folder = folder_ + "/results";
  const HardwareProfile slow = machine_of(0.05e12, 2);
  const HardwareProfile quick = machine_of(1e12, 2);
  const MatrixSource first = fitted(slow, folder, true);
  EXPECT_THAT(first.chosen(),
              AllOf(HasSubstr("size "), HasSubstr("hidden_size 256"), HasSubstr("the largest within 2 min")));
  const MatrixSource again = fitted(quick, folder, true);
  EXPECT_EQ(ids(again), ids(first)) << "calibrated again: the same cells";
  EXPECT_THAT(again.chosen(), HasSubstr("as chosen before (" + folder + "/fit.json)"));
  EXPECT_NE(ids(fitted(quick, folder_ + "/other", true)), ids(first));
  EXPECT_NE(ids(fitted(quick, folder_ + "/third", false)), ids(first));
  EXPECT_FALSE(fs::exists(folder_ + "/third"));

  MatrixFit fit = *load_fit(kDemo);
  EXPECT_TRUE(kept_choice(folder, fit));
  const FitChoice other = keep_choice(folder, fit, {0, "bf16", {1}});
  EXPECT_NE(other.size, 0U) << "who was first decides";
  fit.sizes.erase(fit.sizes.begin() + static_cast<std::ptrdiff_t>(other.size));
  EXPECT_FALSE(kept_choice(folder, fit)) << "the file has no such size any more";
  EXPECT_EQ(keep_choice(folder, fit, {0, "fp32", {1}}).size, 0U);
  EXPECT_EQ(kept_choice(folder, fit)->precision, "fp32");

  std::ofstream(folder + "/fit.json") << "{\"precision\": 3}";
  EXPECT_THAT([&] { kept_choice(folder, fit); },
              testing::ThrowsMessage<InputError>(HasSubstr("fit.json: precision: found 3")));
}

TEST_F(Fit, AFolderKeepsItsSizeInNoOtherFile) {
  const MatrixFit fit = *load_fit(kDemo);
  const std::string victim = folder_ + "/victim";
  for (const std::string& name : {std::string("fit.json"), fmt::format("fit.json.{}", ::getpid())}) {
    const std::string folder = folder_ + "/out";
    fs::remove_all(folder);
    fs::create_directory(folder);
    fs::create_symlink(victim, folder + "/" + name);
    EXPECT_THAT(
        [&] {
          keep_choice(folder, fit, {0, "bf16", {1}});
        },
        testing::ThrowsMessage<InputError>(HasSubstr(name + ": cannot be written: found a symbolic link")));
    EXPECT_FALSE(fs::exists(victim)) << name;
  }
}

TEST(FitChoice, IsTheLargestWithinTheTarget) {
  MatrixFit fit;
  fit.target = {100};
  for (const char* steps : {"1", "2", "4", "8"}) fit.sizes.push_back({{"steps", {steps, "", ""}}});
  const struct {
    double seconds_per_step;
    std::size_t size;
  } cases[] = {{1000, 0}, {100, 0}, {50, 1}, {49, 1}, {25, 2}, {12.5, 3}, {0.1, 3}};
  for (const auto& c : cases) {
    const FitChoice choice = choose_size(fit, "", [&](const Settings& settings) {
      return Seconds{c.seconds_per_step * std::stod(settings.at("steps").text)};
    });
    EXPECT_EQ(choice.size, c.size) << c.seconds_per_step;
    EXPECT_EQ(choice.predicted.value, c.seconds_per_step * std::stod(fit.sizes[c.size].at("steps").text));
  }
}

TEST(FitChoice, PrecisionIsWhatTheProcessorMultiplies) {
  const struct {
    std::vector<std::string> precisions;
    bool bf16;
    const char* chosen;
  } cases[] = {
      {{}, true, ""},
      {{"bf16", "fp32"}, true, "bf16"},
      {{"bf16", "fp32"}, false, "fp32"},
      {{"fp32", "bf16"}, true, "fp32"},
      {{"bf16"}, false, "bf16"},
  };
  for (const auto& c : cases) EXPECT_EQ(choose_precision(c.precisions, c.bf16), c.chosen);
}

}  // namespace
}  // namespace plumbline::fit_test
