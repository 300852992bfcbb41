// Prompts and configurations that are refused, one line each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <string>

#include "bench/training/generate/generator.hpp"
#include "bench/training/generate/prompts.hpp"
#include "core/base/error.hpp"
#include "core/config_text/load_config.hpp"

namespace plumbline::generation::request_checks_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

RunConfig small_config() {
  RunConfig config = load_run_config(std::string(PLUMBLINE_SOURCE_DIR) + "/tests/golden/llama/run.yaml", {});
  config.batch.seq_length = 16;
  return config;
}

std::string refusal_of(const std::function<void()>& use) {
  try {
    use();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string refusal_of(const GenerationRequest& request) {
  return refusal_of([&] { check_request(small_config(), request); });
}

TEST(GenerationRequests, AreRefusedWithOneLine) {
  EXPECT_EQ(refusal_of(GenerationRequest{.prompts = {{5, 116}}, .max_new_tokens = 14}), "");
  EXPECT_EQ(refusal_of(GenerationRequest{}), "prompts: found none, expected at least one; add a prompt");
  EXPECT_EQ(refusal_of(GenerationRequest{.prompts = {{1}, {}}, .max_new_tokens = 1}),
            "prompt 2: found no token ids, expected at least one; change the prompt");
  for (const std::int32_t id : {117, -1}) {
    EXPECT_THAT(refusal_of(GenerationRequest{.prompts = {{5, id}}, .max_new_tokens = 1}),
                HasSubstr("expected one from 0 to 116, the model's vocabulary"));
  }
  EXPECT_EQ(refusal_of(GenerationRequest{.prompts = {{5, 6}}, .max_new_tokens = 15}),
            "seq_length: found 16, expected at least 17 for prompt 1 with 2 tokens and 15 new ones; change "
            "seq_length or --max-new-tokens");
  EXPECT_THAT(refusal_of(GenerationRequest{.prompts = {{5}}, .max_new_tokens = 1, .end_ids = {117}}),
              StartsWith("--end-id: found 117, expected one from 0 to 116"));
}

TEST(GenerationPrompts, AreReadLineByLine) {
  const std::string path = testing::TempDir() + "/plumbline_prompts.jsonl";
  const auto read = [&](const std::string& text) {
    std::ofstream(path) << text;
    return read_prompts(path);
  };
  EXPECT_EQ(read("[1, 2]\n[3]\n"), (Prompts{{1, 2}, {3}}));
  EXPECT_EQ(read("[7]"), Prompts{{7}});
  EXPECT_EQ(read(to_lines({{1, 2}, {}})), (Prompts{{1, 2}, {}}));
  for (const char* line : {"", "5", "[1.5]", "[[1]]", "[-1]", "[4294967296]", "[1,", "[\"1\"]"}) {
    EXPECT_THAT(refusal_of([&] { read("[1]\n" + std::string(line) + "\n"); }),
                HasSubstr("prompts.jsonl:2: found"))
        << line;
  }
}

TEST(GenerationPrompts, AreDrawnWithinTheVocabulary) {
  const Prompts drawn = random_prompts(3, 200, 7, 1);
  ASSERT_EQ(drawn.size(), 3U);
  for (const std::vector<std::int32_t>& prompt : drawn) {
    EXPECT_EQ(prompt.size(), 200U);
    EXPECT_THAT(prompt, testing::Each(testing::AllOf(testing::Ge(0), testing::Lt(7))));
  }
  EXPECT_NE(drawn[0], drawn[1]);
  EXPECT_EQ(drawn, random_prompts(3, 200, 7, 1));
  EXPECT_NE(drawn, random_prompts(3, 200, 7, 2));
}

TEST(GenerationConfigurations, AreRefusedWithTheKey) {
  const auto refused = [](const std::function<void(RunConfig&)>& change) {
    RunConfig config = small_config();
    change(config);
    return why_not_generated(config);
  };
  EXPECT_EQ(refused([](RunConfig&) {}), "");
  EXPECT_THAT(refused([](RunConfig& c) { c.parallel.context = c.parallel.world_size = 2; }),
              StartsWith("context_parallel_size:"));
  EXPECT_THAT(refused([](RunConfig& c) { c.numerics.fp8.format = Fp8Format::hybrid; }),
              StartsWith("fp8_format:"));
  EXPECT_THAT(refused([](RunConfig& c) { c.model.prediction_modules = 1; }), StartsWith("mtp_num_layers:"));
  EXPECT_THAT(refused([](RunConfig& c) { c.model.position.of_blocks = true; }), StartsWith("model:"));
}

}  // namespace
}  // namespace plumbline::generation::request_checks_test
