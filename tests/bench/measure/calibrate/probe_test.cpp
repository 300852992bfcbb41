// Looks at cells, a probe of the machine's speed, and its noise.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "bench/measure/calibrate/cells/cells.hpp"
#include "bench/measure/calibrate/cells/pools.hpp"
#include "bench/measure/calibrate/figures/assemble.hpp"
#include "bench/measure/calibrate/figures/looks.hpp"
#include "bench/measure/calibrate/noise.hpp"
#include "bench/measure/calibrate/probe.hpp"
#include "core/base/error.hpp"
#include "kernels/cpu/cpu_operators.hpp"

namespace plumbline::calibration::probe_test {
namespace {

TEST(Looks, AFigureIsALowQuantileOfThem) {
  EXPECT_DOUBLE_EQ(figure_of({5}).seconds, 5);
  EXPECT_DOUBLE_EQ(figure_of({5}).spread, 0);
  EXPECT_DOUBLE_EQ(figure_of({6, 5}).seconds, 5);
  EXPECT_DOUBLE_EQ(figure_of({6, 5}).spread, 0.2);
  // One too quick and two disturbed samples of five decide nothing.
  EXPECT_DOUBLE_EQ(figure_of({9, 4, 5, 5, 8}).seconds, 5);
  EXPECT_NEAR(figure_of({9, 4, 5, 5, 5.1}).spread, 0.02, 1e-9);
  EXPECT_THROW(figure_of({}), Error);
}

TEST(Looks, WhatWasSeenOnceOrFarApartIsNotSettled) {
  EXPECT_TRUE(is_unsettled({{5}, {}})) << "one look";
  EXPECT_FALSE(is_unsettled({{5, 5.1}, {}})) << "one processor: nothing is busy";
  EXPECT_TRUE(is_unsettled({{5, 5.1}, {7, 9}}));
  EXPECT_EQ(count_unsettled({{{5, 5.1}, {7, 9}}, {{5}, {7}}}), 1) << "what was seen once is not apart";
}

TEST(Looks, AClassMovesWithMostOfItsCells) {
  const std::vector<Cell> cells = memory_bound_cells(DType::fp32);
  LooksOfCells looks(cells.size());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    // In the second round everything takes half as long again, except for a tenth of far outliers.
    looks[i].alone = {1e-6, i % 10 == 0 ? 9e-6 : 1.5e-6};
  }
  EXPECT_NEAR(movement_of(cells, looks).memory, 0.5, 1e-9);
  EXPECT_EQ(movement_of(cells, looks).compute, 0);
}

TEST(Looks, RoundTripAndHostileText) {
  const LooksOfCells looks = {{{1e-6, 2e-6}, {3e-6}}, {{1e-3}, {}}};
  const LooksOfCells again = parse_looks(to_json(looks), "looks", 2);
  EXPECT_EQ(again[0].alone, looks[0].alone);
  EXPECT_EQ(again[0].busy, looks[0].busy);
  EXPECT_TRUE(again[1].busy.empty());
  EXPECT_THROW(parse_looks(to_json(looks), "looks", 3), InputError);
  EXPECT_THROW(parse_looks("{\"looks\":[{\"alone\":[-1],\"busy\":[]}]}", "looks", 1), InputError);
  EXPECT_THROW(parse_looks("[]", "looks", 1), InputError);
}

// The cells of a probe are calibration's own, so that a ratio of 1 means the calibrated speed.
TEST(Probe, ItsCellsAreCalibrations) {
  const std::vector<Cell> all = all_cells();
  for (const DType type : {DType::fp32, DType::bf16}) {
    const std::vector<Cell> cells = probe_cells(type);
    EXPECT_EQ(cells.size(), 14U) << name_of(type);
    Pools pools(kProbePools);
    const auto operators = make_cpu_operators();
    std::vector<double> seconds(all.size(), 1e-6);
    for (const Cell& cell : cells) {
      const auto same = std::find_if(all.begin(), all.end(), [&](const Cell& each) {
        return each.table == cell.table && each.key == cell.key && each.at == cell.at &&
               each.working_set == cell.working_set;
      });
      ASSERT_NE(same, all.end()) << cell.key;
      pools.set_storage(cell.storage);
      EXPECT_NO_THROW(cell.prepare(*operators, pools)) << cell.key;
      seconds[static_cast<std::size_t>(same - all.begin())] = 3e-6;
    }
    HardwareProfile profile;
    profile.alone = assemble(all, seconds);
    profile.busy = assemble(all, std::vector<double>(all.size(), 5e-6));
    for (const Cell& cell : cells) {
      EXPECT_NEAR(calibrated_seconds(profile, cell, 0), 3e-6, 1e-12) << cell.key << " " << cell.at[0];
      EXPECT_NEAR(calibrated_seconds(profile, cell, 1), 5e-6, 1e-12) << cell.key;
      EXPECT_NEAR(calibrated_seconds(profile, cell, 0.5), 4e-6, 1e-12) << cell.key;
    }
    EXPECT_FALSE(Probe::possible(profile, type)) << "devices of their own";
    profile.kind = Calibrated{2};
    EXPECT_TRUE(Probe::possible(profile, type));
    EXPECT_FALSE(Probe::possible(HardwareProfile(), type)) << "nothing is measured";
    EXPECT_FALSE(Probe::possible(profile, DType::fp16));
  }
}

// Products take twice as long, other operators three times; waiting for memory takes five times as long.
TEST(Probe, TellsTheSpeedOfMemoryFromThatOfTheProcessor) {
  const std::vector<Cell> all = all_cells();
  const auto calibrated = [](const Cell& cell) { return cell.working_set == 0 ? 1e-6 : 4e-6; };
  std::vector<double> seconds;
  for (const Cell& cell : all) seconds.push_back(calibrated(cell));
  HardwareProfile profile;
  profile.alone = assemble(all, seconds);
  for (const DType type : {DType::fp32, DType::bf16}) {
    const std::vector<Cell> cells = probe_cells(type);
    std::vector<double> now;
    for (const Cell& cell : cells) {
      const bool computes = cell.table == Table::gemm || cell.table == Table::attention;
      const double longer = computes ? 2 : 3;
      const bool from_memory = cell.working_set == 2 || cell.key.starts_with("adam");
      const double cached =
          from_memory ? calibrated_in_caches(profile, cell, 0) : calibrated_seconds(profile, cell, 0);
      now.push_back(cached * longer + (calibrated_seconds(profile, cell, 0) - cached) * 5);
    }
    const OperatorRatios ratios = operator_ratios(profile, cells, now, 0);
    EXPECT_NEAR(ratios.longer.compute, 2, 1e-9) << name_of(type);
    EXPECT_NEAR(ratios.longer.memory, 3, 1e-9) << name_of(type);
    EXPECT_NEAR(ratios.longer.bandwidth, 5, 1e-9) << name_of(type);
    EXPECT_NEAR(ratios.error.compute, 0, 1e-9) << "all cells agree";
    for (std::size_t i = 0; i < now.size(); ++i) now[i] *= i % 2 == 0 ? 1.2 : 0.8;
    const OperatorRatios apart = operator_ratios(profile, cells, now, 0);
    EXPECT_GT(apart.error.compute, 0.05) << name_of(type);
    EXPECT_GT(apart.error.memory, 0.05) << name_of(type);
  }
}

TEST(Probe, AMessageCountsByWhatIsBeyondCalibrationsOwnScatter) {
  EXPECT_DOUBLE_EQ(message_ratio({3, 2}, 2, 0), 1) << "the lower look, as calibration keeps it";
  EXPECT_DOUBLE_EQ(message_ratio({3, 4}, 2, 0), 1.5);
  EXPECT_DOUBLE_EQ(message_ratio({3, 4}, 2, 0.25), 1.2);
  EXPECT_DOUBLE_EQ(message_ratio({3, 4}, 2, 0.6), 1) << "within the scatter";
  EXPECT_DOUBLE_EQ(message_ratio({1, 4}, 2, 0.6), 0.8) << "quicker by more than that";
  EXPECT_DOUBLE_EQ(message_ratio({1, 1.5}, 2, 1.5), 1);
}

std::vector<NoiseSample> noisy_minute() {
  std::vector<NoiseSample> samples;
  for (int second = 0; second < 60; ++second) {
    const double slow = second % 10 == 0 ? 1.5 : 1 + 0.001 * (second % 3);
    samples.push_back({static_cast<double>(second), 1e-3 * slow, 2e-3 * slow, 1e-2,
                       1e-2 + 1e-5 * (second % 7), 2e-6, slow - 1, 0, 3, std::nan("")});
  }
  return samples;
}

TEST(Noise, SaysWhatMovesAndWhatMovesTogether) {
  const std::string text = noise_summary(noisy_minute());
  for (const char* line :
       {"gemm_alone_s           median   1001.00 us", "6 of 60 seconds above 1.2 times the median",
        "together: gemm_alone_s and gemm_busy_s, correlation +1.00",
        "together: gemm_busy_s and others, correlation +1.00",
        "frequency_hz           not known on this machine"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  EXPECT_EQ(text.find("together: memory"), std::string::npos) << text;
}

TEST(Noise, CsvRoundTrip) {
  const std::vector<NoiseSample> samples = noisy_minute();
  const std::string csv = to_csv(samples);
  EXPECT_EQ(csv.substr(0, csv.find('\n')),
            "second,gemm_alone_s,gemm_busy_s,memory_alone_s,memory_busy_s,message_s,others,stolen,"
            "involuntary_switches,"
            "frequency_hz");
  EXPECT_EQ(to_csv(parse_noise_csv(csv)), csv);
  EXPECT_TRUE(std::isnan(parse_noise_csv(csv)[0].frequency));
  EXPECT_THROW(parse_noise_csv("second\n1,fast"), InputError);
}

}  // namespace
}  // namespace plumbline::calibration::probe_test
