// A search's proposals for a software are its launch files: exported and read back, they take as long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/predict/predict.hpp"
#include "analysis/predict/prediction_rows.hpp"
#include "bench/ask/launch_text.hpp"
#include "bench/ask/search_answer.hpp"
#include "bench/plan/plan.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/config_file.hpp"
#include "core/config_text/load_config.hpp"
#include "core/launch_files/launch_file.hpp"

namespace plumbline::search_export_test {
namespace {

/// The framework whose launch files start a software; empty: no exporter is for it.
std::string framework_of(const std::string& software) {
  if (software == "nemo-automodel") return "";  // its recipes are read, not written
  if (software.starts_with("megatron-bridge")) return "megatron-bridge";
  if (software.starts_with("megatron-core") || software.starts_with("nemo")) return "megatron-lm";
  if (software.starts_with("torchtitan")) return "torchtitan";
  return software == "deepspeed" ? "deepspeed" : "";
}

std::vector<std::string> exported_software() {
  std::vector<std::string> names;
  for (const auto& [name, software] : built_in_profiles().software)
    if (!framework_of(name).empty()) names.push_back(name);
  return names;
}

/// The configuration of an exported file, for the software and hardware of `config`.
RunConfig read_back(const std::string& text, const RunConfig& config) {
  const auto launch = read_launch_file(text, "exported");
  if (!launch) throw InputError("no launch file");
  launch->require_modelled();
  Settings read;
  for (const LaunchSetting& setting : launch->settings)
    read[setting.key] = {setting.value, setting.origin, ""};
  read["world_size"] = {std::to_string(config.parallel.world_size), "test", ""};
  read["software"] = {config.machine.software, "test", ""};
  read["hardware"] = {config.machine.hardware, "test", ""};
  std::string contradiction;
  RunConfig again = config_from(read, "exported", contradiction);
  if (!contradiction.empty()) throw InputError(contradiction);
  return again;
}

double step_s(const RunConfig& config) {
  const HardwareProfile hardware = load_hardware(config.machine.hardware);
  return predict(config, step_for(config), hardware).time.step.value;
}

class SearchExport : public testing::TestWithParam<std::string> {};

/// Small searches: every software has its own. An accelerator on which each of them fits.
TEST_P(SearchExport, EveryProposalIsALaunchFile) {
  struct Case {
    const char* model;
    const char* gpus;
    const char* seq_length;
  };
  std::vector<Case> cases = {{"llama-3.1-8b", "16", "4096"}, {"llama-3.1-8b", "12", "32768"}};
  if (built_in_profiles().generation(GetParam()).describes_mixtures())
    cases.push_back({"qwen3-30b-a3b", "8", "4096"});
  for (const Case& each : cases) {
    SearchQuestion question;
    question.keys = {{"model", each.model},          {"software", GetParam()},
                     {"world_size", each.gpus},      {"precision", "bf16"},
                     {"hardware", "b200-sxm-180gb"}, {"global_batch_size", "96"},
                     {"seq_length", each.seq_length}};
    question.top = 4;
    question.threads = 1;
    const SearchAnswer answer = answer_search(question, load_run_config("", question.keys));
    const std::vector<Candidate>& proposed = answer.result.best;
    ASSERT_FALSE(proposed.empty());
    for (const Candidate& candidate : proposed) {
      RunConfig config = answer.config;
      set_keys(candidate.keys, config);
      const std::string what = GetParam() + " " + each.model + ": " + describe_candidate(candidate);
      EXPECT_EQ(why_invalid(config).value_or(""), "") << what;
      EXPECT_EQ(why_unsearched(config).value_or(""), "") << what;
      try {
        const std::string text = launch_text(config, framework_of(GetParam()));
        const RunConfig again = read_back(text, config);
        EXPECT_EQ(why_invalid(again).value_or(""), "") << what << "\n" << text;
        EXPECT_NEAR(step_s(again) / step_s(config), 1, 1e-9) << what << "\n" << text;
      } catch (const InputError& error) {
        ADD_FAILURE() << what << ": " << error.what();
      }
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, SearchExport, testing::ValuesIn(exported_software()), [](const auto& of) {
  std::string name = of.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace plumbline::search_export_test
