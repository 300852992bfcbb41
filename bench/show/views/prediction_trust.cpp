#include "bench/show/views/prediction_trust.hpp"

#include <fmt/format.h>

#include "analysis/predict/measured_share.hpp"
#include "analysis/published/known_errors.hpp"
#include "analysis/stragglers/slow_machines.hpp"

namespace plumbline {
namespace {

/// `unit`: divisor from the figures to the unit of `name`.
std::string published_line(const char* what, const KnownError& error, const std::string& software,
                           const RunConfig& config, double predicted, double unit, const char* name) {
  const ErrorInterval& interval = error.interval;
  return fmt::format(
      "  {}: mean error {:.1f} % over {} published {} runs of {}; 80 % interval {:.2f} to {:.2f} x "
      "prediction: "
      "{:.4g} to {:.4g} {}\n",
      what, 100 * error.mean, error.rows, config.model.mixture ? "MoE" : "dense", software, interval.low,
      interval.high, interval.low * predicted / unit, interval.high * predicted / unit, name);
}

OrderedJson published_json(const KnownError& error, double predicted) {
  return {{"rows", error.rows},
          {"mape", error.mean},
          {"interval_rows", error.interval.rows},
          {"low", error.interval.low * predicted},
          {"high", error.interval.high * predicted}};
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
  if (device.measured == nullptr && device.rates == nullptr) return "";
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
  if (known.step) {
    text +=
        published_line("step time", *known.step, known.software, config, prediction.time.step.value, 1, "s");
  }
  if (known.peak) {
    text += published_line("peak memory", *known.peak, known.software, config, bytes_of(prediction),
                           kBytesPerGiB, "GiB");
  }
  if (!known.step && !known.peak) {
    text += fmt::format("  no published {} runs of {} to compare with (plumbline validate)\n",
                        config.model.mixture ? "MoE" : "dense", config.machine.software);
  }
  return text + slow_machine_line(slow_machines(prediction.time.step, config.layout().world()));
}

OrderedJson trust_json(const RunConfig& config, const HardwareProfile& hardware,
                       const Prediction& prediction) {
  OrderedJson json;
  json["memory"] = config.machine.own_step() ? "exact" : "estimated";
  json["time"] = hardware.guessed()                  ? "guess"
                 : hardware.accelerator() == nullptr ? "calibrated"
                                                     : "estimated";
  if (hardware.accelerator() != nullptr) {
    const MeasuredShare share = share_of(config, prediction);
    json["measured"] = {{"share", share.measured},
                        {"largest_estimated", share.estimated},
                        {"largest_estimated_share", share.estimated_share}};
  }
  if (!hardware.defaults.empty()) json["hardware_defaults"] = hardware.defaults;
  OrderedJson published = OrderedJson::object();
  const KnownErrors known = known_errors_of(config);
  if (known.step) published["step_s"] = published_json(*known.step, prediction.time.step.value);
  if (known.peak) published["peak_bytes"] = published_json(*known.peak, bytes_of(prediction));
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
