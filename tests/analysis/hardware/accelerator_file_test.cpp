// A user's own accelerator: sources of its constants, and refusals with their line.
#include "analysis/hardware/profiles/accelerator_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/base/error.hpp"

namespace plumbline::accelerator_file_test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kGood = R"({
 "name": "mine",
 "network": "nvlink5-72-ndr",
 "constants": {
  "memory_bytes": {"value": 96e9, "source": "its datasheet"},
  "bandwidth": {"value": 4e12, "source": "its datasheet"},
  "peak_16bit": {"value": 5e14, "source": "its datasheet"},
  "peak_8bit": {"value": 1e15, "source": "its datasheet"},
  "gemm_share_8bit": {"value": 0.5, "source": "measured"}
 }
})";

TEST(AcceleratorFile, TakesWhatIsGivenAndNamesTheRest) {
  EXPECT_TRUE(describes_accelerator(kGood));
  EXPECT_FALSE(describes_accelerator(R"({"schema": 1})"));
  const HardwareProfile mine = parse_accelerator(kGood, "mine.json");
  EXPECT_EQ(mine.name, "mine");
  EXPECT_EQ(mine.accelerator()->name, "mine");
  EXPECT_EQ(mine.peak(DType::bf16).value, 5e14);
  EXPECT_EQ(mine.accelerator()->constants.device.gemm_share_8bit, 0.5);
  EXPECT_EQ(mine.accelerator()->constants.network.gpus_per_node, 72);
  EXPECT_TRUE(mine.multiplies_fp8());
  const HardwareProfile& model = *find_hardware_preset("h100-sxm-80gb");
  EXPECT_EQ(mine.accelerator()->constants.device.gemm_share,
            model.accelerator()->constants.device.gemm_share);
  EXPECT_EQ(mine.accelerator()->constants.device.peak_mx8, 0);  // of narrower products nothing is guessed
  ASSERT_EQ(mine.defaults.size(), 1u);
  EXPECT_THAT(mine.defaults[0], HasSubstr("as h100-sxm-80gb: reserved_bytes 1.2e+09"));
  EXPECT_THAT(mine.defaults[0], HasSubstr("gemm_share 0.7"));
  EXPECT_EQ(mine.defaults[0].find("gemm_share_8bit"), std::string::npos);
  EXPECT_EQ(mine.defaults[0].find("nic_bandwidth"), std::string::npos);  // the network's
}

TEST(AcceleratorFile, GoesOnFromAnother) {
  const HardwareProfile mine = parse_accelerator(
      R"({"name": "slow", "like": "b200-sxm-180gb", "constants": {"power_watts": {"value": 700,)"
      R"( "source": "a limit"}}})",
      "mine.json");
  EXPECT_EQ(mine.accelerator()->constants.device.power_watts, 700);
  EXPECT_EQ(mine.accelerator()->constants.device.peak_mx8, 4500e12);
  EXPECT_EQ(mine.accelerator()->constants.device.rates,
            nullptr);  // those of the other's shapes are not this one's
  EXPECT_THAT(mine.defaults[0], HasSubstr("as b200-sxm-180gb: "));
}

TEST(AcceleratorFile, IsLoadedByItsPath) {
  const std::string path = testing::TempDir() + "accelerator_file_test.json";
  std::ofstream(path) << kGood;
  EXPECT_EQ(load_hardware(path).accelerator()->name, "mine");
}

TEST(AcceleratorFile, WhatCannotBeIsRefusedWithItsLine) {
  struct Case {
    const char* name;
    const char* from;  // replaced in the good text
    const char* to;
    const char* message;
  };
  constexpr Case kCases[] = {
      {"TFLOP/s", "5e14", "500",
       "mine.json:7: constants.peak_16bit: found 500, expected 1e+11 to 1e+17: FLOP/s"},
      {"TB/s", "4e12", "4", "mine.json:6: constants.bandwidth: found 4, expected 1e+09"},
      {"GB", "96e9", "96", "mine.json:5: constants.memory_bytes: found 96, expected 1e+09"},
      {"no processor", "\"gemm_share_8bit\": {\"value\": 0.5", "\"collective_processors\": {\"value\": 0.5",
       "mine.json:9: constants.collective_processors: found 0.5, expected 1 to 10000"},
      {"percent", "0.5", "50", "mine.json:9: constants.gemm_share_8bit: found 50, expected 0.01 to 1"},
      {"factor", "\"gemm_share_8bit\": {\"value\": 0.5", "\"host_slowdown\": {\"value\": 50",
       "mine.json:9: constants.host_slowdown: found 50, expected 0.1 to 10: a factor"},
      {"negative", "0.5", "-0.5", "mine.json:9: constants.gemm_share_8bit: found -0.5"},
      {"H100's peak with sparsity", "5e14", "1979e12",
       "mine.json:7: constants.peak_16bit: found 1.979e+15, twice the dense peak of gh200-"},
      {"B200's 8-bit peak with sparsity", "1e15", "9e15",
       "mine.json:8: constants.peak_8bit: found 9e+15, twice the dense peak of b200-sxm-180gb"},
      {"8 bit with, 16 without", "1e15", "2.05e15",
       "mine.json:8: constants.peak_8bit: found 2.05e+15, which makes peak_8bit 4.1 times peak_16bit, "
       "expected 2 to"},
      {"8 bit slower than 16", "1e15", "4e14",
       "mine.json:8: constants.peak_8bit: found 4e+14, which makes peak_8bit 0.8 times peak_16bit, expected "
       "1 to"},
      {"not a number", "5e14", "\"5e14\"", "constants.peak_16bit.value"},
      {"unknown", "gemm_share_8bit", "gemm_shore",
       "mine.json:9: constants.gemm_shore: not a constant, expected one of gpus_per_node, memory_bytes"},
      {"without a source", "\"measured\"", "\"\"", "constants.gemm_share_8bit.source"},
      {"more keys", "\"source\": \"measured\"", "\"source\": \"measured\", \"unit\": 1",
       "unknown key constants.gemm_share_8bit.unit"},
      {"unknown at the top", "\"name\"", "\"colour\": 1, \"name\"", "unknown key colour"},
      {"no name", "\"mine\"", "\"\"", "name"},
      {"unknown network", "nvlink5-72-ndr", "nvlink9", "one of infinity-fabric3-ndr"},
      {"unknown like", "\"network\": \"nvlink5-72-ndr\"", "\"like\": \"h101\"", "one of a10-24gb"},
      {"no memory", "\"memory_bytes\"", "\"reserved_bytes\"",
       "constants.memory_bytes: missing, expected bytes"},
      {"not JSON", "{", "[[", "not valid JSON"},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    std::string text = kGood;
    const std::size_t at = text.find(c.from);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, std::string(c.from).size(), c.to);
    try {
      parse_accelerator(text, "mine.json");
      FAIL() << "accepted";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(c.message));
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
  std::string dense = kGood;
  dense.replace(dense.find("1e15"), 4, "3e15, \"dense\": true");
  dense.replace(dense.find("5e14"), 4, "1979e12, \"dense\": true");
  EXPECT_EQ(parse_accelerator(dense, "mine.json").accelerator()->constants.device.peak_16bit, 1979e12);
}

/// A peak of the file and one that is taken from `like` must be of one device. Followed advice is taken.
TEST(AcceleratorFile, InheritedPeaksFitTheGivenOnes) {
  struct Case {
    const char* like;
    const char* given;
    const char* peak;
    const char* missing;  // which the message asks for
    const char* fitting;
  };
  constexpr Case kCases[] = {
      {"h100-sxm-80gb", "peak_16bit", "3e15", "peak_8bit", "6e15"},
      {"h100-sxm-80gb", "peak_16bit", "1.2e14", "peak_8bit", "2.4e14"},
      {"h100-sxm-80gb", "peak_8bit", "7e14", "peak_16bit", "3.5e14"},
      {"h100-sxm-80gb", "peak_8bit", "4.1e15", "peak_16bit", "2.1e15"},
      {"mi355x", "peak_8bit", "2.6e15", "peak_4bit", "5.2e15"},
      {"mi355x", "peak_4bit", "2e16", "peak_8bit", "7e15"},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(std::string(c.given) + " " + c.peak);
    const auto constant = [](const std::string& name, const std::string& value) {
      return "\"" + name + R"(": {"value": )" + value + R"(, "dense": true, "source": "its datasheet"})";
    };
    const auto read = [&](const std::string& constants) {
      return parse_accelerator(
          std::string(R"({"name": "mine", "like": ")") + c.like + R"(", "constants": {)" + constants + "}}",
          "mine.json");
    };
    const std::string given = constant(c.given, c.peak);
    try {
      read(given);
      ADD_FAILURE() << "accepted";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(c.missing));
      EXPECT_THAT(error.what(), HasSubstr(std::string("that of ") + c.like));
      EXPECT_THAT(error.what(), HasSubstr("as well"));
    }
    EXPECT_NO_THROW(read(given + ", " + constant(c.missing, c.fitting)));
  }
}

TEST(AcceleratorFile, FactorsMayBeAboveOne) {
  for (const std::string name :
       {"host_slowdown", "python_slowdown", "mx8_slowdown", "cudnn_forward_speedup"}) {
    std::string text = kGood;
    const std::string from = "\"gemm_share_8bit\": {\"value\": 0.5";
    text.replace(text.find(from), from.size(), "\"" + name + "\": {\"value\": 2.5");
    EXPECT_NO_THROW(parse_accelerator(text, "mine.json")) << name;
  }
}

TEST(AcceleratorFile, EveryTruncationIsAnError) {
  const std::string good = kGood;
  for (std::size_t length = 0; length + 1 < good.size(); length += 5) {
    EXPECT_THROW(parse_accelerator(good.substr(0, length), "mine.json"), InputError) << length;
  }
}

}  // namespace
}  // namespace plumbline::accelerator_file_test
