// Fleets: rates from published counts, and untrusted files.
#include "analysis/reliability/fleet.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/reliability/job_failures.hpp"
#include "analysis/reliability/published_checks.hpp"
#include "core/base/error.hpp"
#include "core/base/yaml_text.hpp"

namespace plumbline::fleet_test {
namespace {

using testing::HasSubstr;

Fleet fleet_of(const std::string& yaml) {
  return parse_fleet(parse_yaml_object(yaml, "mine.yaml"), "mine", "mine.yaml");
}

TEST(Fleet, PublishedCountsGiveThePublishedRates) {
  const Fleet llama = load_fleet("llama3-405b");
  EXPECT_EQ(llama.causes.size(), 18U);
  EXPECT_NEAR(1000 * llama.per_node_day(), 3.79, 0.005);
  EXPECT_NEAR(llama.time_between_failures(16384).value / 3600, 3.093, 0.0005);
  EXPECT_NEAR(load_fleet("rsc-1").time_between_failures(16384).value / 3600, 1.8, 0.005);
  EXPECT_NEAR(load_fleet("ft-hsdp").time_between_failures(100'000).value / 60, 18, 1e-6);
  EXPECT_THAT(fleet_names(), testing::UnorderedElementsAre("llama3-405b", "rsc-1", "rsc-2", "ft-hsdp"));
}

TEST(Fleet, RatesAreReadInEveryForm) {
  const Fleet fleet = fleet_of(
      "gpus_per_node: 4\nobserved: {nodes: 10, days: 5}\ncauses:\n- {cause: a, count: 5}\n"
      "- {cause: b, per_1000_node_days: 3, takes_node: false}\n- {cause: c, mtbf_hours: 24000, per_node: 4, "
      "detect_s: 9}\n");
  ASSERT_EQ(fleet.causes.size(), 3U);
  EXPECT_DOUBLE_EQ(fleet.causes[0].per_node_day, 0.1);
  EXPECT_DOUBLE_EQ(fleet.causes[1].per_node_day, 0.003);
  EXPECT_DOUBLE_EQ(fleet.causes[2].per_node_day, 0.004);
  EXPECT_FALSE(fleet.causes[1].takes_node);
  EXPECT_EQ(fleet.causes[2].detect.value, 9);
  EXPECT_DOUBLE_EQ(fleet.nodes(8), 2);
}

TEST(Fleet, WhatAFileMayNotSayIsRefusedInOneLine) {
  const std::pair<const char*, const char*> wrong[] = {
      {"causes: []\n", "causes: found 0 failures"},
      {"causes:\n- {cause: a}\n", "expected one of count"},
      {"causes:\n- {cause: a, count: 1, per_1000_node_days: 1}\n", "expected one of count"},
      {"causes:\n- {cause: a, count: 1}\n", "expected observed"},
      {"causes:\n- {cause: a, per_1000_node_days: -1}\n", "causes[0].per_1000_node_days: found -1"},
      {"causes:\n- {cause: a, mtbf_hours: 0}\n", "mtbf_hours: found 0"},
      {"causes:\n- {cause: a, per_1000_node_days: 1, colour: red}\n", "colour"},
      {"gpus_per_node: 0\ncauses:\n- {cause: a, per_1000_node_days: 1}\n", "gpus_per_node: found 0"},
      {"causes: 7\n", "causes: found 7"},
      {"names: 7\n", "causes: missing"}};
  for (const auto& [yaml, what] : wrong) {
    try {
      fleet_of(yaml);
      ADD_FAILURE() << yaml;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("mine.yaml: ")) << yaml;
      EXPECT_THAT(error.what(), HasSubstr(what)) << yaml;
    }
  }
  EXPECT_THROW(load_fleet("nowhere.yaml"), InputError);
}

TEST(Fleet, CausesWithTheSameRecoveryAreOneKind) {
  const Fleet llama = load_fleet("llama3-405b");
  CheckpointPlan checkpoint{{100}, {10}, {5}, std::nullopt};
  const JobFailures same =
      job_failures(llama, 16384, {Seconds{60}, Seconds{162}, std::nullopt, std::nullopt}, checkpoint);
  ASSERT_EQ(same.kinds.size(), 2U);
  EXPECT_NEAR(same.kinds[0].share + same.kinds[1].share, 1, 1e-12);
  EXPECT_NEAR(same.node_share(), 321.0 / 419, 1e-12);
  EXPECT_DOUBLE_EQ(same.mean_recovery().value, 60 + 162 + 20);
  const JobFailures swap =
      job_failures(llama, 16384, {Seconds{60}, Seconds{162}, Seconds{30}, std::nullopt}, checkpoint);
  EXPECT_DOUBLE_EQ(swap.kinds[0].recovery.value, 60 + 30 + 20);
  EXPECT_DOUBLE_EQ(swap.kinds[1].recovery.value, 60 + 162 + 20);
}

// Results that follow from printed figures match print, except the three that no published rule gives.
TEST(PublishedChecks, ComeOutWithinTheirRounding) {
  int within = 0;
  std::vector<std::string> outside;
  for (const PublishedCheck& check : published_checks()) {
    if (!check.computed) {
      EXPECT_FALSE(check.why.empty()) << check.quantity;
    } else if (check.within) {
      ++within;
    } else {
      outside.push_back(check.quantity);
    }
  }
  EXPECT_EQ(within, 8);
  EXPECT_THAT(outside, testing::ElementsAre("RSC-1: mean time to failure, 1,024 GPUs",
                                            "checkpoint of Nemotron4-340B", "checkpoint of BLOOM"));
}

}  // namespace
}  // namespace plumbline::fleet_test
