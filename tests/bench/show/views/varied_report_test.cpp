// The table of varied configurations: width, parts that change, and rows that are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "bench/plan/vary/varied_runs.hpp"
#include "bench/show/text/wrap.hpp"
#include "bench/show/views/vary/varied_report.hpp"
#include "core/config_text/load_config.hpp"

namespace plumbline::varied_report_test {
namespace {

using testing::HasSubstr;
using testing::Not;

VariedRuns varied(const std::vector<std::string>& options) {
  std::vector<VariedKey> keys;
  for (const std::string& each : options) keys.push_back(varied_key(each));
  const LoadVaried load = [](const Overrides& more) {
    Overrides all = {
        {"world_size", "8"},         {"hardware", "h100-sxm-80gb"}, {"software", "megatron-core"},
        {"global_batch_size", "32"}, {"precision", "bf16"},         {"seq_length", "4096"},
        {"zero_stage", "1"}};
    all.insert(all.end(), more.begin(), more.end());
    return load_run_config("llama-3.1-8b", all);
  };
  return vary_runs(load, keys, [](std::size_t, std::size_t) {});
}

std::size_t widest(const std::string& text) {
  std::istringstream lines(text);
  std::size_t most = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" refused: ") == std::string::npos) most = std::max(most, columns_of(line));
  }
  return most;
}

TEST(VariedReport, IsPartedWhereItIsTooWide) {
  const VariedRuns all = varied({"tp=2,4,3", "pp=1,2", "recompute_granularity=none,full"});
  ASSERT_EQ(all.runs.size(), 13U);
  const std::string whole = varied_text(all, 0);
  EXPECT_GT(widest(whole), 100U);
  EXPECT_EQ(whole.find("\n\n"), std::string::npos);
  const std::string parted = varied_text(all, 100);
  EXPECT_LE(widest(parted), 100U);
  EXPECT_THAT(parted, HasSubstr("\n\n"));
  EXPECT_THAT(parted, HasSubstr("#12 refused: world_size: found 8, expected a multiple"));
}

TEST(VariedReport, PartsThatDoNotChangeHaveNoColumn) {
  const std::string recomputed = varied_text(varied({"recompute_granularity=full"}), 0);
  EXPECT_THAT(recomputed, HasSubstr("compute"));
  EXPECT_THAT(recomputed, Not(HasSubstr("bubble")));
  const std::string tensor = varied_text(varied({"tp=2"}), 0);
  EXPECT_THAT(tensor, HasSubstr("TP/CP/EP"));
  EXPECT_THAT(tensor, HasSubstr("optimizer"));
}

TEST(VariedKeys, PartValuesOutsideBrackets) {
  EXPECT_EQ(varied_key("tp=2,4").values, (std::vector<std::string>{"2", "4"}));
  EXPECT_EQ(varied_key("tp=2").key, "tensor_model_parallel_size");
  EXPECT_EQ(varied_key("recompute_modules=[mlp,norm],[mlp]").values,
            (std::vector<std::string>{"[mlp,norm]", "[mlp]"}));
  EXPECT_EQ(varied_key("model={a: 1, b: 2};x,y").values, (std::vector<std::string>{"{a: 1, b: 2}", "x,y"}));
}

}  // namespace
}  // namespace plumbline::varied_report_test
