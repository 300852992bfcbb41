// Every key of the key table with every software: it changes the prediction, is refused, or is named as
// without effect.
#include "bench/plan/keys_without_effect.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/predict/predict.hpp"
#include "bench/evaluate/record_parts.hpp"
#include "bench/plan/plan.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/config_keys.hpp"
#include "core/config_text/load_config.hpp"
#include "tests/bench/key_values.hpp"

namespace plumbline::keys_without_effect_test {
namespace {

using testing::HasSubstr;
using Values = std::map<std::string, std::string>;

/// A key's visible effect depends on sizes and on other keys that hide it: it must show somewhere.
const std::set<std::string, std::less<>> kShowsSomewhere = {"cuda_graph_impl",
                                                            "ddp_bucket_size",
                                                            "overlap_grad_reduce",
                                                            "overlap_param_gather",
                                                            "align_param_gather",
                                                            "overlap_p2p_comm",
                                                            "tp_comm_overlap",
                                                            "layer_distribution",
                                                            "overlap_moe_expert_parallel_comm",
                                                            "moe_token_dispatcher_type",
                                                            "offload_modules",
                                                            "make_vocab_size_divisible_by",
                                                            "expert_tensor_parallel_size"};

struct Base {
  const char* name;
  Values values;
};
const Base kBases[] = {
    {"dense",
     {{"model", "llama-3.1-8b"},
      {"tensor_model_parallel_size", "2"},
      {"pipeline_model_parallel_size", "2"},
      {"world_size", "16"},
      {"global_batch_size", "16"}}},
    {"sharded",
     {{"model", "qwen2.5-0.5b"},
      {"world_size", "16"},
      {"global_batch_size", "16"},
      {"zero_stage", "1"},
      {"sequence_parallel", "true"},
      {"tensor_model_parallel_size", "2"}}},
    {"alone", {{"model", "qwen2.5-0.5b"}, {"global_batch_size", "4"}}},
    {"mixture",
     {{"model", "qwen3-30b-a3b"},
      {"tensor_model_parallel_size", "2"},
      {"pipeline_model_parallel_size", "2"},
      {"world_size", "16"},
      {"global_batch_size", "16"},
      {"sequence_parallel", "true"},
      {"expert_model_parallel_size", "2"}}},
};

/// The prediction, as in a record; nothing: refused.
struct Figures {
  std::optional<std::string> text;
  std::vector<std::string> named;
};

Figures figures_of(const Values& values, const std::string& software) {
  Overrides overrides = {{"hardware", "b200-sxm-180gb", "test"},
                         {"seq_length", "1024", "test"},
                         {"precision", "bf16", "test"},
                         {"software", software, "test"}};
  for (const auto& [key, value] : values) overrides.push_back({key, value, "test"});
  try {
    const RunConfig config = load_run_config("", overrides);
    if (why_invalid(config) || why_unpredictable(config)) return {};
    const HardwareProfile hardware = load_hardware(config.machine.hardware);
    if (why_unpredictable(config, hardware)) return {};
    const RepeatedSchedule step = step_for(config);
    PredictionReport report = report_of(predict(config, step, hardware), config, step);
    report.lanes = lanes_of(config, step, hardware);
    return {to_json(report).dump(), keys_without_effect(config)};
  } catch (const InputError&) {
    return {};
  }
}

bool names(const Figures& figures, const std::string& key) {
  return std::ranges::any_of(figures.named,
                             [&](const std::string& line) { return line.starts_with(key + ": "); });
}

/// They change the run, or how long it is measured.
bool only_run(const std::string& key) {
  const std::vector<std::string> lines = when_without_effect(key);
  return key == "backend" || (!lines.empty() && lines.back().starts_with("Of runs"));
}

TEST(KeysWithoutEffect, TheTableHasEveryKey) {
  for (const ConfigKey& key : config_keys()) EXPECT_EQ(other_values().count(key.name), 1u) << key.name;
}

class OfSoftware : public testing::TestWithParam<std::string> {};

TEST_P(OfSoftware, EveryKeyChangesSomethingOrIsRefusedOrNamed) {
  std::set<std::string> silent;
  std::set<std::string> shown;
  std::string faults;
  for (const Base& base : kBases) {
    Values given = base.values;
    Figures before = figures_of(given, GetParam());
    if (!before.text) given["precision"] = "fp8";
    if (!before.text) before = figures_of(given, GetParam());
    if (!before.text) continue;  // a mixture with software that has none
    for (const auto& [key, values] : other_values()) {
      for (const std::string& value : values) {
        Values changed = given;
        if (changed.count(key) != 0 && changed[key] == value) continue;
        if (key == "data_parallel_size") changed.erase("world_size");
        changed[key] = value;
        const Figures after = figures_of(changed, GetParam());
        // precision: fp8 stands for fp8_format.
        const bool named = names(after, key) || (key == "precision" && names(after, "fp8_format"));
        const bool same = after.text == before.text;
        if (!same) shown.insert(key);
        if (same && !named && kShowsSomewhere.count(key) != 0) silent.insert(key);
        // FSDP is ZeRO 3, said or not.
        const bool implied = key == "zero_stage" && value == "3" &&
                             built_in_profiles().generation(GetParam()).communication.sharded;
        const bool may = named || implied || kShowsSomewhere.count(key) != 0 ||
                         (GetParam() == "plumbline" && only_run(key));
        if (same && !may) faults += fmt::format("\n{}: {} {}: no effect, not named", base.name, key, value);
        if (!same && named) faults += fmt::format("\n{}: {} {}: named, but has one", base.name, key, value);
      }
    }
  }
  for (const std::string& key : silent)
    if (shown.count(key) == 0) faults += fmt::format("\n{}: no effect anywhere", key);
  EXPECT_EQ(faults, "");
}

std::vector<std::string> software_names() {
  std::vector<std::string> software;
  for (const auto& [name, traits] : built_in_profiles().software) software.push_back(name);
  return software;
}

INSTANTIATE_TEST_SUITE_P(All, OfSoftware, testing::ValuesIn(software_names()), [](const auto& of) {
  std::string name = of.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST(KeysWithoutEffect, SayWhyWithTheSource) {
  const auto line_of = [](const Overrides& overrides) {
    Overrides all = {{"model", "llama-3.1-8b", ""}, {"hardware", "h100-sxm-80gb", ""}, {"dp", "8", ""}};
    all.insert(all.end(), overrides.begin(), overrides.end());
    const auto keys = keys_without_effect(load_run_config("", all));
    return keys.empty() ? std::string() : keys.front();
  };
  EXPECT_EQ(line_of({{"fp8_margin", "1", ""}}), "fp8_margin: found 1, without effect; needs fp8_format");
  EXPECT_EQ(line_of({{"fp8_margin", "1", ""}, {"fp8_format", "hybrid", ""}}), "");
  EXPECT_EQ(line_of({{"zero_stage", "1", ""}}), "");
  EXPECT_THAT(line_of({{"software", "torchtitan", ""}, {"zero_stage", "1", ""}}),
              HasSubstr("zero_stage: found 1, without effect with software torchtitan (sharded: FSDP2"));
  EXPECT_THAT(line_of({{"software", "megatron-core", ""}, {"steps", "5", ""}}),
              HasSubstr("steps: found 5, without effect with software megatron-core, which is predicted"));
}

/// Every trait that decides for a key has a source for every software that it decides for.
TEST(KeysWithoutEffect, TheManualNamesSoftwareAndSource) {
  const std::vector<std::string> lines = when_without_effect("zero_stage");
  EXPECT_THAT(lines, testing::Contains(HasSubstr("megatron-bridge-fsdp (use_megatron_fsdp")));
  EXPECT_THAT(lines, testing::Contains(HasSubstr("torchtitan-2025")));
  for (const std::string& line : lines) EXPECT_EQ(line.find("()"), std::string::npos) << line;
  EXPECT_TRUE(when_without_effect("seq_length").empty());
}

}  // namespace
}  // namespace plumbline::keys_without_effect_test
