#include "bench/show/views/predict_formulas.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string_view>
#include <vector>

#include "bench/show/text/figures.hpp"
#include "core/base/error.hpp"
#include "core/base/output_json.hpp"
#include "core/base/text_input.hpp"
#include "core/config_text/config_keys.hpp"

namespace plumbline {
namespace {

constexpr double kGigabyte = 1e9;
constexpr double kGibibyte = 0x1p30;
constexpr double kMebibyte = 0x1p20;

/// Input of `--parameters`.
struct StatesQuestion {
  double parameters = 0;
  double data_parallel = 1;
  DType precision = DType::bf16;
  Optimizer optimizer = Optimizer::adam;
  std::vector<GradDType> gradients;
};

double parse_parameters(const std::string& text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {{"", 1},    {"K", 1e3}, {"M", 1e6},
                                                            {"B", 1e9}, {"G", 1e9}, {"T", 1e12}};
  double count = NAN;
  const char* const stop = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), stop, count);
  const std::string_view suffix(end, static_cast<std::size_t>(stop - end));
  const auto* const unit = std::find_if(std::begin(kUnits), std::end(kUnits), [&](const auto& each) {
    return suffix.size() == each.first.size() &&
           (suffix.empty() || std::toupper(static_cast<unsigned char>(suffix[0])) == each.first[0]);
  });
  if (error == std::errc() && unit != std::end(kUnits)) count *= unit->second;
  if (error != std::errc() || unit == std::end(kUnits) || !(count >= 1 && count <= 1e18)) {
    throw InputError(
        fmt::format("--parameters: found \"{}\", expected a number from 1 to 1e18 such as 7.5e9 or 7.5B",
                    printable(text)));
  }
  return count;
}

StatesQuestion parse_question(const std::string& parameters, const Overrides& keys) {
  StatesQuestion question;
  question.parameters = parse_parameters(parameters);
  ConfigDraft draft;
  bool gradients_given = false;
  for (const Override& given : keys) {
    const ConfigKey& key = get_config_key(given.key, given.origin);
    gradients_given = gradients_given || key.name == "grad_dtype";
    if (key.name != "data_parallel_size" && key.name != "precision" && key.name != "grad_dtype" &&
        key.name != "optimizer") {
      throw InputError(
          fmt::format("--parameters: found {}, expected only data_parallel_size, precision, grad_dtype and "
                      "optimizer with it; give CONFIG for the rest",
                      key.name));
    }
    key.parse(draft, {given.value, given.origin, ""});
  }
  question.data_parallel = static_cast<double>(draft.data_parallel_size.value_or(1));
  question.precision = draft.config.numerics.precision;
  question.optimizer = draft.config.optimizer.kind;
  if (gradients_given || question.precision == DType::fp32) {
    question.gradients = {draft.config.numerics.grad_dtype};
  } else {
    question.gradients = {GradDType::same, GradDType::fp32};
  }
  return question;
}

std::string_view name_of_gradients(GradDType type) {
  return type == GradDType::fp32 ? "fp32" : "same";
}

std::string states_text(const StatesQuestion& q) {
  std::string text = fmt::format("model states per rank: {} B parameters, D = {:g} data-parallel ranks\n",
                                 readable_number(q.parameters / 1e9), q.data_parallel);
  for (const GradDType gradients : q.gradients) {
    const StateBytes bytes = state_bytes(q.precision, gradients, {.kind = q.optimizer});
    text += fmt::format(
        "\n{} parameters, {}-byte gradients, optimizer K = {} bytes per parameter (GB = 10^9, GiB = 2^30)\n",
        name_of(q.precision), bytes.gradient, bytes.optimizer);
    text += fmt::format("{:<18} {:<18} {:>12} {:>12} {:>12} {:>12} {:>12}\n", "ZeRO", "bytes/parameter",
                        "parameters", "gradients", "optimizer", "total GB", "total GiB");
    constexpr std::string_view kStages[] = {"0", "1 (Pos)", "2 (Pos+g)", "3 (Pos+g+p)"};
    for (int stage = 0; stage <= 3; ++stage) {
      const ModelStates states = zero_model_states(q.parameters, stage, q.data_parallel, bytes);
      text +=
          fmt::format("{:<18} {:<18} {:>12.2f} {:>12.2f} {:>12.2f} {:>12.2f} {:>12.2f}\n", kStages[stage],
                      zero_formula(stage, bytes), states.parameters / kGigabyte, states.gradients / kGigabyte,
                      states.optimizer / kGigabyte, states.total() / kGigabyte, states.total() / kGibibyte);
    }
    const ModelStates whole = zero_model_states(q.parameters, 0, 1, bytes);
    text += fmt::format("D = 1: {:.4g} + {:.4g} + {:.4g} = {:.5g} GB: parameters, gradients, {} states\n",
                        whole.parameters / kGigabyte, whole.gradients / kGigabyte,
                        whole.optimizer / kGigabyte, whole.total() / kGigabyte, optimizer_name(q.optimizer));
  }
  return text;
}

OrderedJson states_json(const StatesQuestion& q) {
  OrderedJson rows = OrderedJson::array();
  for (const GradDType gradients : q.gradients) {
    const StateBytes bytes = state_bytes(q.precision, gradients, {.kind = q.optimizer});
    for (int stage = 0; stage <= 3; ++stage) {
      const ModelStates states = zero_model_states(q.parameters, stage, q.data_parallel, bytes);
      rows.push_back({{"precision", name_of(q.precision)},
                      {"grad_dtype", name_of_gradients(gradients)},
                      {"zero_stage", stage},
                      {"formula", zero_formula(stage, bytes)},
                      {"parameters_bytes", states.parameters},
                      {"gradients_bytes", states.gradients},
                      {"optimizer_bytes", states.optimizer},
                      {"total_bytes", states.total()}});
    }
  }
  return {{"parameters", q.parameters}, {"data_parallel_size", q.data_parallel}, {"model_states", rows}};
}

std::string_view name_of(Recompute recompute) {
  constexpr std::string_view kNames[] = {"none", "selective", "full"};
  return kNames[static_cast<std::size_t>(recompute)];
}

std::string technique(const ActivationComparison& row) {
  return fmt::format("{}recompute {}{}", row.sequence_parallel ? "sequence parallel, " : "",
                     name_of(row.recompute), row.configured ? " *" : "");
}

}  // namespace

std::string print_model_states(const std::string& parameters, const Overrides& keys, bool json) {
  const StatesQuestion question = parse_question(parameters, keys);
  if (!json) return states_text(question);
  return output_json(OrderedJson{{"formulas", states_json(question)}}, 2) + "\n";
}

std::string to_text(const FormulaReport& report) {
  std::string text = fmt::format(
      "\nmodel states, ZeRO formula (arXiv:1910.02054): stage {}, D = {}, {} bytes per parameter\n"
      "{:<14} {:>16} {:>14} {:>14} {:>12}\n",
      report.zero_stage, report.data_parallel, zero_formula(report.zero_stage, report.bytes), "pipeline rank",
      "parameters", "formula MiB", "exact MiB", "difference");
  for (const StateComparison& row : report.states) {
    const auto exact = static_cast<double>(row.exact.value);
    text += fmt::format("{:<14} {:>16} {:>14.3f} {:>14.3f} {:>+11.3f}%\n", row.pipeline_rank, row.parameters,
                        row.formula / kMebibyte, exact / kMebibyte, 100 * (exact / row.formula - 1));
  }
  text += fmt::format(
      "\nactivations per layer and micro-batch, {} (*: this configuration; %: of tensor parallelism "
      "alone)\n{:<42} {:>12} {:>8} {:>12} {:>8}\n",
      report.classic ? "classic layer formula (arXiv:2205.05198, 16-bit, dropout, stored scores)"
                     : "modern layer formula (RMSNorm, GQA, SwiGLU, no stored scores)",
      "technique", "formula MiB", "%", "exact MiB", "%");
  for (const ActivationComparison& row : report.activations) {
    text +=
        fmt::format("{:<42} {:>12.4f} {:>8.2f} {:>12.4f} {:>8.2f}\n", technique(row), row.formula / kMebibyte,
                    row.formula_percent, row.exact / kMebibyte, row.exact_percent);
  }
  return text;
}

OrderedJson to_json(const FormulaReport& report) {
  OrderedJson states = OrderedJson::array();
  for (const StateComparison& row : report.states) {
    states.push_back({{"pipeline_rank", row.pipeline_rank},
                      {"parameters", row.parameters},
                      {"formula_bytes", row.formula},
                      {"exact_bytes", row.exact.value}});
  }
  OrderedJson activations = OrderedJson::array();
  for (const ActivationComparison& row : report.activations) {
    activations.push_back({{"sequence_parallel", row.sequence_parallel},
                           {"recompute_granularity", name_of(row.recompute)},
                           {"configured", row.configured},
                           {"formula_bytes", row.formula},
                           {"formula_percent", row.formula_percent},
                           {"exact_bytes", row.exact},
                           {"exact_percent", row.exact_percent}});
  }
  return {{"zero_stage", report.zero_stage},
          {"data_parallel_size", report.data_parallel},
          {"bytes_per_parameter", zero_formula(report.zero_stage, report.bytes)},
          {"model_states", states},
          {"layer", report.classic ? "classic" : "modern"},
          {"activations_per_layer", activations}};
}

}  // namespace plumbline
