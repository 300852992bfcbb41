// Published tables: reading them, damaged ones included, and how close the model comes to those shipped.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "analysis/hardware/embedded.hpp"
#include "analysis/hardware/hardware.hpp"
#include "analysis/predict/predict.hpp"
#include "analysis/published/comparable_runs.hpp"
#include "analysis/published/dialect/row_cells.hpp"
#include "analysis/published/known_runs.hpp"
#include "analysis/published/predict_run.hpp"
#include "analysis/published/published.hpp"
#include "analysis/published/published_formulas.hpp"
#include "analysis/published/run_changes.hpp"
#include "bench/plan/plan.hpp"
#include "bench/plan/schedule_makers.hpp"
#include "bench/show/views/published_errors.hpp"
#include "bench/show/views/validate_report.hpp"
#include "core/base/byte_text.hpp"
#include "core/base/error.hpp"
#include "core/config_text/load_config.hpp"

namespace plumbline::cluster_published_test {
namespace {

const std::vector<ComparedTable>& shipped() {
  static const std::vector<ComparedTable> kTables = [] {
    std::vector<ComparedTable> tables;
    for (const PublishedTable& table : built_in_tables()) {
      tables.push_back(compare_table(table, built_in_profiles(), schedule_makers()));
    }
    return tables;
  }();
  return kTables;
}

struct Goal {
  const char* table;
  const char* quantity;
  double mape;
};

TEST(Published, MeanErrorsAreWithinTheirGoals) {
  const Goal goals[] = {
      {"megatron_sc21_table1", "step_s", 0.026},
      {"megatron_sc21_table2", "step_s", 0.025},
      {"korthikanti_table5", "step_s", 0.04},
      {"vocab_parallel_table5_1f1b", "step_s", 0.033},
      {"vocab_parallel_table6_vhalf", "step_s", 0.05},
      {"zero_bubble_table4", "step_s", 0.042},
      {"torchtitan_llama31_h100", "step_s", 0.041},
      {"torchtitan_llama31_h100", "peak_bytes", 0.06},
      {"vocab_parallel_table5_1f1b", "peak_bytes", 0.011},
      {"vocab_parallel_table6_vhalf", "peak_bytes", 0.04},
      {"zero_bubble_table4", "peak_bytes", 0.017},
      {"zero_bubble_table5", "bubble_rate", 0.001},
      {"schedule_formulas", "step_of_formula", 0.01},
      {"schedule_formulas", "microbatches_held", 0.02},
      {"vocab_parallel_table3_scaling", "output_percent", 0.10},
      {"korthikanti_fig1_memory_gib", "state_bytes", 1e-6},
      {"korthikanti_fig1_memory_gib", "activation_bytes", 1e-6},
      {"korthikanti_fig7_activation_percent", "activation_percent", 0.01},
  };
  std::map<std::string, const ComparedTable*> by_name;
  for (const ComparedTable& table : shipped()) by_name[table.name] = &table;
  for (const Goal& goal : goals) {
    ASSERT_EQ(by_name.count(goal.table), 1u) << goal.table;
    const Errors errors = errors_of(by_name[goal.table]->rows, goal.quantity);
    EXPECT_GT(errors.rows, 0) << goal.table;
    EXPECT_LE(errors.mape, goal.mape) << goal.table << ' ' << goal.quantity;
  }
}

// A published run did run, so the verdict must be that it fits. Exceptions: table of
// analysis/memory/README.md. There must not be more of them.
TEST(Published, TheVerdictOnRunsThatRan) {
  int ran = 0;
  int tensors_alone = 0;   // refused if tensors were compared with the device less its reserved_bytes
  int without_margin = 0;  // refused by device memory
  int refused = 0;         // with the allocator's margin
  std::string lines;
  for (const PublishedTable& table : built_in_tables()) {
    if (formula_reader(table) != nullptr || !holds_runs(table)) continue;
    for (const PublishedRun& run : read_runs(table).runs) {
      PredictedRun predicted;
      try {
        predicted = predict_run(run, built_in_profiles(), schedule_makers());
      } catch (const InputError&) {
        continue;
      }
      if (!predicted.unmodelled.empty()) continue;
      ++ran;
      const Fit& fit = predicted.fit;
      EXPECT_TRUE(fit.by_device) << run.label;
      const double margin =
          built_in_profiles().generation(run.config.machine.software).memory.allocator_share *
          static_cast<double>(fit.tensors.value);
      tensors_alone += fit.tensors > find_hardware_preset(run.config.machine.hardware)->memory ? 1 : 0;
      without_margin += static_cast<double>((fit.needed - fit.limit).value) > margin ? 1 : 0;
      if (fit.fits) continue;
      ++refused;
      lines += fmt::format("\n{}: {}: needs {} of {}", table.name, run.label, brief_bytes(fit.needed),
                           brief_bytes(fit.limit));
    }
  }
  RecordProperty("ran", ran);
  RecordProperty("tensors_alone", tensors_alone);
  RecordProperty("without_margin", without_margin);
  EXPECT_GT(ran, 800);
  EXPECT_LE(refused, 16) << "of " << ran << lines;
  EXPECT_LE(tensors_alone, without_margin);
  EXPECT_EQ(without_margin, refused) << "the margin, a guess, refuses runs that ran" << lines;
}

// arXiv:2504.14960 table 3: Llama3-8x70B with tensor, expert and data parallelism (ZeRO-1) ran out of memory
// on 256 H100. Its sizes are not printed; these are those of the other rows.
TEST(Published, TheVerdictOnARunThatRanOutOfMemory) {
  const std::string model =
      R"({"model_type": "mixtral", "num_hidden_layers": 80, "hidden_size": 8192, "num_attention_heads": 64,
      "num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 128256,
       "max_position_embeddings": 8192,
      "rms_norm_eps": 1e-5, "num_local_experts": 8, "num_experts_per_tok": 2, "tie_word_embeddings": false})";
  for (const char* slices : {"0", "1"}) {
    RunConfig config = load_run_config("", {{"model", model, ""},
                                            {"hardware", "h100-sxm-80gb", ""},
                                            {"software", "megatron-core-2025", ""},
                                            {"world_size", "256", ""},
                                            {"tensor_model_parallel_size", "8", ""},
                                            {"expert_model_parallel_size", "8", ""},
                                            {"expert_tensor_parallel_size", slices, ""},
                                            {"sequence_parallel", "true", ""},
                                            {"zero_stage", "1", ""},
                                            {"global_batch_size", "256", ""},
                                            {"seq_length", "4096", ""},
                                            {"precision", "bf16", ""}});
    const Fit fit = predict(config, step_for(config), load_hardware("h100-sxm-80gb")).fit;
    EXPECT_TRUE(fit.by_device);
    EXPECT_FALSE(fit.fits) << slices << ": " << brief_bytes(fit.needed) << " of " << brief_bytes(fit.limit);
  }
}

bool shares_sequences(const ComparedRow& row) {
  return row.traits.parallelism.find("cp") != std::string::npos;
}

// Dense runs of 2023 to 2026 without context parallelism or overlapped tensor-parallel collectives.
TEST(Published, DenseRunsOfRecentYearsAreWithinTenPercent) {
  const char* const tables[] = {
      "dense_megatron_bridge_perf", "dense_nemo_2407_h100", "dense_torchtitan_extra",
      "dgxc_recipes_h100_gb200",    "mlperf_pretrain",      "simumax_b200_measured"};
  std::vector<ComparedRow> rows;
  for (const ComparedTable& table : shipped()) {
    if (std::find(std::begin(tables), std::end(tables), table.name) == std::end(tables)) continue;
    for (const ComparedRow& row : table.rows) {
      if (row.traits.tensor <= 2 && !shares_sequences(row) && !row.traits.kind.mixture) rows.push_back(row);
    }
  }
  const Errors time = errors_of(rows, "step_s");
  EXPECT_GE(time.rows, 55);
  EXPECT_LE(time.median, 0.10);
  EXPECT_LE(time.mape, 0.10);
  EXPECT_LE(errors_of(rows, "peak_bytes").median, 0.10);
}

// Dense pretraining of 2023 to 2026 with sequences over several ranks: no constant was fitted to these rows.
TEST(Published, RunsWithContextParallelismAreWithinTenPercent) {
  std::vector<ComparedRow> rows;
  for (const ComparedTable& table : shipped()) {
    for (const ComparedRow& row : table.rows) {
      if (shares_sequences(row) && !row.traits.kind.mixture) rows.push_back(row);
    }
  }
  const Errors time = errors_of(rows, "step_s");
  RecordProperty("median", std::to_string(time.median));
  EXPECT_GE(time.rows, 90);
  EXPECT_LE(time.median, 0.07);
  EXPECT_LE(time.mape, 0.08);
}

struct MixtureGoal {
  const char* of;  // prefix of labels or software; empty: all
  const char* quantity;
  int rows;
  double median;
  double mape;
};

// Experts spread over ranks, even load: no constant was fitted to these rows. DeepSeek-V3's were within 5 %
// before steps waited for the slowest GPU.
TEST(Published, MixturesOfExpertsAreWithinElevenPercent) {
  const MixtureGoal goals[] = {
      {"", "step_s", 110, 0.105, 0.135},        {"DeepSeekV3", "step_s", 22, 0.06, 0.06},
      {"Qwen3_235B", "step_s", 18, 0.06, 0.12}, {"Qwen3_30B", "step_s", 30, 0.14, 0.17},
      {"Kimi", "step_s", 3, 0.10, 0.10},        {"Grok1", "step_s", 28, 0.11, 0.12},
      {"deepseekv", "step_s", 6, 0.10, 0.10},   {"deepseekv", "peak_bytes", 2, 0.015, 0.015},
  };
  for (const MixtureGoal& goal : goals) {
    std::vector<ComparedRow> rows;
    for (const ComparedTable& table : shipped()) {
      for (const ComparedRow& row : table.rows) {
        if (row.traits.kind.mixture && row.label.starts_with(goal.of)) rows.push_back(row);
      }
    }
    const Errors errors = errors_of(rows, goal.quantity);
    EXPECT_GE(errors.rows, goal.rows) << goal.of;
    EXPECT_LE(errors.median, goal.median) << goal.of;
    EXPECT_LE(errors.mape, goal.mape) << goal.of;
  }
}

// 15B to 340B in bf16 and FP8: no constant was fitted to these rows.
TEST(Published, NemotronIsWithinSixPercent) {
  std::vector<ComparedRow> rows;
  for (const ComparedTable& table : shipped()) {
    for (const ComparedRow& row : table.rows) {
      if (row.label.starts_with("Nemotron")) rows.push_back(row);
    }
  }
  const Errors time = errors_of(rows, "step_s");
  EXPECT_GE(time.rows, 47);
  EXPECT_LE(time.mape, 0.06);
}

// LoRA on Llama 2 70B, H100 to GB300, in FP8 and NVFP4: no constant was fitted to these rows.
TEST(Published, AdaptersOfMlperfAreWithinSevenPercent) {
  for (const ComparedTable& table : shipped()) {
    if (table.name != "mlperf_llama2_70b_lora") continue;
    const Errors time = errors_of(table.rows, "step_s");
    EXPECT_GE(time.rows, 55);
    EXPECT_LE(time.median, 0.06);
    EXPECT_LE(time.mape, 0.07);
  }
}

// The peak of Megatron-LM's functional tests, printed to the byte.
TEST(Published, PeaksOfMegatronsTestsAreWithinTwoPercent) {
  std::vector<ComparedRow> dense;
  std::vector<ComparedRow> mixtures;
  for (const ComparedTable& table : shipped()) {
    if (table.name != "megatron_golden_small_memory") continue;
    for (const ComparedRow& row : table.rows) (row.traits.kind.mixture ? mixtures : dense).push_back(row);
  }
  const Errors peak = errors_of(dense, "peak_bytes");
  EXPECT_GE(peak.rows, 95);
  EXPECT_LE(peak.median, 0.02);
  EXPECT_LE(peak.p90, 0.06);
  const Errors spread = errors_of(mixtures, "peak_bytes");
  EXPECT_GE(spread.rows, 15);
  EXPECT_LE(spread.median, 0.06);
}

// errors.py --check compares the file with what validate finds; here only how it is read.
TEST(Published, ErrorsBySoftwareAreKnown) {
  const KnownErrors dense = known_errors("megatron-core-2025", false);
  ASSERT_TRUE(dense.step && dense.peak);
  EXPECT_GT(dense.step->rows, 5);
  EXPECT_LT(dense.step->mean, 0.3);
  EXPECT_FALSE(known_errors("no such software", false).step);
  EXPECT_FALSE(known_errors("megatron-2021", true).step) << "it trained no mixture";
}

TEST(Published, ZeroTableIsExactToItsPrintedDigits) {
  for (const ComparedTable& table : shipped()) {
    if (table.name != "zero_table1_memory_gb") continue;
    EXPECT_EQ(table.rows.size(), 54u);
    for (const ComparedRow& row : table.rows) {
      // Printed with two to five digits; the last one may be truncated or rounded.
      const double unit = row.published >= 1e11 ? 1e9 : (row.published >= 2e9 ? 1e8 : 1e7);
      EXPECT_NEAR(row.predicted, row.published, unit) << row.label;
    }
  }
}

TEST(Published, JsonHasTheContractsKeys) {
  const nlohmann::json json = nlohmann::json::parse(validation_json(shipped()));
  for (const nlohmann::json& table : json.at("tables")) {
    for (const char* key :
         {"name", "rows", "mape", "bias", "p90", "worst", "regret", "quantities", "comparisons", "skipped"}) {
      EXPECT_TRUE(table.contains(key)) << key;
    }
    for (const nlohmann::json& row : table.at("skipped")) {
      EXPECT_TRUE(row.at("row").is_number_integer() || row.at("row").is_null());
      EXPECT_FALSE(row.at("reason").get<std::string>().empty());
    }
    if (table.at("name") == "megatron_sc21_table2") {
      EXPECT_EQ(table.at("skipped").size(), 3u);
    }
  }
  for (const char* key : {"source", "hardware", "software", "precision", "parallelism"}) {
    EXPECT_FALSE(json.at("groups").at(key).empty()) << key;
    EXPECT_THAT(validation_groups_text(shipped(), key), testing::HasSubstr("step_s"));
  }
  EXPECT_THROW(validation_groups_text(shipped(), "colour"), InputError);
  EXPECT_GE(json.at("not_modelled").at("software deepspeed-2021"), 3);
  EXPECT_THAT(validation_svg(shipped()), testing::StartsWith("<svg"));
  EXPECT_THAT(validation_text(shipped(), true), testing::HasSubstr("korthikanti_table5"));
}

// Share of predictions that change in the same direction as the source's two runs, and of a table's rows
// inside the other tables' 80 % intervals.
TEST(Published, ChangesAndIntervalsHold) {
  int scored = 0;
  int right = 0;
  for (const ChangeErrors& errors : errors_of_changes(run_changes(shipped()))) {
    scored += errors.scored;
    right += errors.right;
  }
  EXPECT_GE(scored, 500);
  EXPECT_GE(right, 0.95 * scored);
  for (const char* quantity : {"step_s", "peak_bytes"}) {
    int rows = 0;
    int inside = 0;
    for (const HeldOutTable& table : hold_out_tables(shipped(), known_runs(), quantity)) {
      rows += table.rows;
      inside += table.inside;
    }
    EXPECT_GE(inside, 0.75 * rows) << quantity;
    // For peaks it is too wide: other sources print reserved memory.
    const double most = quantity == std::string("step_s") ? 0.90 : 1;
    EXPECT_LE(inside, most * rows) << quantity;
  }
  for (const ComparedTable& table : shipped()) EXPECT_LE(table.regret.value_or(0), 0.04) << table.name;
}

TEST(Published, RegretIsWhatTheChoiceCosts) {
  const std::string columns =
      "# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,tensor "
      "parallelism,"
      "data parallelism,pipeline parallelism,iteration time (ms)\n";
  // The model predicts data parallelism as the best here; the table gives it twice the best time.
  const std::string text = columns +
                           "8,32,1,1024,16,16,1024,8,1,1,500\n8,32,4,1024,16,16,1024,1,8,1,1000\n"
                           "8,32,1,1024,16,16,1024,4,2,1,700\n";
  PublishedTable table = parse_published(text, "vtrain_ground_truth_single", "test");
  table.header =
      parse_header(std::string(embedded_text(analysis_files(), "vtrain_ground_truth_single.yaml")), "test");
  const ComparedTable compared = compare_table(table, built_in_profiles(), schedule_makers());
  ASSERT_TRUE(compared.regret);
  EXPECT_EQ(compared.sweeps, 1);
  EXPECT_DOUBLE_EQ(*compared.regret, 1.0);
}

TEST(Published, DamagedTablesAreRefusedInOneLine) {
  EXPECT_THROW(parse_published("", "t", "t"), InputError);
  EXPECT_THROW(parse_published("a,b\n1,2,3\n", "t", "t"), InputError);
  EXPECT_THROW(parse_published(std::string(1000, ','), "t", "t"), InputError);
  EXPECT_THROW(read_tables("/nowhere/at/all"), InputError);
  const auto refused = [](const std::string& text, const char* name) {
    return compare_table(parse_published(text, name, "t"), built_in_profiles(), schedule_makers()).skipped;
  };
  const std::string formulas = "method,bubble,params,activation,source\n";
  EXPECT_EQ(refused(formulas + "1F1B,(PP-1)(F+B),1x,PP,x\n", "schedule_formulas").size(), 0u);
  EXPECT_EQ(refused(formulas + "1F1B,system(1),1x,PP,x\n", "schedule_formulas").size(), 1u);
  EXPECT_EQ(refused(formulas + "1F1B,0,1x,PP*PP,x\n", "schedule_formulas").size(), 1u);
  EXPECT_EQ(refused(formulas + "2F2B,0,1x,PP,x\n", "schedule_formulas").size(), 1u);
  const std::string bubbles = "model,pp,num_microbatches,bubble_ZB_H1,bubble_ZB_H2\n";
  EXPECT_EQ(refused(bubbles + "ZB-H1/H2 1.5B,8,24,nan,\n", "zero_bubble_table5").size(), 1u);
  EXPECT_EQ(refused(bubbles + "ZB-H1/H2 1.5B,9999,24,0.1,\n", "zero_bubble_table5").size(), 1u);
  EXPECT_EQ(refused("seq,layer,8gpu_pct\n2048,attention,10\n", "vocab_parallel_table3_scaling").size(), 1u);
}

}  // namespace
}  // namespace plumbline::cluster_published_test
