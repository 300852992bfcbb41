// Predicted against published generation: time of a batch, of a step and to the first token
// (results/published/generation). No constant was fitted to these.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/predict/generation.hpp"
#include "core/config_text/load_config.hpp"

namespace plumbline::published_generation_test {
namespace {

using Row = std::map<std::string, std::string>;

std::vector<Row> rows_of(const std::string& table) {
  std::ifstream file(std::string(PLUMBLINE_SOURCE_DIR) + "/results/published/generation/" + table);
  std::vector<std::string> columns;
  std::vector<Row> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;  // source
    std::vector<std::string> cells;
    std::istringstream text(line);
    for (std::string cell; std::getline(text, cell, ',');) cells.push_back(cell);
    if (columns.empty()) {
      columns = cells;
      continue;
    }
    Row& row = rows.emplace_back();
    for (std::size_t i = 0; i < cells.size(); ++i)
      if (!cells[i].empty()) row[columns[i]] = cells[i];
  }
  return rows;
}

constexpr std::string_view kFigures[] = {"total_s", "tpot_ms", "first_token_ms", "tokens_per_s_per_gpu"};

GenerationPrediction predicted(const Row& row) {
  const int tokens = std::stoi(row.at("prompt_length")) + std::stoi(row.at("max_new_tokens"));
  Overrides keys = {{"task", "generate", ""}, {"seq_length", std::to_string(tokens), ""}};
  for (const auto& [column, cell] : row)
    if (std::find(std::begin(kFigures), std::end(kFigures), column) == std::end(kFigures) && column != "part")
      keys.push_back({column, cell, ""});
  const RunConfig config = load_run_config("", keys);
  return predict_generation(config, *find_hardware_preset(config.machine.hardware));
}

struct Errors {
  double median = 0, worst = 0;
};

Errors errors_of(std::vector<double> errors) {
  for (double& error : errors) error = std::abs(error);
  std::sort(errors.begin(), errors.end());
  const std::size_t half = errors.size() / 2;
  const double median = errors.size() % 2 == 1 ? errors[half] : (errors[half - 1] + errors[half]) / 2;
  return {median, errors.back()};
}

TEST(PublishedGeneration, IsPredicted) {
  std::vector<double> rates, latencies;
  for (const Row& row : rows_of("tensorrt_llm_a100.csv")) {
    const GenerationPrediction prediction = predicted(row);
    if (const auto rate = row.find("tokens_per_s_per_gpu"); rate != row.end())
      rates.push_back(prediction.throughput.tokens_per_s_per_gpu / std::stod(rate->second) - 1);
    else
      latencies.push_back(prediction.time.prefill.value * 1e3 / std::stod(row.at("first_token_ms")) - 1);
  }
  ASSERT_EQ(rates.size(), 9U);
  ASSERT_EQ(latencies.size(), 6U);
  // Rows with 2048 new tokens and grouped-query heads are up to 38 % too fast: the release had no kernels
  // for such heads (docs/source/blogs/XQA-kernel.md came with 0.8).
  EXPECT_LT(errors_of(rates).median, 0.12);
  EXPECT_LT(errors_of(rates).worst, 0.65);
  EXPECT_LT(errors_of(latencies).median, 0.09);
  EXPECT_LT(errors_of(latencies).worst, 0.26);
}

/// Predicted over published time.
double ratio(const Row& row, const GenerationPrediction& prediction) {
  const auto published = [&](const char* column) {
    const auto cell = row.find(column);
    return cell == row.end() ? 0 : std::stod(cell->second);
  };
  if (const double total = published("total_s"); total > 0) return prediction.time.total.value / total;
  if (const double step = published("tpot_ms"); step > 0)
    return prediction.time.decode_mean.value * 1e3 / step;
  if (const double first = published("first_token_ms"); first > 0)
    return prediction.time.prefill.value * 1e3 / first;
  return published("tokens_per_s_per_gpu") / prediction.throughput.tokens_per_s_per_gpu;
}

/// Batches that the engine's cache has no room for ran in parts, or with other settings.
bool has_room(const Row& row, const GenerationPrediction& prediction) {
  const int tokens = std::stoi(row.at("prompt_length")) + std::stoi(row.at("max_new_tokens"));
  return prediction.cache_tokens >= std::int64_t{tokens} * std::stoi(row.at("micro_batch_size"));
}

/// Half of each table, drawn by chance, was looked at while the model was made; the other one was not.
TEST(PublishedGeneration, OtherEnginesArePredicted) {
  const struct {
    const char* table;
    std::size_t rows;      // of one half that fit
    double median, worst;  // relative errors of a half at most
  } kTables[] = {
      // Before custom all-reduces and tuned experts: three rows of 2542 on 8 GPUs, 43 to 47 % too fast.
      {"vllm_v0_latency.csv", 14, 0.18, 0.6},
      // Sampling with top-p sorts the vocabulary: 128 sequences and more are up to 42 % too fast. The half
      // that was not looked at misses the goal, 15 %, since more of its batches have room.
      {"vllm_v1_ml_energy.csv", 22, 0.18, 0.75},
      // Equal prompts reach few experts of Mixtral, which is twice too slow.
      {"argonne_nvidia.csv", 40, 0.15, 1.2},
      // Products in bf16 read less than those in FP8 that the H20's constants are of.
      {"sglang_h20_qwen3.csv", 15, 0.22, 0.35},
      {"tensorrt_llm_a100_v08.csv", 9, 0.15, 0.5},
  };
  std::map<std::string, std::vector<double>> all;
  for (const auto& of : kTables) {
    std::map<std::string, std::vector<double>> halves;
    for (const Row& row : rows_of(of.table)) {
      const GenerationPrediction prediction = predicted(row);
      if (has_room(row, prediction)) halves[row.at("part")].push_back(ratio(row, prediction) - 1);
    }
    ASSERT_EQ(halves.size(), 2U);
    for (const auto& [part, errors] : halves) {
      EXPECT_GE(errors.size(), of.rows) << of.table << ' ' << part;
      EXPECT_LT(errors_of(errors).median, of.median) << of.table << ' ' << part;
      EXPECT_LT(errors_of(errors).worst, of.worst) << of.table << ' ' << part;
      all[part].insert(all[part].end(), errors.begin(), errors.end());
    }
  }
  EXPECT_LT(errors_of(all["develop"]).median, 0.15);
  EXPECT_LT(errors_of(all["report"]).median, 0.15);
}

}  // namespace
}  // namespace plumbline::published_generation_test
