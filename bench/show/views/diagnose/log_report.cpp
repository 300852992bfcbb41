#include "bench/show/views/diagnose/log_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "bench/show/text/csv.hpp"
#include "bench/show/text/figures.hpp"
#include "core/config_text/config_listing.hpp"

namespace plumbline {
namespace {

std::string percent_of(double fraction) {
  return fmt::format("{:+.1f} %", 100 * fraction);
}

/// Columns of the table's row: required keys, and those that differ from their defaults.
std::vector<std::pair<std::string, std::string>> table_cells(const RunConfig& config) {
  constexpr std::string_view kRequired[] = {"hardware",         "software",          "seq_length",
                                            "micro_batch_size", "global_batch_size", "world_size"};
  // Places of files, and what a preset's name does not say.
  constexpr std::string_view kLeftOut[] = {"model", "teacher", "data", "weights", "prompts", "seed", "steps"};
  std::vector<std::pair<std::string, std::string>> cells;
  const std::vector<std::string> presets = preset_names();
  const ModelConfig& model = config.model;
  if (std::find(presets.begin(), presets.end(), model.name) != presets.end()) {
    cells.emplace_back("model", model.name);
  } else {
    cells = {{"num_hidden_layers", std::to_string(model.layers)},
             {"hidden_size", std::to_string(model.hidden)},
             {"num_attention_heads", std::to_string(model.heads)},
             {"num_key_value_heads", std::to_string(model.kv_heads)},
             {"head_dim", std::to_string(model.head_dim)},
             {"intermediate_size", std::to_string(model.ffn)},
             {"vocab_size", std::to_string(model.vocab)}};
  }
  const auto usual = describe(RunConfig{});
  const auto given = describe(config);
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto& [key, value] = given[i];
    const auto is = [&name = key](std::string_view each) { return each == name; };
    const bool required = std::any_of(std::begin(kRequired), std::end(kRequired), is);
    if (std::any_of(std::begin(kLeftOut), std::end(kLeftOut), is)) continue;
    if (required || (i < usual.size() && usual[i].second != value)) cells.emplace_back(key, value);
  }
  return cells;
}

}  // namespace

std::string table_row_of(const IterationSummary& log, const ExpectedLog& expected) {
  std::string header = "label";
  std::string row = log.framework + " log";
  for (const auto& [key, value] : table_cells(expected.config)) {
    header += "," + key;
    row += "," + csv_field(value);
  }
  return fmt::format("{},step_s\n{},{:.6g}\n", header, row, log.median_s);
}

std::string log_text(const IterationSummary& log, const std::optional<ExpectedLog>& expected) {
  std::string text =
      fmt::format("{}: {} iterations, {} of warm-up left out\n", log.framework, log.iterations, log.warm_up);
  text += fmt::format("step time: median {}, 90 % within {} to {}, spread {:.1f} %, drift {}\n",
                      readable_time(log.median_s), readable_time(log.low_s), readable_time(log.high_s),
                      100 * log.spread, percent_of(log.drift));
  if (log.tokens_per_s > 0) text += fmt::format("tokens/s/GPU: {}\n", readable_number(log.tokens_per_s));
  if (log.tflops_per_gpu > 0) text += fmt::format("TFLOP/s/GPU: {}\n", readable_number(log.tflops_per_gpu));
  if (log.memory_bytes > 0) text += fmt::format("peak memory: {:.2f} GiB\n", log.memory_bytes / kBytesPerGiB);
  if (!log.outliers.empty()) {
    text += "outliers:";
    for (const IterationLine& line : log.outliers)
      text += fmt::format(" {} ({})", line.iteration < 0 ? "?" : std::to_string(line.iteration),
                          readable_time(line.step_s));
    text += "\n";
  }
  if (!expected) return text;
  text += fmt::format("predicted: {} on {}; measured {} of it\n", readable_time(expected->step_s),
                      expected->hardware, percent_of(log.median_s / expected->step_s - 1));
  if (log.memory_bytes > 0 && expected->peak_bytes > 0)
    text += fmt::format("predicted peak memory: {:.2f} GiB\n", expected->peak_bytes / kBytesPerGiB);
  if (!expected->comparable.empty()) text += expected->comparable + "\n";
  return text + "\nfor validate --tables:\n" + table_row_of(log, *expected);
}

OrderedJson log_json(const IterationSummary& log, const std::optional<ExpectedLog>& expected) {
  const auto known = [](double value) {
    return std::isnan(value) ? OrderedJson(nullptr) : OrderedJson(value);
  };
  OrderedJson json = {{"framework", log.framework},
                      {"iterations", log.iterations},
                      {"warm_up", log.warm_up},
                      {"step_s", log.median_s},
                      {"step_s_p05", log.low_s},
                      {"step_s_p95", log.high_s},
                      {"spread", log.spread},
                      {"drift", log.drift},
                      {"tokens_per_s_per_gpu", known(log.tokens_per_s)},
                      {"tflops_per_gpu", known(log.tflops_per_gpu)},
                      {"peak_bytes", known(log.memory_bytes)}};
  OrderedJson outliers = OrderedJson::array();
  for (const IterationLine& line : log.outliers)
    outliers.push_back({{"iteration", line.iteration}, {"step_s", line.step_s}});
  json["outliers"] = std::move(outliers);
  if (expected) {
    json["predicted"] = {{"hardware", expected->hardware},
                         {"step_s", expected->step_s},
                         {"difference", log.median_s / expected->step_s - 1},
                         {"comparable", expected->comparable}};
    json["table"] = table_row_of(log, *expected);
  }
  return json;
}

}  // namespace plumbline
