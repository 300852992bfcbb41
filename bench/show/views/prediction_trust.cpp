#include "bench/show/views/prediction_trust.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

#include "analysis/predict/measured_share.hpp"
#include "analysis/published/comparable_figures.hpp"
#include "analysis/published/known_runs.hpp"
#include "analysis/stragglers/slow_machines.hpp"
#include "bench/show/text/time_basis.hpp"

namespace plumbline {
namespace {

/// "  step time: mean error 3.4 % over 60 published dense runs of llm-foundry"
std::string published_line(const char* what, const KnownErrors::Error& error, const std::string& software,
                           const RunConfig& config) {
  return fmt::format("  {}: mean error {:.1f} % over {} published {} runs of {}\n", what, 100 * error.mean,
                     error.rows, config.model.mixture ? "MoE" : "dense", software);
}

OrderedJson published_json(const std::optional<KnownErrors::Error>& error,
                           const std::optional<ErrorInterval>& interval, double predicted) {
  OrderedJson json = OrderedJson::object();
  if (error) json.update({{"rows", error->rows}, {"mape", error->mean}});
  if (interval) {
    json.update({{"interval_rows", interval->rows},
                 {"interval_sources", interval->origins},
                 {"low", interval->low * predicted},
                 {"high", interval->high * predicted}});
  }
  return json;
}

KnownErrors known_errors_of(const RunConfig& config) {
  return known_errors(config.machine.software, static_cast<bool>(config.model.mixture));
}

MeasuredShare share_of(const RunConfig& config, const Prediction& prediction) {
  return measured_share(prediction.lines, static_cast<double>(config.microbatches()));
}

/// ", 61 % measured; largest estimate: fc1 forward (12 %)"
std::string measured_text(const RunConfig& config, const HardwareProfile& hardware,
                          const Prediction& prediction) {
  const Device& device = hardware.accelerator()->constants.device;
  if (device.measured == nullptr && device.rates == nullptr && hardware.alone.empty()) return "";
  const MeasuredShare share = share_of(config, prediction);
  return fmt::format(", {:.0f} % measured; largest estimate: {} ({:.0f} %)", 100 * share.measured,
                     share.estimated, 100 * share.estimated_share);
}

/// Jobs below this size seldom meet a slow machine.
constexpr double kLikely = 0.1;

std::string slow_machine_line(const SlowMachines& slow) {
  if (slow.probability < kLikely) return "";
  return fmt::format(
      "  slow machines: with {:.1f} % of them {:.0f} % slower (arXiv:2402.15627), {:.0f} % of jobs of this "
      "size have one: {:.4g} s a step, {:.4g} s on average\n",
      100 * SlowMachines::kShare, 100 * (SlowMachines::kFactor - 1), 100 * slow.probability, slow.step.value,
      slow.expected.value);
}

/// Figures that are inverse to the step.
std::array<std::pair<const char*, double>, 4> rates_of(const Prediction& prediction) {
  const Throughput& rates = prediction.throughput;
  return {{{"tokens_per_s", rates.tokens_per_s},
           {"tokens_per_s_per_gpu", rates.tokens_per_s_per_gpu},
           {"model_tflops_per_gpu", rates.model_tflops_per_gpu},
           {"mfu", rates.mfu}}};
}

double bytes_of(const Prediction& prediction) {
  return static_cast<double>(prediction.memory.peak.value);
}

}  // namespace

std::string trust_text(const RunConfig& config, const HardwareProfile& hardware,
                       const Prediction& prediction) {
  std::string text;
  text += config.machine.own_step()
              ? "tensor memory: exact to the byte for plumbline's own training step\n"
              : fmt::format("memory: estimated from the tensors that {} keeps\n", config.machine.software);
  if (hardware.guessed()) {
    return text +
           "time: guess from generic rates; `plumbline calibrate` measures this machine, --hardware names an "
           "accelerator\n";
  }
  if (hardware.accelerator() == nullptr) {
    return text + "time: calibrated from measured operators and messages\n";
  }
  text += fmt::format("time: estimated from the constants of {}{}\n", hardware.accelerator()->name,
                      measured_text(config, hardware, prediction));
  for (const std::string& line : hardware.defaults)
    text += fmt::format("  missing constant, default taken: {}\n", line);
  const KnownErrors known = known_errors_of(config);
  if (known.step) text += published_line("step time", *known.step, known.software, config);
  if (known.peak) text += published_line("peak memory", *known.peak, known.software, config);
  const ComparableFigures comparable = comparable_figures(config, hardware, prediction);
  if (const auto& peak = comparable.peak) {
    const double gib = bytes_of(prediction) / kBytesPerGiB;
    text += fmt::format(
        "  peak memory of comparable runs: {:.4g} to {:.4g} GiB (80 % interval of {} runs, {} "
        "sources)\n",
        peak->low * gib, peak->high * gib, peak->rows, peak->origins);
  }
  if (!known.step && !known.peak) {
    text += fmt::format("  no published {} runs of {}{}\n", config.model.mixture ? "MoE" : "dense",
                        config.machine.software,
                        comparable.step ? ": comparable runs are of other software" : " to compare with");
  }
  return text + slow_machine_line(slow_machines(prediction.time.step, config.layout().world()));
}

OrderedJson trust_json(const RunConfig& config, const HardwareProfile& hardware,
                       const Prediction& prediction) {
  OrderedJson json;
  json["memory"] = config.machine.own_step() ? "exact" : "estimated";
  json["time"] = name_of(time_basis(hardware.guessed(), hardware.accelerator() != nullptr));
  if (hardware.accelerator() != nullptr) {
    const MeasuredShare share = share_of(config, prediction);
    json["measured"] = {{"share", share.measured},
                        {"largest_estimated", share.estimated},
                        {"largest_estimated_share", share.estimated_share}};
  }
  if (!hardware.defaults.empty()) json["hardware_defaults"] = hardware.defaults;
  OrderedJson published = OrderedJson::object();
  const KnownErrors known = known_errors_of(config);
  const ComparableFigures comparable = comparable_figures(config, hardware, prediction);
  const auto add = [&](const char* quantity, OrderedJson figures) {
    if (!figures.empty()) published[quantity] = std::move(figures);
  };
  add("step_s", published_json(known.step, comparable.step, prediction.time.step.value));
  for (const auto& [key, rate] : rates_of(prediction)) {
    if (comparable.step && std::isfinite(rate))
      published[key] = {{"low", rate / comparable.step->high}, {"high", rate / comparable.step->low}};
  }
  add("peak_bytes", published_json(known.peak, comparable.peak, bytes_of(prediction)));
  if (comparable.exceeding) published["share_beyond_limit"] = *comparable.exceeding;
  if (!published.empty() && hardware.accelerator() != nullptr) json["published"] = std::move(published);
  const SlowMachines slow = slow_machines(prediction.time.step, config.layout().world());
  if (hardware.accelerator() != nullptr && slow.probability >= kLikely) {
    json["slow_machines"] = {{"share", SlowMachines::kShare},
                             {"factor", SlowMachines::kFactor},
                             {"probability", slow.probability},
                             {"step_s", slow.step.value},
                             {"expected_step_s", slow.expected.value}};
  }
  return json;
}

}  // namespace plumbline
