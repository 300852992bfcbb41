// Settings decide the prediction of a published run: those that its row states, implies or leaves open.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "analysis/published/published.hpp"
#include "bench/plan/schedule_makers.hpp"

namespace plumbline::published_settings_test {
namespace {

using testing::HasSubstr;

PublishedTable table_of(const std::string& csv, const std::string& header = "") {
  PublishedTable table = parse_published(csv, "my_runs", "my_runs.csv");
  table.header = parse_header(header, "my_runs.yaml");
  return table;
}

ComparedTable compared(const std::string& csv, const std::string& header = "") {
  return compare_table(table_of(csv, header), built_in_profiles(), schedule_makers());
}

constexpr const char* kHeader =
    "defaults:\n  hardware: h100-sxm-80gb\n  software: torchtitan-compile\n  model: llama-3.1-8b\n"
    "  seq_length: 8192\n  zero_stage: 3\n  mbs: 2\n";

TEST(PublishedSettings, ModelAndSoftwareSayWhatARowDoesNot) {
  struct Case {
    const char* model;
    const char* software;
    const char* predicted;
    CpCommType exchange;
  };
  for (const Case& c : {Case{"gpt2-124m", "torchtitan", "llm-foundry", CpCommType::all_gather},
                        Case{"gpt2-124m", "torchtitan-compile", "torchtitan-compile", CpCommType::all_gather},
                        Case{"llama-3.1-8b", "torchtitan", "torchtitan", CpCommType::all_gather},
                        Case{"gpt2-124m", "megatron-core", "megatron-core", CpCommType::p2p}}) {
    const PublishedTable table = table_of(
        fmt::format("model,software,gpus,gbs,step_s,seq_length\n{},{},8,16,2,1024\n", c.model, c.software),
        kHeader);
    const RunConfig config = read_runs(table).runs.at(0).config;
    EXPECT_EQ(config.machine.software, c.predicted) << c.model << c.software;
    EXPECT_EQ(config.parallel.cp.comm_type, c.exchange) << c.model << c.software;
  }
}

TEST(PublishedSettings, RealRoutingOfDeepSeekLeavesAlignmentOpen) {
  struct Case {
    const char* model;
    const char* flags;
    const char* column;
    const char* choice;
  };
  for (const Case& c : {Case{"deepseek-v3", "moe_routing real", "", "align_param_gather false"},
                        Case{"deepseek-v3", "moe_routing real", "true", ""}, Case{"deepseek-v3", "", "", ""},
                        Case{"mixtral-8x7b", "moe_routing real", "", ""}}) {
    const PublishedTable table = table_of(
        fmt::format("model,gpus,gbs,step_s,other_flags,align_param_gather\n{},64,64,2,{},{}\n", c.model,
                    c.flags, c.column),
        "defaults:\n  hardware: gb200-nvl72\n  software: megatron-bridge\n  seq_length: 4096\n  mbs: 1\n"
        "  precision: bf16\n  zero_stage: 1\n");
    const PublishedRun run = read_runs(table).runs.at(0);
    EXPECT_EQ(run.choice, c.choice) << c.model << c.flags << c.column;
    EXPECT_EQ(run.config.parallel.dp.align_param_gather, run.choice.empty());
  }
}

struct OpenCase {
  const char* columns;  // besides gpus, gbs and step_s
  const char* cells;
  const char* choice;  // of the likeliest value
  std::size_t others;
};

// Open settings: every value that makes a valid configuration, likeliest first.
TEST(PublishedSettings, SettingsThatARowLeavesOpenAreReadWithEachValue) {
  const OpenCase cases[] = {
      {"mbs", "unstated", "micro_batch_size 1", 1},  // 4 and 8 do not divide a replica's 2 sequences
      {"mbs", "2 or 1", "micro_batch_size 2", 1},
      {"recompute_granularity", "unstated", "recompute_granularity none", 2},
      {"cuda_graph_impl", "unstated", "cuda_graph_impl none", 1},
      {"cuda_graph_impl,tp", "full_iteration or none,2 or 1",
       "cuda_graph_impl full_iteration, tensor_model_parallel_size 2", 3},
      {"cuda_graph_impl,mbs", "unstated,unstated", "cuda_graph_impl none, micro_batch_size 1", 3},
      {"mbs,label", "2,this or that", "", 0},
  };
  const std::string header =
      "defaults:\n  hardware: h100-sxm-80gb\n  software: megatron-core\n  model: llama-3.1-8b\n"
      "  seq_length: 4096\n  zero_stage: 1\n  mbs: 1\n";
  for (const OpenCase& c : cases) {
    const std::string text = fmt::format("gpus,gbs,step_s,{}\n8,16,2,{}\n", c.columns, c.cells);
    const PublishedRuns read = read_runs(table_of(text, header));
    ASSERT_EQ(read.runs.size(), 1u) << text << read.skipped.front().reason;
    EXPECT_EQ(read.runs[0].choice, c.choice) << text;
    EXPECT_EQ(read.runs[0].others.size(), c.others) << text;
  }
  const auto reason = [&](const std::string& text) {
    return read_runs(table_of(text, header)).skipped.at(0).reason;
  };
  EXPECT_THAT(reason("gpus,num_microbatches,tokens_per_s,mbs\n8,4,9000,unstated\n"),
              HasSubstr("not modelled yet: micro_batch_size unstated"));
  EXPECT_THAT(reason("gpus,gbs,step_s,mbs\n8,16,2,3 or 5\n"), HasSubstr("global_batch_size: found 16"));
  EXPECT_THAT(reason("gpus,gbs,step_s,mbs,tp,pp,cp\n8,16,2,unstated,1 or 2 or 4,1 or 2 or 4,1 or 2\n"),
              HasSubstr("found 72 readings of the row, expected at most 64"));
}

// The figures are those of the likeliest value that fits; low and high are over all that fit.
TEST(PublishedSettings, PredictionsSpanTheValuesOfOpenSettings) {
  const std::string header =
      "defaults:\n  hardware: h200-sxm-141gb\n  software: megatron-core\n  model: llama-3.1-8b\n"
      "  zero_stage: 1\n  gpus: 8\n  gbs: 64\n";
  const auto row = [&](const std::string& columns, const std::string& cells) {
    const ComparedTable table = compared(fmt::format("step_s,{}\n2,{}\n", columns, cells), header);
    EXPECT_EQ(table.rows.size(), 1u) << cells;
    return table.rows.at(0);
  };
  // Short sequences wait for the host, unless graphs launch their operators.
  const std::string graphs = "seq_length,mbs,cuda_graph_impl";
  const ComparedRow open = row(graphs, "512,1,unstated");
  const ComparedRow without = row(graphs, "512,1,none");
  const ComparedRow with = row(graphs, "512,1,full_iteration");
  EXPECT_EQ(open.predicted, without.predicted);
  EXPECT_EQ(open.low(), with.predicted);
  EXPECT_EQ(open.high(), without.predicted);
  EXPECT_TRUE(open.spread.open());
  EXPECT_FALSE(with.spread.open());
  EXPECT_EQ(with.low(), with.predicted);
  EXPECT_EQ(open.traits.settings.at("cuda_graph_impl"), "unstated");
  EXPECT_EQ(row(graphs, "512,1,full_iteration or none").predicted, with.predicted);
  // Eight sequences at once need full recomputation.
  const std::string recomputation = "seq_length,mbs,recompute_granularity";
  const ComparedRow large = row(recomputation, "8192,8,unstated");
  EXPECT_EQ(large.predicted, row(recomputation, "8192,8,full").predicted);
  EXPECT_EQ(large.choice, "recompute_granularity full");
  EXPECT_FALSE(large.spread.open());
}

/// The table under another name, with other titles, labels, sources and notes.
PublishedTable renamed(PublishedTable table) {
  static int number = 0;
  table.name = fmt::format("table_{}", ++number);
  table.header.title = table.header.source = table.header.label = "";
  table.header.defaults["source"] = "another page";
  table.header.defaults.erase("note");
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    const std::string& name = table.columns[column];
    if (name != "label" && name != "source" && name != "note") continue;
    for (std::vector<std::string>& row : table.rows) row[column] = fmt::format("text {}", ++number);
  }
  return table;
}

std::string predictions(const PublishedTable& table) {
  std::string text;
  const ComparedTable compared = compare_table(table, built_in_profiles(), schedule_makers());
  for (const ComparedRow& row : compared.rows)
    text +=
        fmt::format("{} {} {} {} {}\n", row.quantity, row.predicted, row.low(), row.high(), row.published);
  return text + fmt::format("{} skipped\n", compared.skipped.size());
}

// Settings decide a prediction: no list of known files, rows or pages does.
TEST(PublishedSettings, NamesOfTablesAndRowsDecideNothing) {
  std::vector<PublishedTable> tables = built_in_tables();
  const std::string others = std::string(PLUMBLINE_SOURCE_DIR) + "/../shared/published/2026-11";
  if (std::filesystem::exists(others)) {
    for (PublishedTable& table : read_tables(others)) tables.push_back(std::move(table));
  }
  for (const PublishedTable& table : tables)
    EXPECT_EQ(predictions(renamed(table)), predictions(table)) << table.name;
}

}  // namespace
}  // namespace plumbline::published_settings_test
