#include "bench/views/prediction_trust.hpp"

#include <fmt/format.h>

#include "analysis/published/known_errors.hpp"

namespace plumbline {
namespace {

using cluster::KnownError;

/// What was measured when nine of ten predictions are off by p90 at most: predicted = measured × (1 ± p90).
struct Range {
  double low = 0;
  double high = 0;
};
Range range_of(double predicted, const KnownError& error) {
  return {predicted / (1 + error.p90), error.p90 < 1 ? predicted / (1 - error.p90) : 0};
}

bool is_own(const RunConfig& config) {
  return config.machine.software == "plumbline";
}

std::string published_line(const char* what, const KnownError& error, const Range& range, double unit,
                           const char* name) {
  return fmt::format(
      "  {} of {} published runs of it: off by {:.1f} % on average, nine of ten by at most {:.1f} %: {:.4g} "
      "to "
      "{:.4g} {}\n",
      what, error.rows, 100 * error.mean, 100 * error.p90, range.low / unit, range.high / unit, name);
}

OrderedJson published_json(const KnownError& error, double predicted) {
  const Range range = range_of(predicted, error);
  return {{"rows", error.rows},
          {"mape", error.mean},
          {"p90", error.p90},
          {"low", range.low},
          {"high", range.high}};
}

double bytes_of(const Prediction& prediction) {
  return static_cast<double>(prediction.memory.peak.value);
}

}  // namespace

std::string trust_text(const RunConfig& config, const HardwareProfile& hardware,
                       const Prediction& prediction) {
  std::string text;
  text += is_own(config)
              ? "memory of tensors: exact, to the byte that plumbline's own training step allocates\n"
              : fmt::format("memory: estimated from what {} keeps\n", config.machine.software);
  if (hardware.accelerator.empty()) {
    return text + "time: calibrated, operators and messages measured on the profile's machine\n";
  }
  text += fmt::format("time: estimated from the constants of {}\n", hardware.accelerator);
  for (const std::string& line : hardware.defaults) text += fmt::format("  not given there, {}\n", line);
  const cluster::KnownErrors known = cluster::known_errors(config.machine.software);
  if (known.step) {
    const double step = prediction.time.step.value;
    text += published_line("step time", *known.step, range_of(step, *known.step), 1, "s here");
  }
  if (known.peak) {
    const double peak = bytes_of(prediction);
    text += published_line("peak memory", *known.peak, range_of(peak, *known.peak), kBytesPerGiB, "GiB here");
  }
  if (!known.step && !known.peak) {
    text += fmt::format("  no published run of {} is among the shipped tables: see plumbline validate\n",
                        config.machine.software);
  }
  return text;
}

OrderedJson trust_json(const RunConfig& config, const HardwareProfile& hardware,
                       const Prediction& prediction) {
  OrderedJson json;
  json["memory"] = is_own(config) ? "exact" : "estimated";
  json["time"] = hardware.accelerator.empty() ? "calibrated" : "estimated";
  if (!hardware.defaults.empty()) json["hardware_defaults"] = hardware.defaults;
  OrderedJson published = OrderedJson::object();
  const cluster::KnownErrors known = cluster::known_errors(config.machine.software);
  if (known.step) published["step_s"] = published_json(*known.step, prediction.time.step.value);
  if (known.peak) published["peak_bytes"] = published_json(*known.peak, bytes_of(prediction));
  if (!published.empty() && !hardware.accelerator.empty()) json["published"] = std::move(published);
  return json;
}

}  // namespace plumbline
