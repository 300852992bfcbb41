#include "analysis/search/sensitivity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "analysis/hardware/profiles/machine_constants.hpp"
#include "analysis/predict/predict.hpp"
#include "analysis/predict/prediction_rows.hpp"
#include "analysis/predict/software_rows.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/config/config_checks.hpp"
#include "core/config/layer_distribution.hpp"

namespace plumbline {
namespace {

/// Constants of a machine that are varied.
constexpr std::string_view kVaried[] = {
    "peak_16bit",  "bandwidth",   "wave_share",    "tile_s",         "cache_bandwidth", "stream_share",
    "gemm_share",  "kernel_s",    "flash_forward", "flash_backward", "node_bandwidth",  "message_bandwidth",
    "node_base_s", "node_step_s", "nic_bandwidth", "nic_base_s",     "nic_step_s",
};

struct Variant {
  std::string what;
  SearchKeys keys;
};

/// Every configuration that differs in one choice and has sizes that divide.
class Variants {
 public:
  explicit Variants(const RunConfig& config)
      : config_(config), keys_(keys_of(config)), batch_(config.batch.global_batch_size) {
    layouts();
    sizes();
    switches();
    schedules();
  }
  std::vector<Variant> list;

 private:
  void add(const std::string& what, const SearchKeys& keys) {
    const std::int64_t per_step = std::int64_t{keys.data} * keys.micro_batch;
    if (per_step < 1 || batch_ % per_step != 0) return;
    if (std::int64_t{keys.pipeline} * keys.chunks > config_.model.layers) return;
    if (keys.pipeline == 1 && (keys.chunks > 1 || keys.vocabulary != VocabPasses::none)) return;
    list.push_back({what, keys});
  }

  /// Ranks moved from one kind of parallelism to another, two at a time.
  void layouts() {
    const std::array<std::pair<const char*, int SearchKeys::*>, 3> kinds = {
        {{"tensor", &SearchKeys::tensor}, {"pipeline", &SearchKeys::pipeline}, {"data", &SearchKeys::data}}};
    for (const auto& [from, less] : kinds) {
      for (const auto& [to, more] : kinds) {
        if (less == more || keys_.*less % 2 != 0) continue;
        SearchKeys keys = keys_;
        keys.*less /= 2;
        keys.*more *= 2;
        if (keys.tensor == 1) keys.sequence_parallel = false;
        add(fmt::format("{} {} -> {}, {} {} -> {}", from, keys_.*less, keys.*less, to, keys_.*more,
                        keys.*more),
            keys);
      }
    }
  }

  void sizes() {
    for (const int micro_batch : {keys_.micro_batch / 2, keys_.micro_batch * 2}) {
      if (micro_batch < 1 || micro_batch == keys_.micro_batch) continue;
      SearchKeys keys = keys_;
      keys.micro_batch = micro_batch;
      add(fmt::format("micro_batch_size {} -> {}", keys_.micro_batch, micro_batch), keys);
    }
  }

  void switches() {
    SearchKeys keys = keys_;
    if (keys.tensor > 1) {
      keys.sequence_parallel = !keys.sequence_parallel;
      add(fmt::format("sequence_parallel {}", keys.sequence_parallel), keys);
    }
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
      keys = keys_;
      const bool partial = keys.recompute == Recompute::full && config_.recompute.partial();
      if (keys.recompute == recompute && !partial) continue;
      keys.recompute = recompute;
      keys.recomputed = kCoreAttention;
      keys.recompute_method = RecomputeMethod::uniform;
      keys.recompute_layers = 1;
      add(recompute == Recompute::none ? "recompute_granularity none"
          : partial                    ? "recompute_method uniform"
                                       : "recompute_granularity full",
          keys);
    }
    const Software& software = software_of(config_);
    const int most_zero = keys_.data == 1 || software.communication.sharded ? -1 : most_zero_stage(config_);
    for (int zero = 0; zero <= most_zero; ++zero) {
      keys = keys_;
      if (zero == keys.zero) continue;
      keys.zero = zero;
      add(fmt::format("zero_stage {} -> {}", keys_.zero, zero), keys);
    }
    keys = keys_;
    keys.half_gradients = !keys.half_gradients;
    add(keys.half_gradients ? "grad_dtype same" : "grad_dtype fp32", keys);
  }

  static bool takes_passes(const ScheduleTraits& traits) {
    return traits.parts() == 1 && find_with_passes(traits.name, VocabPasses::two_barriers) != nullptr;
  }

  void schedules() {
    for (std::size_t i = 0; i < search_schedules().size(); ++i) {
      SearchKeys keys = keys_;
      const ScheduleTraits& traits = search_traits(i);
      keys.chunks = traits.parts();
      keys.schedule = static_cast<std::uint8_t>(i);
      if (keys.pipeline == 1 || (i == keys_.schedule && keys.chunks == keys_.chunks)) continue;
      if (keys.vocabulary != VocabPasses::none && !takes_passes(traits)) continue;
      add(fmt::format("pipeline_schedule {}", traits.name), keys);
    }
    if (!takes_passes(search_traits(keys_.schedule))) return;
    for (const VocabPasses vocabulary :
         {VocabPasses::none, VocabPasses::two_barriers, VocabPasses::one_barrier}) {
      SearchKeys keys = keys_;
      if (keys.vocabulary == vocabulary) continue;
      keys.vocabulary = vocabulary;
      add(fmt::format("vocab_parallel {}", vocab_parallel_name(vocabulary)), keys);
    }
    SearchKeys keys = keys_;
    keys.balanced = !keys.balanced;
    const int stages = keys.pipeline * keys.chunks;
    RunConfig other = config_;
    set_keys(keys, other);
    if (stages < 2 || layers_per_stage(other, stages) == layers_per_stage(config_, stages)) return;
    add(keys.balanced ? "layer_distribution balanced" : "layer_distribution even", keys);
  }

  const RunConfig& config_;
  SearchKeys keys_;
  std::int64_t batch_;
};

std::vector<Elasticity> elasticities(const RunConfig& config, const HardwareProfile& hardware,
                                     const RepeatedSchedule& step, Seconds now) {
  constexpr double kStep = 0.01;
  std::vector<Elasticity> list;
  for (const std::string_view name : kVaried) {
    HardwareProfile changed = hardware;
    double& value = find_machine_constant(name)->in(changed.accelerator()->constants);
    const double before = value;
    if (before <= 0) continue;
    std::array<double, 2> seconds{};
    for (const std::size_t side : {0U, 1U}) {
      value = before * (side == 0 ? 1 - kStep : 1 + kStep);
      seconds[side] = predict(config, step, changed).time.step.value;
    }
    list.push_back({std::string(name), before, (seconds[1] - seconds[0]) / now.value / (2 * kStep)});
  }
  std::stable_sort(list.begin(), list.end(), [](const Elasticity& a, const Elasticity& b) {
    return std::abs(a.elasticity) > std::abs(b.elasticity);
  });
  return list;
}

/// Actions of one repetition, all ranks together: the work of a simulation.
std::int64_t simulated_actions(const RepeatedSchedule& step) {
  std::int64_t actions = 0;
  for (const auto& list : step.once.actions) actions += std::ssize(list);
  return actions;
}

}  // namespace

Limits what_limits(const RunConfig& config, const HardwareProfile& hardware, const StepFor& make) {
  if (const auto reason = why_invalid(config)) throw InputError(*reason);
  if (config.distillation.teacher) {
    throw InputError(fmt::format(
        "teacher: found {}; expected none, distillation is not varied; remove the key or --what-limits",
        printable(config.distillation.teacher->name)));
  }
  if (config.parallel.context > 1) {
    throw InputError(fmt::format(
        "context_parallel_size: found {}; expected 1, it is not varied; remove the key or --what-limits",
        config.parallel.context));
  }
  if (hardware.accelerator() == nullptr) {
    throw InputError(
        "hardware: found a measured profile, expected an accelerator whose constants can be "
        "varied; name one or remove --what-limits");
  }
  Limits limits;
  const Variants variants(config);
  const RepeatedSchedule step = make(config);
  const Prediction now = predict(config, step, hardware);
  limits.step = now.time.step;
  limits.peak = now.memory.peak;
  limits.fit = now.fit;
  if (simulated_actions(step) <= kMostVariedActions) {
    limits.hardware = elasticities(config, hardware, step, limits.step);
  } else {
    limits.not_varied.emplace_back("hardware constants");
  }
  RunConfig other = config;
  for (const Variant& variant : variants.list) {
    set_keys(variant.keys, other);
    if (why_invalid(other) || why_not_advised(config, other)) continue;
    try {
      const RepeatedSchedule theirs = make(other);
      if (simulated_actions(theirs) > kMostVariedActions) {
        limits.not_varied.push_back(variant.what);
        continue;
      }
      const Prediction then = predict(other, theirs, hardware);
      limits.changes.push_back({variant.what, then.time.step, then.memory.peak, then.fit});
    } catch (const InputError&) {
      // The schedule does not allow these sizes.
    }
  }
  std::stable_sort(limits.changes.begin(), limits.changes.end(),
                   [](const ChangedKey& a, const ChangedKey& b) {
                     return a.fit.fits != b.fit.fits ? a.fit.fits : a.step < b.step;
                   });
  return limits;
}

}  // namespace plumbline
