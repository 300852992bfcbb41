// `plumbline generate` as a script sees it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/commands/program_folder.hpp"
#include "tests/bench/training/generate/golden_generation.hpp"

namespace plumbline::generate_command_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

class GenerateCommand : public ProgramFolder {
 protected:
  Said generate(const std::string& model, const std::string& arguments) const {
    return plumbline(fmt::format("generate {}/tests/golden/{}/run.yaml --seq-length 16 --max-new-tokens 8 {}",
                                 PLUMBLINE_SOURCE_DIR, model, arguments));
  }
  json generated(const std::string& model, const std::string& arguments) const {
    const Said said = generate(model, arguments + " --json");
    EXPECT_EQ(said.exit_code, 0) << said.err;
    return json::parse(said.out, nullptr, false);
  }
};

TEST_F(GenerateCommand, ContinuesAFileOfPromptsAsTransformersDoes) {
  const std::vector<golden::Generation> expected = golden::generations_of("llama");
  std::string prompts;
  for (const golden::Generation& each : expected) prompts += json(each.prompt).dump() + "\n";
  write("prompts.jsonl", prompts);
  const json found = generated("llama", "--mbs 2 --tp 2 --prompts prompts.jsonl");
  ASSERT_EQ(found["sequences"].size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::vector<std::int32_t> first(expected[i].ids.begin(), expected[i].ids.begin() + 8);
    EXPECT_EQ(found["sequences"][i]["ids"], first);
    EXPECT_EQ(found["sequences"][i]["prompt_tokens"], expected[i].prompt.size());
    EXPECT_EQ(found["sequences"][i]["log_probabilities"].size(), 8U);
  }
  EXPECT_EQ(found["cache_bytes"], json({2 * 16 * 2 * 16 * 4, 2 * 16 * 2 * 16 * 4}));
  EXPECT_EQ(found["decode_passes"], 14);  // two batches
  EXPECT_GT(found["prefill_s"], 0);
  EXPECT_GT(found["tokens_per_s"], 0);
}

TEST_F(GenerateCommand, PrintsIdsInTheFormOfPrompts) {
  const Said said = generate("gpt2", "--mbs 2 --prompt-length 3 --temperature 1 --top-p 0.9");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out, StartsWith("["));
  EXPECT_THAT(said.out, HasSubstr("]\nprefill "));
  EXPECT_THAT(said.out, HasSubstr("(7 passes)"));
  EXPECT_EQ(generate("gpt2", "--mbs 2 --prompt-length 3 --temperature 1 --top-p 0.9").out.substr(0, 40),
            said.out.substr(0, 40));
}

TEST_F(GenerateCommand, HasTheSameCacheAndAVirtualClockWhereEmulated) {
  const json cpu = generated("mistral", "--mbs 2");
  const json emulated =
      generated("mistral", "--mbs 2 --backend emulated --hardware h100-sxm-80gb --emulated-clock virtual");
  EXPECT_EQ(emulated["cache_bytes"], cpu["cache_bytes"]);
  EXPECT_EQ(emulated["decode_passes"], 7);
  EXPECT_GT(emulated["decode_s_per_pass"], 0);
  EXPECT_LT(emulated["decode_s_per_pass"], 1e-2);
}

TEST_F(GenerateCommand, RefusesBadInputWithOneLine) {
  write("outside.jsonl", "[1, 2]\n[117]\n");
  write("empty.jsonl", "[]\n");
  write("none.jsonl", "");
  write("text.jsonl", "hello\n");
  write("long.jsonl", "[1, 2, 3, 4, 5, 6, 7, 8, 9]\n");
  for (const auto& [arguments, line] : {
           std::pair("--prompts outside.jsonl", "prompt 2: found id 117, expected one from 0 to 116"),
           std::pair("--prompts empty.jsonl", "prompt 1: found no token ids"),
           std::pair("--prompts none.jsonl", "prompts: found none"),
           std::pair("--prompts text.jsonl", "text.jsonl:1: found hello, expected a JSON list"),
           std::pair("--prompts long.jsonl", "seq_length: found 16, expected at least 17"),
           std::pair("--prompts absent.jsonl", "absent.jsonl"),
           std::pair("--top-k 5", "--temperature: found 0, greedy"),
           std::pair("--end-id 117", "--end-id: found 117"),
           std::pair("--cp 2", "context_parallel_size"),
           std::pair("--weights absent", "absent"),
       }) {
    const Said said = generate("llama", arguments);
    EXPECT_EQ(said.exit_code, 2) << arguments;
    EXPECT_THAT(said.err, HasSubstr(line)) << arguments;
    EXPECT_EQ(std::count(said.err.begin(), said.err.end(), '\n'), 1) << said.err;
  }
  const Said small = generate("llama", "--memory-budget 16KiB");
  EXPECT_EQ(small.exit_code, 3) << small.err;
  EXPECT_THAT(small.err, HasSubstr("out of memory"));
}

}  // namespace
}  // namespace plumbline::generate_command_test
