// The KV cache: generation equals forwards of whole sequences without one; its bytes, ends of sequences, and
// drawn tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/training/stage/forward_model.hpp"
#include "core/run/solo_communicator.hpp"
#include "tests/bench/training/generate/generation_fixture.hpp"  // uses PLUMBLINE_SOURCE_DIR
#include "tests/bench/training/support/first_rank.hpp"

namespace plumbline::generation::generation_cache_test {
namespace {

/// Logits of the token behind a sequence, from a forward of all of it.
class WholeForwards {
 public:
  explicit WholeForwards(const RunConfig& config) : config_(config), operators_(make_cpu_operators()) {
    training::set_layout(config_, {1, 1, 1});
    config_.parallel.expert = 1;
    config_.batch.micro_batch_size = config_.batch.global_batch_size = 1;
  }

  std::vector<float> logits(const std::vector<std::int32_t>& sequence) {
    const std::int64_t length = std::ssize(sequence);
    std::unique_ptr<training::ForwardModel>& model = models_[length];
    if (!model) {
      config_.batch.seq_length = length;
      model = std::make_unique<training::ForwardModel>(config_, *operators_, communicator_, arena_);
      load_weights(model->resources(), training::checkpoint_weights(config_.files.weights, config_.model));
    }
    return model->evaluate(sequence, std::vector<std::int32_t>(sequence.size())).last_logits;
  }

 private:
  RunConfig config_;
  std::unique_ptr<Operators> operators_;
  SoloCommunicator communicator_;
  Arena arena_{Bytes{}, host_memory()};
  std::map<std::int64_t, std::unique_ptr<training::ForwardModel>> models_;  // by length
};

void expect_as_without_cache(const RunConfig& config, const GenerationRequest& request,
                             const GenerationResult& found, const std::string& what) {
  WholeForwards whole(config);
  ASSERT_EQ(found.sequences.size(), request.prompts.size()) << what;
  for (std::size_t i = 0; i < request.prompts.size(); ++i) {
    const GeneratedSequence& made = found.sequences[i];
    ASSERT_EQ(std::ssize(made.ids), kNewTokens) << what;
    ASSERT_EQ(made.log_probabilities.size(), made.ids.size()) << what;
    std::vector<std::int32_t> sequence = request.prompts[i];
    for (std::size_t token = 0; token < made.ids.size(); ++token) {
      const Choice expected = choose(whole.logits(sequence), {}, {});
      EXPECT_EQ(made.ids[token], expected.id) << what << " sequence " << i << " token " << token;
      EXPECT_NEAR(made.log_probabilities[token], expected.log_probability, 1e-4)
          << what << " sequence " << i << " token " << token;
      sequence.push_back(expected.id);
    }
  }
}

class GenerationWithCache : public testing::TestWithParam<std::string> {};

TEST_P(GenerationWithCache, EqualsForwardsOfWholeSequences) {
  const std::string name = GetParam();
  if (training::world_ranks() > 1 && in_transformers(name)) GTEST_SKIP() << "equals transformers";
  each_split(name, [&](const RunConfig& config, const std::string& what) {
    for (const std::int64_t seed : {1, 2}) {
      const GenerationRequest request = request_of(config.model.vocab, seed);
      const GenerationResult found = generate_on_cpu(config, request);
      training::on_first_rank([&] { expect_as_without_cache(config, request, found, what); });
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Models, GenerationWithCache, testing::ValuesIn(golden_models()), test_name);

/// Bytes of the cache on every rank of the split.
std::vector<std::int64_t> cache_bytes(const std::string& name, const Layout& layout) {
  const GenerationResult found = generate_on_cpu(config_of(name, layout), request_of(50, 1));
  std::vector<std::int64_t> bytes;
  for (const Bytes& rank : found.cache) bytes.push_back(rank.value);
  return bytes;
}

TEST(GenerationCache, HoldsTheKeysThatLaterTokensSee) {
  constexpr std::int64_t kSequences = 3;
  constexpr std::int64_t kElement = 4;
  struct Case {
    const char* name;
    std::int64_t kept;    // tokens of a sequence, summed over the layers
    std::int64_t width;   // elements of a token's keys and values
    bool shared = false;  // a key/value head on several tensor ranks
  };
  for (const Case& each :
       {Case{"llama", 2 * kLongest, 2 * 2 * 8}, Case{"qwen2_window", 7 + kLongest + 7, 2 * 2 * 4},
        Case{"families/gpt_bigcode", 2 * kLongest, 2 * 4, true},
        Case{"families/deepseek_v3", 3 * kLongest, 4 * (10 + 7)}}) {
    const std::int64_t whole = kSequences * each.kept * each.width * kElement;
    if (training::world_ranks() == 1) {
      EXPECT_THAT(cache_bytes(each.name, {1, 1, 1}), testing::ElementsAre(whole)) << each.name;
    } else if (training::world_ranks() == 2) {
      const std::int64_t part = each.shared ? whole : whole / 2;
      EXPECT_THAT(cache_bytes(each.name, {2, 1, 1}), testing::ElementsAre(part, part)) << each.name;
    }
  }
  if (training::world_ranks() != 4) return;
  const std::int64_t row = kSequences * kElement * 2 * 4;  // of one of two key/value heads
  EXPECT_THAT(cache_bytes("qwen2_window", {2, 2, 1}),
              testing::ElementsAre(row * (7 + kLongest), row * (7 + kLongest), row * 7, row * 7));
}

TEST(GenerationStops, AtTheEndIdAndGoesOnWithTheOthers) {
  const RunConfig config = config_of("families/phi", {1, 1, training::world_ranks()});
  if (training::world_ranks() > 1) GTEST_SKIP() << "one rank has shown it";
  GenerationRequest request = request_of(config.model.vocab, 1);
  const GenerationResult all = generate_on_cpu(config, request);
  const std::int32_t end = all.sequences[0].ids[2];
  request.end_ids = {end};
  const GenerationResult found = generate_on_cpu(config, request);
  for (std::size_t i = 0; i < all.sequences.size(); ++i) {
    std::vector<std::int32_t> expected = all.sequences[i].ids;
    const auto first = std::find(expected.begin(), expected.end(), end);
    if (first != expected.end()) expected.erase(first + 1, expected.end());
    EXPECT_EQ(found.sequences[i].ids, expected);
  }
  EXPECT_LE(found.sequences[0].ids.size(), 3U);
}

TEST(GenerationSamples, TheSameIdsInEveryBatchAndSplit) {
  GenerationRequest request = request_of(50, 3);
  request.sampling = {.temperature = 1.3, .top_k = 20, .top_p = 0.9, .seed = 5};
  std::vector<std::vector<std::int32_t>> first;
  each_split("families/phi", [&](RunConfig config, const std::string& what) {
    for (const std::int64_t together : {1, 3, 4}) {
      config.batch.micro_batch_size = config.batch.global_batch_size = together;
      const GenerationResult found = generate_on_cpu(config, request);
      std::vector<std::vector<std::int32_t>> ids;
      for (const GeneratedSequence& sequence : found.sequences) ids.push_back(sequence.ids);
      if (first.empty()) first = ids;
      EXPECT_EQ(ids, first) << what << " " << together;
    }
  });
}

}  // namespace
}  // namespace plumbline::generation::generation_cache_test
