// The first lines of `predict`, and what tables and pages say of guesses.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::predict_summary_test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kModel =
    "model: {model_type: qwen2, num_hidden_layers: 4, hidden_size: 64, num_attention_heads: 4,\n"
    "        num_key_value_heads: 2, intermediate_size: 96, vocab_size: 128, max_position_embeddings: 2048,\n"
    "        rms_norm_eps: 1.0e-6, tie_word_embeddings: true}\n"
    "seq_length: 16\nglobal_batch_size: 4\n";

class PredictSummary : public ProgramFolder {
 protected:
  PredictSummary() { write("run.yaml", kModel); }
};

TEST_F(PredictSummary, SaysWhatWasPredictedAndTheVerdict) {
  struct Case {
    const char* question;
    const char* first;  // lines
    const char* verdict;
    int exit_code;
  };
  const Case cases[] = {
      {"llama-3.1-8b --hardware h100-sxm-80gb --gpus 16 --tp 2 --pp 4 --gbs 32 --seq-length 4096 --precision "
       "bf16 "
       "--sequence-parallel true --zero-stage 1 --software megatron-core",
       "llama-3.1-8b, 8.0 B parameters; 16 x h100-sxm-80gb; software megatron-core\n"
       "TP 2, PP 4, CP 1, EP 1, DP 2; 1f1b; sequence parallelism\n"
       "sequence 4096; batch 32 = 2 replicas x 16 micro-batches of 1\n"
       "bf16; ZeRO 1; activation recomputation none\n"
       "step: ",
       ")\nfits: ", 0},
      {"llama-3.1-8b --hardware h100-sxm-80gb --gpus 8 --gbs 8 --seq-length 4096 --precision bf16 --software "
       "torchtitan "
       "--recompute-granularity full",
       "llama-3.1-8b, 8.0 B parameters; 8 x h100-sxm-80gb; software torchtitan\n"
       "TP 1, PP 1, CP 1, EP 1, DP 8\n"
       "sequence 4096; batch 8 = 8 replicas x 1 micro-batches of 1\n"
       "bf16; FSDP; activation recomputation full (1 layer per unit)\n"
       "step: ",
       "%), largest: ", 0},
      {"llama-3.1-8b --hardware gb200 --gpus 8 --gbs 8 --seq-length 4096 --precision bf16 --zero-stage 1 "
       "--fp4-format e2m1 --software megatron-bridge",
       "llama-3.1-8b, 8.0 B parameters; 8 x gb200-nvl72; software megatron-bridge\n"
       "TP 1, PP 1, CP 1, EP 1, DP 8\n"
       "sequence 4096; batch 8 = 8 replicas x 1 micro-batches of 1\n"
       "bf16 with NVFP4 e2m1; ZeRO 1; activation recomputation none\n"
       "step: ",
       ")\nfits: ", 0},
      {"llama-3.1-8b --hardware h100-sxm-80gb --gbs 1 --seq-length 4096 --precision bf16",
       "llama-3.1-8b, 8.0 B parameters; 1 x h100-sxm-80gb; software plumbline\n", "\ndoes not fit: ", 3},
      {"llama-3.1-8b --hardware h100-sxm-80gb --gpus 8 --gbs 8 --seq-length 8192 --precision bf16 "
       "--zero-stage 0 --memory-budget 1TiB",
       "llama-3.1-8b, ", "beyond the device, which memory_budget replaces: ", 0},
      {"run.yaml --pp 2 --memory-budget 600KiB",
       "inline, 0.1 M parameters; 2 ranks on this machine; software plumbline\n", "MiB (", 3},
      {"run.yaml", "inline, 0.1 M parameters; 1 rank on this machine; software plumbline\n", "\nneeds: ", 0},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.question);
    const Said said = plumbline(std::string("predict ") + c.question);
    EXPECT_EQ(said.exit_code, c.exit_code) << said.err;
    EXPECT_THAT(said.out, StartsWith(c.first));
    EXPECT_THAT(said.out, HasSubstr(c.verdict));
    EXPECT_THAT(said.out, HasSubstr("\nrank, "));
  }
}

/// The figures are the record's, and pipeline ranks that are alike are one line.
TEST_F(PredictSummary, HasALinePerPipelineRank) {
  const std::string question =
      "predict llama-3.1-8b --hardware h100-sxm-80gb --gpus 8 --pp 8 --gbs 32 --seq-length 4096 --precision "
      "bf16 "
      "--pipeline-schedule gpipe";
  const Said said = plumbline(question);
  const nlohmann::json record = nlohmann::json::parse(plumbline(question + " --json").out);
  const nlohmann::json& ranks = record["prediction"]["memory"]["ranks"];
  ASSERT_EQ(ranks.size(), 8U);
  const auto figure = [](const nlohmann::json& bytes) {
    return fmt::format("{:.3f}", bytes.get<double>() / (1 << 30));
  };
  for (const auto& [label, row] : {std::pair{"0", 0}, {"1-6", 1}, {"7", 7}}) {
    EXPECT_THAT(said.out, ContainsRegex(fmt::format("\n{} +{} ", label, figure(ranks[row]["total_bytes"]))))
        << said.out;
    EXPECT_THAT(said.out,
                HasSubstr(figure(record["prediction"]["device_memory"]["ranks"][row]["total_bytes"])));
  }
}

/// Receives posted ahead show in memory if a peak holds one, and else are named (bench/training/overlap.md).
TEST_F(PredictSummary, NamesReceivesAheadThatChangeNothing) {
  for (const auto& [schedule, named] :
       {std::pair{"1f1b", false}, {"gpipe", false}, {"zb-h1", true}, {"zb-h2", true}, {"zb-auto", true}}) {
    SCOPED_TRACE(schedule);
    const std::string question = fmt::format(
        "predict llama-3.1-8b --hardware h100-sxm-80gb --gpus 4 --pp 4 --gbs 16 --seq-length 1024 --json "
        "--pipeline-schedule {} --overlap-p2p-comm ",
        schedule);
    const Said with = plumbline(question + "true");
    const Said without = plumbline(question + "false");
    const auto figures = [](const Said& said) { return nlohmann::json::parse(said.out)["prediction"]; };
    EXPECT_EQ(figures(with) == figures(without), named);
    EXPECT_EQ(with.err.find("note: overlap_p2p_comm: found true, without effect") != std::string::npos, named)
        << with.err;
    EXPECT_THAT(without.err, Not(HasSubstr("overlap_p2p_comm")));
  }
}

TEST_F(PredictSummary, TablesAndPagesSayGuess) {
  struct Case {
    const char* options;
    bool guessed;
  };
  for (const Case& c : {Case{"", true}, Case{"--hardware h100-sxm-80gb", false}}) {
    SCOPED_TRACE(c.options);
    const std::string folder = c.guessed ? "guessed" : "named";
    const Said made =
        plumbline(fmt::format("matrix run.yaml --predict-only --quiet --out {} {}", folder, c.options));
    ASSERT_EQ(made.exit_code, 0) << made.err;
    for (const char* format : {"table", "html"}) {
      const Said said = plumbline(fmt::format("compare {}/predictions.jsonl --format {}", folder, format));
      ASSERT_EQ(said.exit_code, 0) << said.err;
      EXPECT_EQ(said.out.find("guess: generic rates, as the machine was not calibrated") != std::string::npos,
                c.guessed)
          << format;
      EXPECT_EQ(said.out.find(std::string(format) == "html" ? ">guess " : "  guess ") != std::string::npos,
                c.guessed)
          << format;
    }
  }
}

}  // namespace
}  // namespace plumbline::predict_summary_test
