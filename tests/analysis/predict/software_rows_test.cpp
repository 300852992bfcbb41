// Refusals by the arguments that software has, for every software; their advice, followed, is taken.
#include "analysis/predict/software_rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/predict/prediction_rows.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/load_config.hpp"

namespace plumbline::software_rows_test {
namespace {

using testing::HasSubstr;

class OfEverySoftware : public testing::TestWithParam<std::string> {
 protected:
  RunConfig config(Overrides keys) const {
    keys.insert(keys.begin(), {"model", "llama-3.1-8b"});
    keys.push_back({"software", GetParam()});
    keys.push_back({"hardware", "h100-sxm-80gb"});
    keys.push_back({"precision", "bf16"});
    return load_run_config("", keys);
  }
  std::string refusal(const Overrides& keys) const {
    const RunConfig given = config(keys);
    EXPECT_EQ(why_invalid(given).value_or(""), "");
    return why_unpredictable(given, *find_hardware_preset("h100-sxm-80gb")).value_or("");
  }
  bool is(const std::set<std::string>& names) const { return names.contains(GetParam()); }
  bool runs(const char* schedule) const { return built_in_profiles().generation(GetParam()).runs(schedule); }
  bool is_megatron() const {
    const bool deepspeed = GetParam().ends_with("deepspeed");
    return (GetParam().starts_with("megatron") || GetParam().starts_with("nemo-20")) && !deepspeed;
  }
};

/// Megatron stops where stages have unequal layers and no layout says so; a schedule that it lacks is
/// predicted as if, in any split.
TEST_P(OfEverySoftware, SplitsLayersAsItDoes) {
  struct Case {
    const char* ranks;
    const char* schedule;
    const char* chunks;
    const char* key;  // of the refusal; null: even
  };
  constexpr Case kCases[] = {
      {"4", "1f1b", "1", nullptr},
      {"4", "interleaved", "2", nullptr},
      {"5", "1f1b", "1", "pipeline_model_parallel_size: found 5"},
      {"3", "interleaved", "2", "pipeline_model_parallel_size: found 3"},
      {"4", "interleaved", "3", "virtual_pipeline_chunks: found 3 with the 8 layers of"},
      {"8", "interleaved", "3", "virtual_pipeline_chunks: found 3 with the 4 layers of"}};
  for (const Case& each : kCases) {
    SCOPED_TRACE(std::string(each.ranks) + " " + each.chunks);
    const Overrides keys = {{"world_size", each.ranks},
                            {"pipeline_model_parallel_size", each.ranks},
                            {"pipeline_schedule", each.schedule},
                            {"virtual_pipeline_chunks", each.chunks}};
    const std::string reason = refusal(keys);
    if (each.key == nullptr || !is_megatron() || !runs(each.schedule)) {
      EXPECT_EQ(reason, "");
      continue;
    }
    EXPECT_THAT(reason, HasSubstr(each.key));
    const bool layouts = reason.find("layer_distribution balanced") != std::string::npos;
    const bool dated = is({"megatron-2021", "megatron-2022", "megatron-core-2023"}) ||
                       GetParam().starts_with("megatron-zero") || GetParam().starts_with("megatron-voc");
    EXPECT_EQ(layouts, !dated);
    Overrides balanced = keys;
    balanced.push_back({"layer_distribution", "balanced"});
    EXPECT_EQ(refusal(balanced), "");
    EXPECT_EQ(why_unsearched(config(balanced)).has_value(), dated);
  }
}

/// Megatron's distributed optimizer is ZeRO 1; what shards more is Megatron-FSDP.
TEST_P(OfEverySoftware, HasItsZeroStages) {
  const Overrides keys = {{"world_size", "8"}, {"zero_stage", "2"}};
  const bool without = is_megatron() && !is({"megatron-bridge-fsdp"});
  const std::string reason = refusal(keys);
  EXPECT_EQ(reason.empty(), !without) << reason;
  if (!without) return;
  EXPECT_THAT(reason, HasSubstr("zero_stage: found 2"));
  const bool none = reason.find("expected 0, or") != std::string::npos;
  EXPECT_EQ(none, is({"megatron-2021"}));
  EXPECT_EQ(refusal({{"world_size", "8"}, {"zero_stage", none ? "0" : "1"}}), "");
}

/// HSDP: software that always shards needs no zero_stage for it.
TEST_P(OfEverySoftware, ShardsWithinInstances) {
  const bool sharded = built_in_profiles().generation(GetParam()).communication.sharded;
  const Overrides keys = {{"world_size", "8"}, {"num_distributed_optimizer_instances", "2"}};
  if (GetParam() == "plumbline") return;
  const std::string reason = refusal(keys);
  EXPECT_EQ(reason.empty(), sharded) << reason;
  if (sharded) return;
  EXPECT_THAT(reason, HasSubstr("num_distributed_optimizer_instances: found 2 with zero_stage 0"));
  Overrides followed = keys;
  if (reason.find("or zero_stage 1") != std::string::npos) {
    followed.push_back({"zero_stage", "1"});
  } else {
    followed.back().value = "1";
  }
  EXPECT_EQ(refusal(followed), "");
}

std::vector<std::string> every_software() {
  std::vector<std::string> names;
  for (const auto& [name, software] : built_in_profiles().software)
    if (!software.communication.only_shards) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, OfEverySoftware, testing::ValuesIn(every_software()), [](const auto& of) {
  std::string name = of.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace plumbline::software_rows_test
