// Predicted against published generation: tokens per second of a batch, and time to the first token
// (results/published/generation). No constant was fitted to these.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
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

GenerationPrediction predicted(const Row& row) {
  const int tokens = std::stoi(row.at("prompt_length")) + std::stoi(row.at("max_new_tokens"));
  Overrides keys = {{"task", "generate", ""}, {"seq_length", std::to_string(tokens), ""}};
  for (const auto& [column, cell] : row)
    if (column != "tokens_per_s_per_gpu" && column != "first_token_ms") keys.push_back({column, cell, ""});
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
  EXPECT_LT(errors_of(rates).median, 0.09);
  EXPECT_LT(errors_of(rates).worst, 0.33);
  EXPECT_LT(errors_of(latencies).median, 0.09);
  EXPECT_LT(errors_of(latencies).worst, 0.26);
}

}  // namespace
}  // namespace plumbline::published_generation_test
