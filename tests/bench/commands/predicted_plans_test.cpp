// Plans for other software: as a table, a page, CSV for other programs, and drawn.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::predicted_plans_test {
namespace {

using testing::HasSubstr;
using testing::Not;

class PredictedPlans : public ProgramFolder {
 protected:
  PredictedPlans() {
    write(
        "plan.yaml",
        "model: llama-3.1-8b\nhardware: h100-sxm-80gb\nworld_size: 8\nseq_length: 4096\n"
        "global_batch_size: 8\nprecision: bf16\nmatrix:\n  software: [plumbline, megatron-core, torchtitan]\n"
        "  tensor_model_parallel_size: [1, 4]\n");
  }
};

TEST_F(PredictedPlans, EverySoftwareIsOneTableOnePageOneCsv) {
  const Said table = plumbline("matrix plan.yaml --predict-only --out out --quiet");
  EXPECT_EQ(table.exit_code, 0) << table.err;
  for (const char* part : {"tokens/s/GPU", "TFLOP/s/GPU", "MFU %", "of device %", "megatron-core  ",
                           "torchtitan  ", "fastest predicted cell that fits: #"})
    EXPECT_THAT(table.out, HasSubstr(part));
  EXPECT_THAT(table.out, Not(HasSubstr("measured")));
  EXPECT_THAT(table.out, Not(HasSubstr("unsupported")));
  // Without sharding, the optimizer alone is too large for one card.
  EXPECT_THAT(table.out, HasSubstr("oom: predicted not to fit: rank 0 needs "));
  EXPECT_THAT(table.out, HasSubstr(", largest: optimizer "));

  const Said json = plumbline("compare out --format json");
  const auto records = nlohmann::json::parse(json.out);
  ASSERT_EQ(records.size(), 6U);
  for (const auto& record : records) {
    SCOPED_TRACE(record["id"]);
    EXPECT_GT(record["prediction"]["throughput"]["tokens_per_s_per_gpu"], 0);
    EXPECT_GT(record["prediction"]["device_memory"]["device_bytes"], std::int64_t{1} << 36);
  }
  const Said csv = plumbline("compare out --format csv");
  for (const char* header : {",predicted_tokens_per_s_per_gpu,", ",predicted_model_tflops_per_gpu,",
                             ",predicted_mfu,", ",predicted_device_share,"})
    EXPECT_THAT(csv.out, HasSubstr(header));
  const Said page = plumbline("compare out --format html");
  EXPECT_EQ(page.exit_code, 0) << page.err;
  EXPECT_THAT(page.out, HasSubstr("Fastest that fits, tokens/s/GPU"));
  EXPECT_THAT(page.out, HasSubstr(">TFLOP/s/GPU</button>"));
  EXPECT_THAT(page.out, Not(HasSubstr(">measured</button>")));

  const Said oom = plumbline("oom plan.yaml --predict-only --out oom --quiet");
  EXPECT_EQ(oom.exit_code, 0) << oom.err;
  EXPECT_THAT(oom.out, Not(HasSubstr("unsupported")));
}

TEST_F(PredictedPlans, AMatrixNamesItsBaseline) {
  const std::string start =
      "model: llama-3.1-8b\nhardware: h100-sxm-80gb\nsoftware: megatron-core\nworld_size: 8\nseq_length: "
      "4096\n"
      "global_batch_size: 8\nmatrix:\n  precision: [bf16, fp8]\n  tensor_model_parallel_size: [4, 8]\n";
  write("fp8.yaml", start + "baseline: {precision: bf16}\n");
  const Said table = plumbline("matrix fp8.yaml --predict-only --out out --quiet");
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("speed-up over the baseline"));
  const auto records = nlohmann::json::parse(plumbline("compare out --format json").out);
  ASSERT_EQ(records.size(), 4U);
  for (int i : {0, 1}) {
    EXPECT_EQ(records[i]["baseline"], records[i]["id"]);
    EXPECT_EQ(records[i + 2]["baseline"], records[i]["id"]);  // of the same tensor size
  }
  EXPECT_THAT(plumbline("compare out").out, HasSubstr("speed-up over the baseline"));
  struct Case {
    const char* baseline;
    const char* says;
  };
  for (const Case& c :
       {Case{"baseline: {precision: fp16}\n", "baseline: precision: found \"fp16\", expected a value"},
        Case{"baseline: bf16\n", "expected a mapping of keys that the matrix varies"},
        Case{"baseline: {zero_stage: 1}\n", "baseline: zero_stage: found \"1\""}}) {
    write("wrong.yaml", start + c.baseline);
    const Said wrong = plumbline("matrix wrong.yaml --predict-only --out wrong");
    EXPECT_EQ(wrong.exit_code, 2) << c.baseline;
    EXPECT_THAT(wrong.err, HasSubstr(c.says));
  }
}

TEST_F(PredictedPlans, InlineModelsAreCalledAfterWhatDiffers) {
  const std::string model =
      "model_type: qwen2, num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 96, vocab_size: "
      "128, "
      "max_position_embeddings: 64, rms_norm_eps: 1.0e-6, tie_word_embeddings: true, hidden_size: 64, "
      "num_hidden_layers: ";
  write("models.yaml", "seq_length: 16\nmatrix:\n  model:\n    - {" + model + "2}\n    - {" + model + "4}\n");
  const Said table = plumbline("matrix models.yaml --predict-only --out out --quiet");
  EXPECT_EQ(table.exit_code, 0) << table.err;
  for (const char* name : {"inline num_hidden_layers", "model"}) EXPECT_THAT(table.out, HasSubstr(name));
  const auto records = nlohmann::json::parse(plumbline("compare out --format json").out);
  EXPECT_EQ(records[0]["config"]["model"], "inline num_hidden_layers 2");
  EXPECT_EQ(records[1]["config"]["model"], "inline num_hidden_layers 4");
}

TEST_F(PredictedPlans, TimelinesOfManyCellsAreLeftOut) {
  std::string batches = "1";
  for (int i = 2; i <= 501; ++i) batches += ", " + std::to_string(i);
  write("many.yaml",
        "model: gpt2-124m\nhardware: h100-sxm-80gb\nseq_length: 64\nmatrix: {global_batch_size: [" + batches +
            "]}\n");
  struct Case {
    const char* file;
    const char* option;
    bool kept;
  };
  for (const Case& c :
       {Case{"many.yaml", "", false}, Case{"plan.yaml", "", true},
        Case{"plan.yaml", "--timelines never", false}, Case{"plan.yaml", "--timelines always", true}}) {
    SCOPED_TRACE(std::string(c.file) + c.option);
    std::filesystem::remove_all(folder_ / "out");
    const Said said =
        plumbline(fmt::format("matrix {} --predict-only --out out --quiet {}", c.file, c.option));
    EXPECT_EQ(said.exit_code, 0) << said.err;
    EXPECT_EQ(std::filesystem::exists(folder_ / "out/timelines"), c.kept);
    EXPECT_EQ(said.err.find("note: no timelines are kept of 501 cells") != std::string::npos,
              std::string(c.file) == "many.yaml");
  }
}

TEST_F(PredictedPlans, AStepOfAnySoftwareIsDrawn) {
  for (const char* software : {"plumbline", "megatron-core", "torchtitan"}) {
    SCOPED_TRACE(software);
    const Said said = plumbline(
        fmt::format("predict llama-3.1-8b --hardware h100-sxm-80gb --software {} --tp 4 --pp 4 --gbs 8 "
                    "--seq-length 4096 --precision bf16 --timeline --svg t.svg --trace t.json",
                    software));
    EXPECT_EQ(said.exit_code, 0) << said.err;
    EXPECT_THAT(said.out, HasSubstr("predicted"));
    EXPECT_THAT(said.out, HasSubstr("F7"));  // the last micro-batch's forward
    EXPECT_THAT(read("t.svg"), testing::StartsWith("<svg"));
    EXPECT_GT(nlohmann::json::parse(read("t.json"))["traceEvents"].size(), 64U);
    for (const char* file : {"t.svg", "t.json"}) std::filesystem::remove(folder_ / file);
  }
}

TEST_F(PredictedPlans, WhatCannotBeDrawnSaysSo) {
  struct Case {
    const char* arguments;
    std::vector<const char*> says;
  };
  const std::vector<Case> cases = {
      {"predict llama-3.1-8b --hardware h100-sxm-80gb --gbs 1000000 --trace t.json",
       {"--trace: found a step of", "expected at most 1000000", "global_batch_size"}},
      {"predict --parameters 7e9 --timeline", {"--parameters with --timeline", "expected a CONFIG"}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.arguments);
    const Said said = plumbline(c.arguments);
    EXPECT_EQ(said.exit_code, 2);
    for (const char* part : c.says) EXPECT_THAT(said.err, HasSubstr(part));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "t.json"));
  }
}

}  // namespace
}  // namespace plumbline::predicted_plans_test
