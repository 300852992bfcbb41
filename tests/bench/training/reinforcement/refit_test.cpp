// Weights after a refit, bit for bit, between pairs of layouts; and the bytes that move.
#include "tests/bench/training/reinforcement/reinforcement_fixture.hpp"

namespace plumbline::reinforcement::refit_test {
namespace {

struct Pair {
  Layout from;
  int zero;
  Layout to;
};

std::vector<Pair> pairs(int ranks) {
  if (ranks == 1) return {{{1, 1, 1}, 0, {1, 1, 1}}};
  if (ranks == 2) {
    return {{{2, 1, 1}, 0, {2, 1, 1}}, {{2, 1, 1}, 0, {1, 2, 1}}, {{1, 2, 1}, 0, {2, 1, 1}},
            {{1, 1, 2}, 3, {1, 1, 2}}, {{1, 1, 2}, 3, {2, 1, 1}}, {{1, 1, 2}, 1, {1, 2, 1}},
            {{2, 1, 1}, 0, {1, 1, 2}}, {{1, 2, 1}, 0, {1, 1, 2}}, {{1, 1, 1}, 0, {1, 1, 1}}};
  }
  // The last ones are of 4 ranks in two pools.
  return {{{4, 1, 1}, 0, {1, 2, 2}}, {{2, 2, 1}, 0, {4, 1, 1}}, {{1, 1, 4}, 3, {2, 2, 1}},
          {{1, 2, 2}, 3, {2, 1, 2}}, {{2, 1, 2}, 3, {1, 1, 4}}, {{1, 2, 2}, 1, {1, 2, 2}},
          {{2, 2, 1}, 0, {1, 1, 4}}, {{1, 1, 4}, 2, {4, 1, 1}}, {{2, 1, 1}, 0, {1, 2, 1}},
          {{1, 2, 1}, 0, {2, 1, 1}}, {{1, 1, 2}, 3, {2, 1, 1}}, {{1, 1, 2}, 1, {1, 1, 2}},
          {{1, 1, 3}, 3, {1, 1, 1}}, {{1, 1, 1}, 0, {1, 1, 3}}};
}

std::vector<std::uint8_t> bytes_of(const Matrix& x) {
  const auto* first = static_cast<const std::uint8_t*>(x.data);
  return {first, first + x.bytes().value};
}

void check(const ModelConfig& model, DType type, const Pair& pair, Bytes bucket) {
  RunConfig config = grpo_config();
  config.model = model;
  config.files.weights.clear();
  config.parallel.make_vocab_size_divisible_by = 4;
  config.numerics.precision = type;
  training::set_layout(config, pair.from);
  config.parallel.dp.zero_stage = pair.zero;
  config.reinforcement.rollout.tensor = pair.to.tensor;
  config.reinforcement.rollout.pipeline = pair.to.pipeline;
  const bool apart = pair.from.world() < training::world_ranks();
  if (apart) {
    config.reinforcement.rollout.placement = RolloutPlacement::split;
    config.reinforcement.rollout.world = pair.to.world();
  }
  const std::string what =
      fmt::format("tp{} pp{} dp{} zero {} to tp{} pp{} dp{}", pair.from.tensor, pair.from.pipeline,
                  pair.from.data, pair.zero, pair.to.tensor, pair.to.pipeline, pair.to.data);
  RankOfStep rank(config);
  const training::SliceReader weights = training::lively_weights(77);
  rank.step.load(weights);
  const RunConfig target = rollout_config(config);
  std::optional<generation::GenerationModel> expected, found;
  if (rank.ranks.rollout) {
    expected.emplace(target, *rank.operators, *rank.ranks.rollout, rank.arena);
    load_weights(expected->resources(), weights);
    found.emplace(target, *rank.operators, *rank.ranks.rollout, rank.arena);
  }
  const RefitSide from = {actor_config(config), training::StageMap(rank.schedule), 0,
                          rank.step.trains() ? &rank.step.actor().resources() : nullptr};
  const RefitSide to = {generation::generation_config(target), generation::stage_per_rank(target),
                        apart ? pair.from.world() : 0, found ? &found->resources() : nullptr};
  const Bytes before = rank.arena.allocated_total();
  const RefitTraffic traffic = refit(from, to, {rank.ranks.all(), *rank.operators, rank.arena}, bucket);
  EXPECT_EQ(rank.arena.allocated_total().value, before.value) << what;
  EXPECT_TRUE(!apart || traffic.copied == Bytes{}) << what;
  EXPECT_EQ(apart && traffic.received == Bytes{}, apart && rank.step.trains()) << what;
  if (!found) return;
  const auto values = [](const generation::GenerationModel& of) -> const training::ParameterSet& {
    return of.resources().memory.values;
  };
  EXPECT_EQ(bytes_of(values(*found).vectors), bytes_of(values(*expected).vectors)) << what;
  EXPECT_EQ(bytes_of(values(*found).matrices), bytes_of(values(*expected).matrices)) << what;
  if (apart) return;
  const bool same = pair.from == pair.to && pair.zero < 3;
  const bool whole = pair.from.tensor * pair.from.pipeline == 1 && pair.zero < 3;
  EXPECT_EQ(traffic.received.value == 0, same || whole || training::world_ranks() == 1) << what;
}

/// Models, types and sizes of messages in turn: a communicator for each is what takes time.
TEST(Refit, IsBitwiseBetweenLayouts) {
  std::size_t turn = static_cast<std::size_t>(training::world_ranks()) / 4;
  for (const Pair& pair : pairs(training::world_ranks())) {
    const DType type = turn % 2 == 0 ? DType::fp32 : DType::bf16;
    if (turn % 3 == 0) check(training::small_qwen2(), type, pair, kRefitBucket);
    if (turn % 3 == 1) check(training::small_gpt2(), type, pair, {1 << 12});
    if (turn % 3 == 2) check(training::small_deepseek(false), type, pair, {1 << 14});
    ++turn;
  }
}

}  // namespace
}  // namespace plumbline::reinforcement::refit_test
