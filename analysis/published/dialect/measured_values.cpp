#include "analysis/published/dialect/measured_values.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "analysis/published/dialect/row_cells.hpp"
#include "analysis/work/flops.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

constexpr double kBytesPerMib = 1048576.0;
constexpr double kTolerance = 0.05;  // of two printed values: figures have two digits and more

/// Definitions by name and number cells of one row.
class MeasuredCells {
 public:
  MeasuredCells(const Cells& cells, const RunConfig& config, const std::string& origin)
      : cells_(cells), config_(config), origin_(origin) {}

  bool has(std::string_view column) const { return cells_.find(column) != cells_.end(); }
  double number(std::string_view column, double most) const {
    return cell_number(cells_.find(column)->second, origin_, column, 1e-12, most);
  }
  std::string text(std::string_view column) const {
    const auto at = cells_.find(column);
    return at == cells_.end() ? "" : at->second;
  }

  /// Seconds of a step that a column stands for.
  double seconds(std::string_view column) const {
    const auto gpus = static_cast<double>(config_.parallel.world_size);
    const auto samples = static_cast<double>(config_.batch.global_batch_size);
    const double tokens = samples * static_cast<double>(config_.batch.seq_length);
    if (column == "step_s") return number(column, 1e9);
    if (column == "tokens_per_s") return tokens / number(column, 1e15);
    if (column == "tokens_per_s_per_gpu") return tokens / (number(column, 1e12) * gpus);
    if (column == "samples_per_s") return samples / number(column, 1e12);
    if (column == "samples_per_s_per_gpu") return samples / (gpus * number(column, 1e12));
    if (column == "model_tflops_per_gpu") return flops(column) / (number(column, 1e5) * 1e12 * gpus);
    const double share = column == "mfu" ? number(column, 1) : number(column, 100) / 100;
    if (!has("peak_tflops")) {
      throw InputError(fmt::format(
          "{}: {}: found without a peak, expected peak_tflops in the header or a column", origin_, column));
    }
    return flops(column) / (share * number("peak_tflops", 1e6) * 1e12 * gpus);
  }

 private:
  double flops(std::string_view column) const {
    if (has("flops")) return step_flops(text("flops"), config_, origin_);
    throw InputError(
        fmt::format("{}: {}: found without a definition of FLOPs, expected flops in the header, one of {}",
                    origin_, column, fmt::join(flops_definitions(), ", ")));
  }

  const Cells& cells_;
  const RunConfig& config_;
  const std::string& origin_;
};

MemoryOf memory_of(const std::string& text, const std::string& origin) {
  if (text.empty() || text == "maximum") return MemoryOf::maximum;
  if (text == "first") return MemoryOf::first;
  if (text == "last") return MemoryOf::last;
  throw InputError(fmt::format("{}: memory: found \"{}\", expected maximum, first or last (rank)", origin,
                               printable(text)));
}

}  // namespace

const std::vector<std::string_view>& flops_definitions() {
  static const std::vector<std::string_view> kNames = {"megatron-2021", "megatron-2021-recompute",
                                                       "causal-attention", "full-attention", "palm"};
  return kNames;
}

double step_flops(std::string_view definition, const RunConfig& config, const std::string& origin) {
  const ModelConfig& model = config.model;
  const auto s = static_cast<double>(config.batch.seq_length);
  const double tokens = static_cast<double>(config.batch.global_batch_size) * s;
  const auto h = static_cast<double>(model.hidden);
  const auto l = static_cast<double>(model.layers);
  const auto vocab = static_cast<double>(model.vocab);
  if (definition == "megatron-2021")
    return 72 * tokens * l * h * h * (1 + s / (6 * h) + vocab / (12 * l * h));
  if (definition == "megatron-2021-recompute") {
    return 96 * tokens * l * h * h * (1 + s / (6 * h) + vocab / (16 * l * h));
  }
  const double square = 12 * l * static_cast<double>(model.heads * model.head_dim) * s;
  if (definition == "causal-attention") {
    return tokens * model_flops_per_token(model, config.batch.seq_length).value;
  }
  if (definition == "full-attention") {
    return tokens * (6 * static_cast<double>(matmul_parameters(model)) + square);
  }
  if (definition == "palm") return tokens * (6 * static_cast<double>(model.parameters()) + square);
  throw InputError(fmt::format("{}: flops: found \"{}\", expected one of {}", origin, printable(definition),
                               fmt::join(flops_definitions(), ", ")));
}

MeasuredValues measured_values(const Cells& cells, const RunConfig& config, const std::string& origin) {
  const MeasuredCells row(cells, config, origin);
  MeasuredValues values;
  std::string_view from;
  for (const std::string_view column :
       {"step_s", "tokens_per_s", "tokens_per_s_per_gpu", "samples_per_s", "samples_per_s_per_gpu",
        "model_tflops_per_gpu", "mfu", "mfu_percent"}) {
    if (!row.has(column)) continue;
    // With a time there, a rate that cannot be turned into one is left out of the check.
    const bool rate_of_flops = column.starts_with("m");
    if (values.step_s > 0 && rate_of_flops &&
        (!row.has("flops") || (column != "model_tflops_per_gpu" && !row.has("peak_tflops")))) {
      continue;
    }
    const double seconds = row.seconds(column);
    if (values.step_s == 0) {
      values.step_s = seconds;
      from = column;
    } else if (std::abs(seconds / values.step_s - 1) > kTolerance) {
      throw Contradiction(fmt::format("contradicts itself: {} means steps of {:.4g} s, {} of {:.4g} s", from,
                                      values.step_s, column, seconds));
    }
  }
  if (row.has("peak_bytes")) values.peak_bytes = row.number("peak_bytes", 1e15);
  if (row.has("peak_mib")) values.peak_bytes = row.number("peak_mib", 1e9) * kBytesPerMib;
  if (row.has("peak_gib")) values.peak_bytes = row.number("peak_gib", 1e6) * kBytesPerGiB;
  if (row.has("peak_gb")) values.peak_bytes = row.number("peak_gb", 1e6) * 1e9;
  values.memory_of = memory_of(row.text("memory"), origin);
  return values;
}

}  // namespace plumbline
