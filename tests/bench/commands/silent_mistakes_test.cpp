// Mistakes of a command line or a file that would change an answer: each is refused or named.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "bench/commands/application.hpp"
#include "bench/commands/usage_errors.hpp"
#include "core/config_text/config_keys.hpp"
#include "tests/bench/commands/program_folder.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::silent_mistakes_test {
namespace {

using testing::HasSubstr;

constexpr const char* kModel =
    "model: {model_type: qwen2, num_hidden_layers: 4, hidden_size: 64, num_attention_heads: 4,\n"
    "        num_key_value_heads: 2, intermediate_size: 96, vocab_size: 128, max_position_embeddings: 64,\n"
    "        rms_norm_eps: 1.0e-6, tie_word_embeddings: true}\n"
    "seq_length: 16\nglobal_batch_size: 8\n";

class SilentMistakes : public ProgramFolder {
 protected:
  SilentMistakes() { write("run.yaml", kModel); }
};

/// The option of the command takes a number, by its type or its range.
bool takes_number(const CLI::Option& option) {
  constexpr std::string_view kTypes[] = {"FLOAT", "INT"};
  const std::string type = option.get_type_name();
  return std::any_of(std::begin(kTypes), std::end(kTypes),
                     [&](std::string_view each) { return type.find(each) != std::string::npos; });
}

constexpr const char* kNoNumbers[] = {"nan",      "-nan",  "NaN",  "inf",   "-inf",
                                      "infinity", "-1",    "-0.5", "1e400", "99999999999999999999999",
                                      "-1e400",   "12abc", "--1"};

/// A short line that ends with what is expected.
void expect_short(const std::string& line) {
  EXPECT_LE(line.size(), 220U) << line;
  EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  EXPECT_THAT(line, HasSubstr(": found "));
  EXPECT_THAT(line, HasSubstr(", expected "));
}

TEST(NumbersOfOptions, OthersAreRefusedInOneShortLineByEveryCommand) {
  CLI::App all("", "plumbline");
  CommandAction action;
  add_commands(all, action);
  int options = 0;
  for (CLI::App* command : all.get_subcommands({})) {
    for (const CLI::Option* option : command->get_options()) {
      const bool hidden = option->get_group().empty();  // the program gives it to itself
      if (hidden || !takes_number(*option) || option->get_lnames().empty()) continue;
      ++options;
      for (const char* text : kNoNumbers) {
        const std::string argument = fmt::format("--{}={}", option->get_lnames().front(), text);
        SCOPED_TRACE(command->get_name() + " " + argument);
        CLI::App app("", "plumbline");
        add_commands(app, action, command->get_name());
        app.allow_extras();
        std::vector<std::string> words = {argument, command->get_name()};  // the last word first
        try {
          app.parse(words);
          ADD_FAILURE() << "accepted";
        } catch (const CLI::RequiredError&) {
          ADD_FAILURE() << "accepted, before an argument was found to be missing";
        } catch (const CLI::ParseError& error) {
          EXPECT_THAT(error.what(), HasSubstr("--" + option->get_lnames().front()));
          expect_short(usage_error(app, error));
        }
      }
    }
  }
  EXPECT_GT(options, 40);
}

TEST(NumbersOfOptions, OthersAreRefusedInOneShortLineByEveryKey) {
  int keys = 0;
  for (const ConfigKey& key : config_keys()) {
    if (key.expected.find("number") == std::string::npos) continue;
    ++keys;
    for (const char* text : kNoNumbers) {
      SCOPED_TRACE(key.name + " " + text);
      if (key.name == "clip_grad" && text[0] == '9') continue;  // within its range
      const std::string line = test::refusal_of([&] {
        ConfigDraft draft;
        key.parse(draft, {text, "--" + key.flag(), ""});
      });
      expect_short(line);
      EXPECT_THAT(line, HasSubstr("--" + key.flag()));
    }
  }
  EXPECT_GT(keys, 40);
}

TEST_F(SilentMistakes, ACutFileOfRecordsIsNamed) {
  write("matrix.yaml", kModel + std::string("matrix: {micro_batch_size: [1, 2, 4]}\n"));
  ASSERT_EQ(plumbline("matrix matrix.yaml --predict-only --quiet --out out").exit_code, 0) << read("err.txt");
  const std::string whole = read("out/predictions.jsonl");
  const std::size_t first = whole.find('\n') + 1;
  const std::size_t second = whole.find('\n', first) + 1;
  struct Case {
    std::string text;
    int exit_code;
    std::string message;  // empty: none
  };
  const std::string note = "note: cut.jsonl: the last line is incomplete: ";
  const Case cases[] = {
      {whole, 0, ""},
      {whole.substr(0, second), 0, ""},
      {whole.substr(0, second + 1), 0, note + "2 whole records are read\n"},
      {whole.substr(0, whole.size() - 1), 0, note + "2 whole records are read\n"},
      {whole.substr(0, second - 20), 0, note + "1 whole record is read\n"},
      {whole.substr(0, first / 2), 2, "cut.jsonl: found no whole record"},
      {"", 2, "cut.jsonl: found no whole record"},
  };
  for (const Case& c : cases) {
    write("cut.jsonl", c.text);
    for (const char* format : {"table", "csv", "json", "html"}) {
      SCOPED_TRACE(fmt::format("{} bytes, {}", c.text.size(), format));
      const Said said = plumbline(fmt::format("--quiet compare cut.jsonl --format {}", format));
      EXPECT_EQ(said.exit_code, c.exit_code) << said.err;
      if (c.exit_code == 0) {
        EXPECT_EQ(said.err, c.message);
      } else {
        EXPECT_THAT(said.err, HasSubstr(c.message));
      }
    }
  }
}

TEST_F(SilentMistakes, WhatSoftwareOrHardwareLacksIsNamed) {
  struct Case {
    const char* options;
    const char* note;  // empty: none
  };
  const char* as_if = "; predicted as if";
  const Case cases[] = {
      {"--software torchtitan --pipeline-schedule dualpipe",
       "pipeline_schedule: found dualpipe with torchtitan"},
      {"--software megatron-core --pipeline-schedule zb-v",
       "pipeline_schedule: found zb-v with megatron-core"},
      {"--software deepspeed --pipeline-schedule zb-h2", "pipeline_schedule: found zb-h2 with deepspeed"},
      {"--software torchtitan --pipeline-schedule zb-v --make-vocab-size-divisible-by 1", ""},
      {"--software megatron-core", ""},
      {"--pipeline-schedule dualpipe", ""},
      {"--software megatron-2021 --zero-stage 3 --precision fp16", "zero_stage: found 3 with megatron-2021"},
      {"--software megatron-2021 --precision fp16", ""},
      {"--software megatron-core --zero-stage 1", ""},
      {"--hardware v100-sxm-32gb", "precision: found bf16 on v100-sxm-32gb"},
      {"--hardware v100-sxm-16gb --precision bf16", "precision: found bf16 on v100-sxm-16gb"},
      {"--hardware v100-sxm-32gb --precision fp16", ""},
      {"--hardware a100-sxm-80gb --precision bf16", ""},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.options);
    const Said said = plumbline(
        fmt::format("predict gpt2-124m --hardware h100-sxm-80gb --precision bf16 --gpus 8 --pp 4 --gbs 16 {}",
                    c.options));
    EXPECT_EQ(said.exit_code, 0) << said.err;
    EXPECT_THAT(said.err, HasSubstr(c.note));
    EXPECT_EQ(said.err.find(as_if) != std::string::npos, *c.note != '\0') << said.err;
  }
}

TEST_F(SilentMistakes, EmptyAndContradictingValuesAreRefused) {
  struct Case {
    const char* options;
    int exit_code;
    const char* message;
  };
  const Case cases[] = {
      {"--hardware ''", 2, "--hardware: found an empty value, expected"},
      {"--hardware=", 2, "--hardware"},
      {"--set hardware=", 2, "hardware: found an empty value, expected"},
      {"--model ''", 2, "--model: found an empty value, expected"},
      {"--data ''", 2, "--data: found an empty value, expected"},
      {"--tp 2 --set tp=4", 2, "tensor_model_parallel_size: found 4 by --set and 2 by --tp, expected one"},
      {"--tp 2 --set tensor_model_parallel_size=4", 2, "found 4 by --set and 2 by --tp"},
      {"--gpus 2 --set world_size=4", 2, "world_size: found 4 by --set and 2 by --gpus"},
      {"--tp 2 --set tp=2", 0, ""},
      {"--tp 4 --tp 2", 0, ""},
      {"--set tp=4 --set tp=2", 0, ""},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.options);
    const Said said = plumbline(fmt::format("predict run.yaml {}", c.options));
    EXPECT_EQ(said.exit_code, c.exit_code) << said.err;
    EXPECT_THAT(said.err, HasSubstr(c.message));
  }
}

/// A search varies what the configuration file says, and keeps what an option says.
TEST_F(SilentMistakes, ASearchKeepsWhatOptionsGive) {
  struct Case {
    const char* key;
    const char* value;
    const char* moot;  // "key=value" of candidates in which the key has no effect; empty: none
  };
  const Case cases[] = {
      {"tensor_model_parallel_size", "2", ""},
      {"pipeline_model_parallel_size", "4", ""},
      {"micro_batch_size", "1", ""},
      {"context_parallel_size", "1", ""},
      {"expert_model_parallel_size", "1", ""},
      {"virtual_pipeline_chunks", "2", ""},
      {"pipeline_schedule", "gpipe", "pipeline_model_parallel_size=1"},
      {"sequence_parallel", "true", "tensor_model_parallel_size=1"},
      {"sequence_parallel", "false", "tensor_model_parallel_size=1"},
      {"recompute_granularity", "full", ""},
      {"recompute_granularity", "none", ""},
      {"zero_stage", "0", ""},
      {"zero_stage", "2", "data_parallel_size=1"},
      {"vocab_parallel", "vocab-1", "pipeline_model_parallel_size=1"},
      {"layer_distribution", "even", ""},
      {"grad_dtype", "fp32", ""},
      {"grad_dtype", "same", ""},
  };
  const std::string search =
      "search run.yaml --gpus 8 --precision bf16 --hardware h100-sxm-80gb --top 20 --json --quiet --set ";
  for (const Case& c : cases) {
    const std::string setting = fmt::format("{}={}", c.key, c.value);
    SCOPED_TRACE(setting);
    const Said said = plumbline(search + setting);
    ASSERT_EQ(said.exit_code, 0) << said.err;
    const auto json = nlohmann::json::parse(said.out);
    EXPECT_GT(json["best"].size(), 0U);
    for (const char* list : {"best", "front"}) {
      for (const auto& candidate : json[list]) {
        bool found = false;
        for (const auto& [key, value] : candidate["config"].items()) {
          const std::string line = key + "=" + (value.is_string() ? value.get<std::string>() : value.dump());
          found = found || line == setting || line == c.moot;
        }
        EXPECT_TRUE(found) << candidate["config"].dump();
      }
    }
  }
  for (const char* refused :
       {"pipeline_schedule=zb-auto", "tensor_model_parallel_size=3", "micro_batch_size=3",
        "layer_distribution=1,1,1,1", "expert_tensor_parallel_size=2"}) {
    const Said said = plumbline(search + refused);
    EXPECT_EQ(said.exit_code, 2) << refused << ": " << said.out;
    const std::string key = std::string(refused).substr(0, std::string(refused).find('='));
    EXPECT_THAT(said.err, HasSubstr(key));
  }
}

}  // namespace
}  // namespace plumbline::silent_mistakes_test
