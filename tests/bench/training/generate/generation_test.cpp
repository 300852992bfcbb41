// Generation with a KV cache against transformers' generate and against forwards of whole sequences without a
// cache, over every family of models.
#include "bench/training/generate/generator.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/training/stage/forward_model.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/load_config.hpp"
#include "core/run/solo_communicator.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "tests/bench/training/first_rank.hpp"
#include "tests/bench/training/generate/golden_generation.hpp"

namespace plumbline::generation {
namespace {

constexpr std::int64_t kNewTokens = 8;
constexpr std::int64_t kLongest = 16;

std::string golden_folder(const std::string& name) {
  return fmt::format("{}/tests/golden/{}", PLUMBLINE_SOURCE_DIR, name);
}

bool generates(const std::string& name);

/// Every golden model that generates, "families/qwen3".
std::vector<std::string> golden_models() {
  std::vector<std::string> names = {"llama", "mistral", "qwen2", "gpt2", "qwen2_window"};
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder("families")))
    names.push_back("families/" + entry.path().filename().string());
  std::erase_if(names, [](const std::string& name) { return !generates(name); });
  std::sort(names.begin(), names.end());
  return names;
}

/// Unequal prompts, one of them longer than the windows of 5; more than fit together.
GenerationRequest request_of(std::int64_t vocab, std::int64_t seed) {
  GenerationRequest request;
  request.max_new_tokens = kNewTokens;
  for (const std::int64_t length : {3, 8, 1, 5}) {
    std::vector<std::int32_t>& prompt = request.prompts.emplace_back();
    for (std::int64_t i = 0; i < length; ++i)
      prompt.push_back(static_cast<std::int32_t>((seed * 31 + i * 17 + length * 7) % vocab));
  }
  return request;
}

RunConfig config_of(const std::string& name, const Layout& layout) {
  RunConfig config = load_run_config(golden_folder(name) + "/run.yaml", {});
  training::set_layout(config, layout);
  config.generation.task = RunTask::generate;
  config.batch.seq_length = kLongest;
  config.batch.micro_batch_size = 3;
  config.batch.global_batch_size = 3;
  config.generation.max_new_tokens = kNewTokens;
  return config;
}

/// Logits of the token behind a sequence, from a forward of all of it.
class WholeForwards {
 public:
  explicit WholeForwards(const RunConfig& config) : config_(config), operators_(make_cpu_operators()) {
    training::set_layout(config_, {1, 1, 1});
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

GenerationResult generate_on_cpu(const RunConfig& config, const GenerationRequest& request) {
  MpiCommunicator communicator(config.layout());
  const auto operators = make_cpu_operators();
  return generate(config, request, *operators, communicator, communicator, host_memory());
}

/// Splits of these ranks that the model allows, tensor x pipeline.
std::vector<Layout> splits_of(const ModelConfig& model, int ranks) {
  const bool whole = model.qk_norm && model.predicted.query_norm == QueryNorm::width;
  std::vector<Layout> fitting;
  for (const Layout& layout : training::layouts_of(ranks)) {
    if (layout.data > 1 || layout.pipeline > model.layers || (whole && layout.tensor > 1)) continue;
    if (!why_tensor_split_invalid(model, layout.tensor)) fitting.push_back(layout);
  }
  return fitting;
}

int world_size() {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

/// Calls use(configuration, its name for people) for every split that generates.
template <class Use>
void each_split(const std::string& name, const Use& use) {
  for (const Layout& layout : splits_of(config_of(name, {1, 1, 1}).model, world_size())) {
    const RunConfig config = config_of(name, layout);
    const std::string what = fmt::format("{} tp{} pp{}", name, layout.tensor, layout.pipeline);
    ASSERT_EQ(why_generation_invalid(config), std::nullopt) << what;
    ASSERT_EQ(why_not_generated(config), "") << what;
    use(config, what);
  }
}

bool generates(const std::string& name) {
  return why_not_generated(config_of(name, {1, 1, 1})).empty();
}

bool in_transformers(const std::string& name) {
  return golden::generation_file().find(name + "/tokens") != nullptr;
}

std::vector<std::string> models_of_transformers() {
  std::vector<std::string> names = golden_models();
  std::erase_if(names, [](const std::string& name) { return !in_transformers(name); });
  return names;
}

std::string test_name(const testing::TestParamInfo<std::string>& model) {
  return model.param.substr(model.param.find('/') + 1);
}

/// A golden model with positions for longer texts than its checkpoint has: rotary ones go on, and a table of
/// learned ones is repeated, by 3/4, 2/4 and 1/4, as make_generation.py does.
class LongerModel {
 public:
  explicit LongerModel(const std::string& name) {
    if (config_of(name, {1, 1, 1}).model.positions != Positions::learned) return;
    const TensorFile file(golden_folder(name));
    std::vector<TensorFileWriter::Entry> entries;
    for (const std::string& tensor : file.names()) {
      entries.push_back({tensor, file.get(tensor).type, file.get(tensor).shape});
      if (is_table(tensor))
        entries.back().shape[0] += kLongText - config_of(name, {1, 1, 1}).model.max_positions;
    }
    path_ = fmt::format("{}/plumbline-longer-{}.safetensors", testing::TempDir(), ::getpid());
    TensorFileWriter writer(path_, entries);
    for (const TensorFileWriter::Entry& entry : entries) {
      const StoredTensor& from = file.get(entry.name);
      if (!is_table(entry.name)) {
        writer.write(entry.name, from.bytes);
        continue;
      }
      std::vector<float> longer(static_cast<std::size_t>(entry.shape[0] * entry.shape[1]));
      for (std::int64_t i = 0; i < std::ssize(longer); ++i)
        longer[static_cast<std::size_t>(i)] =
            from.at(i % from.elements()) * (1 - static_cast<float>(i / from.elements()) / 4);
      writer.write(entry.name, std::as_bytes(std::span(longer)));
    }
    writer.finish();
  }
  ~LongerModel() {
    if (!path_.empty()) std::filesystem::remove(path_);
  }
  LongerModel(const LongerModel&) = delete;
  LongerModel& operator=(const LongerModel&) = delete;

  /// Two sequences together, fewer than there are prompts.
  void change(RunConfig& config, std::int64_t new_tokens) const {
    config.model.max_positions = std::max(config.model.max_positions, kLongText);
    config.batch.seq_length = kLongText;
    config.batch.micro_batch_size = config.batch.global_batch_size = 2;
    config.generation.max_new_tokens = new_tokens;
    if (!path_.empty()) config.files.weights = path_;
  }

 private:
  static constexpr std::int64_t kLongText = 72;  // POSITIONS of make_generation.py
  static bool is_table(const std::string& tensor) {
    return tensor.find("wpe") != std::string::npos || tensor.find("embed_positions") != std::string::npos;
  }
  std::string path_;
};

class GenerationOfModel : public testing::TestWithParam<std::string> {};

TEST_P(GenerationOfModel, EqualsTransformers) {
  const std::string name = GetParam();
  constexpr std::string_view kOnFourRanks[] = {
      "llama",         "gpt2",           "qwen2_window",         "families/bloom",
      "families/opt",  "families/phi",   "families/deepseek_v3", "families/mixtral",
      "families/glm4", "families/gemma2"};
  if (world_size() == 4 && std::ranges::find(kOnFourRanks, name) == std::end(kOnFourRanks))
    GTEST_SKIP() << "two ranks have shown it";
  const std::vector<golden::Generation> expected = golden::generations_of(name);
  GenerationRequest request;
  request.max_new_tokens = std::ssize(expected.front().ids);
  for (const golden::Generation& each : expected) request.prompts.push_back(each.prompt);
  const LongerModel longer(name);
  each_split(name, [&](RunConfig config, const std::string& what) {
    longer.change(config, request.max_new_tokens);
    const GenerationResult found = generate_on_cpu(config, request);
    ASSERT_EQ(found.sequences.size(), expected.size()) << what;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(found.sequences[i].ids, expected[i].ids) << what << " sequence " << i;
      EXPECT_THAT(found.sequences[i].log_probabilities,
                  testing::Pointwise(testing::DoubleNear(1e-5), expected[i].log_probabilities))
          << what << " sequence " << i;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Models, GenerationOfModel, testing::ValuesIn(models_of_transformers()), test_name);

class GenerationWithCache : public testing::TestWithParam<std::string> {};

TEST_P(GenerationWithCache, EqualsForwardsOfWholeSequences) {
  const std::string name = GetParam();
  if (world_size() > 1 && in_transformers(name)) GTEST_SKIP() << "equals transformers";
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
       {Case{"llama", 2 * kLongest, 2 * 2 * 16}, Case{"qwen2_window", 7 + kLongest + 7, 2 * 2 * 4},
        Case{"families/gpt_bigcode", 2 * kLongest, 2 * 8, true},
        Case{"families/deepseek_v3", 3 * kLongest, 4 * (16 + 12)}}) {
    const std::int64_t whole = kSequences * each.kept * each.width * kElement;
    if (world_size() == 1) {
      EXPECT_THAT(cache_bytes(each.name, {1, 1, 1}), testing::ElementsAre(whole)) << each.name;
    } else if (world_size() == 2) {
      const std::int64_t part = each.shared ? whole : whole / 2;
      EXPECT_THAT(cache_bytes(each.name, {2, 1, 1}), testing::ElementsAre(part, part)) << each.name;
    }
  }
  if (world_size() != 4) return;
  const std::int64_t row = kSequences * kElement * 2 * 4;  // of one of two key/value heads
  EXPECT_THAT(cache_bytes("qwen2_window", {2, 2, 1}),
              testing::ElementsAre(row * (7 + kLongest), row * (7 + kLongest), row * 7, row * 7));
}

TEST(GenerationStops, AtTheEndIdAndGoesOnWithTheOthers) {
  const RunConfig config = config_of("families/phi", {1, 1, world_size()});
  if (world_size() > 1) GTEST_SKIP() << "one rank has shown it";
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
}  // namespace plumbline::generation
