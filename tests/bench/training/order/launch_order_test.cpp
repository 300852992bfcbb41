// Steps do not hang on devices, where messages between two ranks share a stream. The order of a step's
// messages is taken from the training code rank by rank. One queue of the device for all streams is enough
// for the messages as the communicator passes them on; as the schedule asks for them, some would hang.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "bench/plan/plan.hpp"
#include "core/config/config_checks.hpp"
#include "core/schedule/vocab_passes.hpp"
#include "tests/bench/training/order/launch_order.hpp"
#include "tests/bench/training/support/emulated_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::launch_order_test {
namespace {

enum class LaunchSplit { plain, context, expert };

struct LaunchCase {
  const char* schedule;
  Layout layout;  // tensor, pipeline, data × context
  LaunchSplit split = LaunchSplit::plain;
  int zero = 0;
  bool overlap = false;  // of messages
  const char* vocabulary = "none";
  int instances = 1;
};

RunConfig launch_config(const LaunchCase& c) {
  RunConfig config;
  config.model = small_qwen2();
  if (c.split == LaunchSplit::expert) {
    config.model.architecture = "mixtral";
    config.model.biases.qkv = config.model.embedding.tied = false;
    config.model.mixture = {8, 2, true};
  }
  config.model.layers = 16;
  const int replicas = c.layout.data / (c.split == LaunchSplit::context ? 2 : 1);
  config.batch = {
      .seq_length = 16, .micro_batch_size = 1, .global_batch_size = 2 * c.layout.pipeline * replicas};
  set_emulated(config);
  config.parallel.make_vocab_size_divisible_by = 8;
  set_layout(config, c.layout);
  if (c.split == LaunchSplit::context) config.parallel.context = 2;
  if (c.split == LaunchSplit::expert) config.parallel.expert = 2;
  config.parallel.pp.schedule = c.schedule;
  if (config.parallel.pp.schedule == "interleaved") config.parallel.pp.virtual_chunks = 2;
  config.parallel.sequence_parallel = c.layout.tensor > 1;
  config.parallel.dp.zero_stage = c.zero;
  config.parallel.pp.overlap_p2p_comm = c.overlap;
  if (c.instances > 1) config.parallel.dp.overlap_param_gather = true;
  config.parallel.dp.optimizer_instances = c.instances;
  config.parallel.pp.vocab_parallel = parse_vocab_parallel(c.vocabulary);
  return config;
}

std::string launch_name(const LaunchCase& c) {
  return fmt::format("{} {} tp{} pp{} dp{} split {} zero {} overlap {}", c.schedule, c.vocabulary,
                     c.layout.tensor, c.layout.pipeline, c.layout.data, static_cast<int>(c.split), c.zero,
                     c.overlap);
}

constexpr const char* kLaunchSchedules[] = {"gpipe", "1f1b",   "interleaved", "zb-h1",    "zb-h2",
                                            "zb-v",  "v-half", "v-min",       "dualpipe", "dualpipev"};

std::vector<LaunchCase> launch_cases() {
  std::vector<LaunchCase> cases;
  for (const char* schedule : kLaunchSchedules) {
    for (const bool overlap : {false, true}) {
      for (const int pipeline : {2, 4, 8}) {
        cases.push_back({schedule, {1, pipeline, 1}, LaunchSplit::plain, 0, overlap});
        cases.push_back({schedule, {pipeline == 2 ? 2 : 1, pipeline, 2}, LaunchSplit::plain, 2, overlap});
      }
      cases.push_back({schedule, {1, 2, 2}, LaunchSplit::plain, 3, overlap});
      for (const LaunchSplit split : {LaunchSplit::context, LaunchSplit::expert})
        cases.push_back({schedule, {1, 4, 2}, split, 1, overlap});
      cases.push_back({schedule, {1, 2, 4}, LaunchSplit::expert, overlap ? 1 : 2, overlap, "none", 2});
    }
  }
  for (const char* schedule : {"1f1b", "v-half"}) {
    for (const char* vocabulary : {"vocab-1", "vocab-2"}) {
      for (const Layout& layout : {Layout{1, 2, 1}, Layout{1, 4, 2}, Layout{2, 4, 1}})
        cases.push_back({schedule, layout, LaunchSplit::plain, 0, false, vocabulary});
    }
  }
  cases.push_back({"1f1b", {1, 2, 4}, LaunchSplit::plain, 1, false, "vocab-2", 2});
  cases.push_back({"v-half", {2, 4, 4}, LaunchSplit::plain, 1, false, "vocab-2", 2});
  cases.push_back({"1f1b", {1, 4, 1}, LaunchSplit::plain, 0, false, "interlaced"});
  return cases;
}

TEST(LaunchOrder, NothingHangsInOneQueue) {
  std::set<std::string> hung;
  int checked = 0;
  std::size_t most_lanes = 0;
  int hang = 0;
  for (const LaunchCase& c : launch_cases()) {
    const RunConfig config = launch_config(c);
    const std::string name = launch_name(c);
    if (const auto reason = why_invalid(config)) {
      ADD_FAILURE() << name << ": " << *reason;
      continue;
    }
    const std::vector<RankCalls> ranks = calls_of_step(config, schedule_for(config));
    std::vector<RankCalls> passed_on;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      passed_on.push_back(held_back(ranks[rank]));
      most_lanes = std::max(most_lanes, lanes_of(rank, ranks[rank]).size());
    }
    ++checked;
    EXPECT_EQ(find_hang(ranks), "") << name;
    for (const Launches launches : {Launches::as_streams_allow, Launches::in_order_of_calls})
      EXPECT_EQ(find_hang_on_device(passed_on, launches), "") << name;
    if (!find_hang_on_device(ranks, Launches::in_order_of_calls).empty()) {
      ++hang;
      hung.insert(c.schedule);
      if (!c.overlap && c.layout.pipeline == 2) hung.insert(fmt::format("{} on two ranks", c.schedule));
    }
  }
  fmt::print("{} of {} would hang in the order of the schedule\n", hang, checked);
  EXPECT_GT(most_lanes, 10U);  // three streams each, more than the device has queues
  for (const char* would : {"dualpipe", "dualpipev", "interleaved on two ranks"})
    EXPECT_TRUE(hung.contains(would)) << would;
}

TEST(LaunchOrder, MessagesThatMeetOthersAreTold) {
  std::vector<RankCalls> ranks;
  const RunConfig config = launch_config({"interleaved", {1, 2, 1}});
  ranks = calls_of_step(config, schedule_for(config));
  ASSERT_EQ(find_hang_on_device(ranks, Launches::as_streams_allow), "");
  for (OrderedCall& call : ranks[1]) {
    if (call.kind == OrderedCall::Kind::receive) {
      call.tag += 100;
      break;
    }
  }
  EXPECT_NE(find_hang_on_device(ranks, Launches::as_streams_allow).find("meets"), std::string::npos);
}

}  // namespace
}  // namespace plumbline::training::launch_order_test
