#include "analysis/work/sure_overflow.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace plumbline {
namespace {

constexpr double kInfiniteFp16 = 65520;  // this and more is rounded to infinity

/// The scale of step `step`, from 0, if all steps before overflow.
double scale_of(const LossScaleConfig& scale, std::int64_t step) {
  if (scale.constant) return *scale.constant;
  double found = scale.initial;
  for (std::int64_t left = step - scale.hysteresis + 1; left > 0 && found > scale.least; --left)
    found = std::max(found / 2, scale.least);
  return found;
}

bool computes_here(const RunConfig& config) {
  const Backend backend = config.machine.backend;
  const bool here = backend == Backend::cuda || (backend == Backend::cpu && config.machine.hardware.empty());
  return here && config.machine.own_step() && !config.generation.on();
}

}  // namespace

bool overflows_in_every_step(const RunConfig& config) {
  if (config.numerics.precision != DType::fp16 || config.distillation.teacher || !computes_here(config))
    return false;
  const std::int64_t steps = std::int64_t{config.measure.warmup_steps} + config.measure.steps;
  const auto tokens = static_cast<double>(config.batch.global_batch_size * config.batch.seq_length);
  return scale_of(config.numerics.loss_scale, steps - 1) >= 2 * kInfiniteFp16 * tokens;
}

std::optional<std::string> overflow_note(const RunConfig& config) {
  if (!overflows_in_every_step(config)) return std::nullopt;
  const LossScaleConfig& scale = config.numerics.loss_scale;
  const char* const key = scale.constant ? "loss_scale" : "initial_loss_scale";
  return fmt::format(
      "{}: found {}, with which gradients of all {} steps overflow fp16: no step makes an update, and none "
      "is "
      "predicted; set {} to 65536",
      key, scale.constant.value_or(scale.initial), config.measure.warmup_steps + config.measure.steps, key);
}

}  // namespace plumbline
