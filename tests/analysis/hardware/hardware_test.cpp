// Tables, presets and profile files: reading between points, round trip, hostile text.
#include "analysis/hardware/hardware.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "analysis/hardware/profile_at_speed.hpp"
#include "core/base/error.hpp"

namespace plumbline::hardware_test {
namespace {

using ::testing::HasSubstr;

TEST(Curve, InterpolatesInLogarithmsAndExtrapolates) {
  const Curve curve{{10, 1000}, {1, 100}};
  struct Case {
    const char* name;
    double size, seconds;
  };
  constexpr Case kCases[] = {
      {"on a point", 10, 1},
      {"between, log-log", 100, 10},
      {"below: the overhead stays", 1, 1},
      {"above: in proportion", 5000, 500},
      {"nothing to do", 0, 0},
  };
  for (const Case& c : kCases) EXPECT_NEAR(curve.at(c.size).value, c.seconds, 1e-9) << c.name;
}

TEST(Curve, AffineIsReadBackWithinOnePercent) {
  const Curve curve = affine_curve(1e-5, 1e9);
  for (const double size : {1.0, 700.0, 12345.0, 1e6, 3e9}) {
    const double exact = 1e-5 + size / 1e9;
    EXPECT_NEAR(curve.at(size).value / exact, 1, 0.01) << size;
  }
}

TEST(Grid, KeepsTheTimeBelowAndTheRateAbove) {
  // Time = x·y·z / 100 inside and above; below the first point of an axis as at that point.
  Grid grid{{1, 4, 16}, {2, 8}, {10}, {}};
  for (const double x : grid.x) {
    for (const double y : grid.y) grid.seconds.push_back(x * y * 10 / 100);
  }
  struct Case {
    double x, y, z;
    double seconds;
  };
  for (const Case& c :
       {Case{1, 2, 10, 0.2}, Case{16, 8, 10, 12.8}, Case{3, 5, 10, 1.5}, Case{100, 5, 10, 50},
        Case{4, 8, 40, 12.8}, Case{0.5, 2, 10, 0.2}, Case{1, 1, 3, 0.2}, Case{0.5, 1, 40, 0.8}}) {
    EXPECT_NEAR(grid.at(c.x, c.y, c.z).value, c.seconds, 1e-9) << c.x << " " << c.y << " " << c.z;
  }
  EXPECT_EQ(grid.at(0, 2, 10).value, 0);
}

TEST(Presets, AreUsableAndNamed) {
  for (const std::string& name : hardware_preset_names()) {
    const HardwareProfile profile = load_hardware(name);
    EXPECT_EQ(profile.name, name);
    EXPECT_GT(profile.peak_16bit.value, profile.peak_fp32.value);
    EXPECT_GE(profile.memory, kGiB * 14);  // of a 16 GiB device, without reserved memory
    EXPECT_EQ(profile.processors(), 0);
    ASSERT_NE(profile.accelerator(), nullptr);
    EXPECT_EQ(profile.accelerator()->name, name);
    EXPECT_GT(profile.accelerator()->constants.network.nic_bandwidth, 0);
  }
  EXPECT_EQ(load_hardware("a100-sxm-80gb").peak(DType::bf16).value, 312e12);
  EXPECT_EQ(load_hardware("h200-sxm-141gb").memory.value, 148'800'000'000);
}

// Datasheet figures and their ratios.
TEST(Presets, AcceleratorsOf2025And2026) {
  struct Case {
    const char* name;
    double memory_gb, tflops_16bit, tflops_8bit, watts;
    int fast_link;
  };
  constexpr Case kCases[] = {
      {"h100-sxm-80gb", 80, 989.4, 1978.9, 700, 8}, {"h100-grand-teton-96gb", 96, 989.4, 1978.9, 500, 8},
      {"h100-pcie-80gb", 80, 756.5, 1513, 350, 2},  {"h200-sxm-141gb", 141, 989.4, 1978.9, 700, 8},
      {"h20-sxm-96gb", 96, 148, 296, 400, 8},       {"h800-sxm-80gb", 80, 989.4, 1978.9, 700, 8},
      {"b200-sxm-180gb", 180, 2250, 4500, 1000, 8}, {"b300-sxm-270gb", 270, 2250, 4500, 1100, 8},
      {"gb200-nvl72", 186, 2500, 5000, 1200, 72},   {"gb300-nvl72", 278, 2500, 5000, 1400, 72},
      {"mi300x", 192, 1307.4, 2614.9, 750, 8},      {"mi325x", 256, 1307.4, 2614.9, 1000, 8},
      {"mi355x", 288, 2516.6, 5033.2, 1400, 8},     {"a100-sxm-80gb", 80, 312, 0, 400, 8},
      {"l40s-48gb", 48, 362.05, 733, 350, 8},       {"gh200-96gb", 96, 989.4, 1978.9, 700, 1},
      {"gh200-144gb", 144, 989.4, 1978.9, 700, 1},  {"gb10-128gb", 128, 125, 250, 140, 1},
      {"rtx-pro-6000-96gb", 96, 500, 1000, 600, 8},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const Machine machine = load_hardware(c.name).accelerator()->constants;
    const Device& d = machine.device;
    EXPECT_NEAR(d.memory.bytes / (c.memory_gb * 1e9), 1.03, 0.06);
    EXPECT_DOUBLE_EQ(d.peak_16bit, c.tflops_16bit * 1e12);
    EXPECT_DOUBLE_EQ(d.peak_8bit, c.tflops_8bit * 1e12);
    EXPECT_EQ(d.power_watts, c.watts);
    EXPECT_EQ(machine.network.gpus_per_node, c.fast_link);
    EXPECT_TRUE(d.peak_mx8 == 0 || d.peak_mx8 == d.peak_8bit);
    EXPECT_TRUE(d.peak_4bit == 0 || std::abs(d.peak_4bit / d.peak_8bit - 2.5) < 0.6);
    for (const double share :
         {d.gemm_share, d.gemm_share_8bit, d.attention.forward, d.attention.backward, d.stream_share})
      EXPECT_TRUE(share >= 0 && share < 0.95) << share;
  }
}

// Smaller heads: more softmax per FLOP, as measured by accelerator, and less of it in the backward.
TEST(Presets, SmallerHeadsTakeLongerPerFlop) {
  struct Case {
    const char* hardware;
    double head, forward, backward;
  };
  for (const Case& c : {Case{"h100-sxm-80gb", 64, 1.31, 1.124}, Case{"h200-sxm-141gb", 64, 1.31, 1.124},
                        Case{"gb200-nvl72", 64, 1.77, 1.308}, Case{"gb200-nvl72", 96, 1.257, 1.103},
                        Case{"gb200-nvl72", 128, 1, 1}, Case{"gb200-nvl72", 256, 0.944, 0.944},
                        Case{"a100-sxm-80gb", 64, 1.111, 1.111}}) {
    const Device& device = find_hardware_preset(c.hardware)->accelerator()->constants.device;
    EXPECT_NEAR(head_slowdown(device, c.head, false), c.forward, 1e-3) << c.hardware << " " << c.head;
    EXPECT_NEAR(head_slowdown(device, c.head, true), c.backward, 1e-3) << c.hardware << " " << c.head;
  }
}

HardwareProfile sample() {
  HardwareProfile p = *find_hardware_preset("v100-sxm-32gb");
  p.name = "here";
  p.alone.resize(2);
  p.alone[0].working_set = kMiB;
  p.alone[1].working_set = kMiB * 2;
  p.busy.resize(1);
  p.busy[0].working_set = kMiB;
  p.alone[1].gemm["forward.fp32"] = {{1, 2}, {3}, {4, 5}, {1e-6, 2e-6, 3e-6, 4e-6}};
  p.alone[0].attention["backward.bf16"] = {{64}, {64}, {1}, {1e-5}};
  p.busy[0].memory_bound["adam.bf16"] = {{1000, 2000}, {1e-6, 2e-6}};
  p.busy[0].by_row["rope.bf16"] = {{64, 512}, {16}, {1}, {1e-6, 5e-6}, {0.5, 0}};
  p.collectives.push_back({2, 4, DType::bf16, true, {{8}, {1e-5}}});
  p.collectives.push_back({4, 4, DType::fp32, false, {{16}, {2e-5}}, CollectiveKind::reduce_scatter});
  p.messages.push_back({2, {{8, 16}, {1e-5, 2e-5}, {0.25, 0.5}}});
  p.calibration = {1'700'000'000, 59.5, "here", "a processor", {0.01, 0.02, 0.05, 0.03, 0.04}, 5000, 3, 7};
  p.alone_levels = {{1e6, 2e6, 4e6}, {0, 0.75, 1}};
  p.launch_overhead = {3e-8};
  p.step_overhead = {1e-6};
  return p;
}

TEST(Profile, RoundTrip) {
  const HardwareProfile p = sample();
  const std::string text = to_json(p);
  const HardwareProfile again = parse_hardware(text, "p.json");
  EXPECT_EQ(to_json(again), text);
  EXPECT_EQ(again.alone[1].gemm.at("forward.fp32").seconds, p.alone[1].gemm.at("forward.fp32").seconds);
  EXPECT_EQ(again.collectives[0].dtype, DType::bf16);
  EXPECT_EQ(again.collectives[0].kind, CollectiveKind::all_reduce);
  EXPECT_EQ(again.collectives[1].kind, CollectiveKind::reduce_scatter);
  EXPECT_EQ(again.accelerator()->constants.device.peak_16bit, 125e12);  // by the accelerator's name
  EXPECT_DOUBLE_EQ(again.messages[0].seconds.at(16).value, 2e-5);
  EXPECT_EQ(again.messages[0].seconds.spread, p.messages[0].seconds.spread);
  EXPECT_EQ(again.calibration.noise, p.calibration.noise);
  EXPECT_DOUBLE_EQ(again.alone_levels.at(2e6), 0.75);
  EXPECT_TRUE(again.busy_levels.empty());
  EXPECT_EQ(again.calibration.seen_once, 3);
  EXPECT_EQ(again.calibration.unsettled, 7);
  EXPECT_EQ(again.step_overhead.value, 1e-6);
  HardwareProfile shared = p;
  shared.kind = Calibrated{2};
  EXPECT_EQ(parse_hardware(to_json(shared), "p.json").processors(), 2);
  EXPECT_EQ(parse_hardware(to_json(shared), "p.json").accelerator(), nullptr);
}

// Written before a calibration said when and where it was made, and how steady the machine was.
TEST(Profile, OlderOnesStayReadable) {
  HardwareProfile p = sample();
  p.calibration = {};
  std::string text = to_json(p);
  EXPECT_EQ(text.find("\"calibration\""), std::string::npos);
  const std::string newer = ",\n \"step_overhead_s\": 1e-06";
  ASSERT_NE(text.find(newer), std::string::npos);
  text.erase(text.find(newer), newer.size());
  const HardwareProfile again = parse_hardware(text, "p.json");
  EXPECT_FALSE(again.calibration.known());
  EXPECT_EQ(again.step_overhead.value, 0);
  EXPECT_TRUE(again.alone[1].gemm.at("forward.fp32").spread.empty());
}

TEST(Profile, AtAnotherSpeedEveryTableFollowsItsClass) {
  HardwareProfile p = sample();
  // 4 of 10 us with operands in caches.
  p.alone[0].memory_bound["add.fp32"] = {{100, 200}, {2e-6, 4e-6}};
  p.alone[1].memory_bound["add.fp32"] = {{200}, {10e-6}};
  const HardwareProfile slow = at_speed(p, {2, 3, 11, 5, 7});
  EXPECT_DOUBLE_EQ(slow.alone[1].memory_bound.at("add.fp32").seconds[0], 3 * 4e-6 + 11 * 6e-6);
  EXPECT_DOUBLE_EQ(slow.alone[0].memory_bound.at("add.fp32").seconds[1], 3 * 4e-6);
  EXPECT_DOUBLE_EQ(slow.alone[1].gemm.at("forward.fp32").seconds[3], 2 * 4e-6);
  EXPECT_DOUBLE_EQ(slow.alone[0].attention.at("backward.bf16").seconds[0], 2 * 1e-5);
  EXPECT_DOUBLE_EQ(slow.busy[0].memory_bound.at("adam.bf16").seconds[1], 3 * 2e-6);
  EXPECT_DOUBLE_EQ(slow.busy[0].by_row.at("rope.bf16").seconds[1], 3 * 5e-6);
  EXPECT_DOUBLE_EQ(slow.collectives[0].seconds.seconds[0], 5 * 1e-5);
  EXPECT_DOUBLE_EQ(slow.messages[0].seconds.seconds[1], 5 * 2e-5);
  EXPECT_DOUBLE_EQ(slow.launch_overhead.value, 7 * 3e-8);
  EXPECT_DOUBLE_EQ(slow.step_overhead.value, 7 * 1e-6);
  EXPECT_EQ(to_json(at_speed(p, every_class(1))), to_json(p));
}

TEST(Profile, HostileTextIsOneClearLine) {
  const std::string good = to_json(sample());
  struct Case {
    const char* name;
    const char* from;  // replaced in the good text
    const char* to;
    const char* message;
  };
  constexpr Case kCases[] = {
      {"not JSON", "{", "[[", "not valid JSON"},
      {"another schema", "\"schema\": 1", "\"schema\": 7", "schema"},
      {"negative peak", "\"peak_fp32_flops\": 1", "\"peak_fp32_flops\": -1", "peak_fp32_flops"},
      {"infinite", "\"peak_fp32_flops\": 15700000000000.0", "\"peak_fp32_flops\": 1e999", "p.json"},
      {"text for a number", "\"processors\": 0", "\"processors\": \"two\"", "processors"},
      {"fraction of a processor", "\"processors\": 0", "\"processors\": 2.5", "whole number"},
      {"shared processors of an accelerator", "\"processors\": 0", "\"processors\": 2",
       "0 with an accelerator"},
      {"absurd processors", "\"processors\": 0", "\"processors\": 1e15", "processors"},
      {"levels that descend", "0.75,", "2.5,", "do not descend"},
      {"zero ranks", "\"ranks\": 2", "\"ranks\": 0", "ranks"},
      {"unknown type", "\"dtype\": \"bf16\"", "\"dtype\": \"fp7\"", "dtype"},
      {"unknown accelerator", "\"accelerator\": \"v", "\"accelerator\": \"w", "a100-pcie-80gb"},
      {"unknown key", "\"schema\"", "\"colour\": 1, \"schema\"", "unknown key colour"},
      {"grid with a missing cell", "3e-06,", "", "4 numbers"},
      {"negative time", "3e-06,", "-3e-06,", "seconds"},
      {"axis not ascending", "2000.0", "10.0", "ascending"},
      {"working sets not ascending", "2097152", "1048576", "ascending"},
      {"spread of another length", "0.25,", "", "one per time"},
      {"negative noise", "\"compute\": 0.01", "\"compute\": -1", "compute"},
      {"calibrated before there were machines", "1700000000", "-5", "unix_s"},
      {"unknown class", "\"compute\": 0.01", "\"computing\": 1", "unknown key"},
      {"list instead of object", "\"messages\": [", "\"messages\": [7,", "messages[0]"},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    std::string text = good;
    const std::size_t at = text.find(c.from);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, std::string(c.from).size(), c.to);
    try {
      parse_hardware(text, "p.json");
      FAIL() << "accepted";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(c.message));
      EXPECT_THAT(error.what(), HasSubstr("p.json"));
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
}

TEST(Profile, EveryTruncationIsAnError) {
  const std::string good = to_json(sample());
  for (std::size_t length = 0; length + 2 < good.size(); length += 7) {
    EXPECT_THROW(parse_hardware(good.substr(0, length), "p.json"), InputError) << length;
  }
}

TEST(Profile, UnknownNamesAndFiles) {
  EXPECT_THROW(load_hardware("a100-sxm-81gb"), InputError);
  EXPECT_THROW(load_hardware("/nonexistent/profile.json"), InputError);
  try {
    load_hardware("h100-sxm-80");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean h100-sxm-80gb"));
    EXPECT_THAT(error.what(), HasSubstr("a100-pcie-80gb"));
  }
}

}  // namespace
}  // namespace plumbline::hardware_test
