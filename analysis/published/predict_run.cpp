#include "analysis/published/predict_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <optional>

#include "analysis/hardware/hardware.hpp"
#include "analysis/predict/predict.hpp"
#include "analysis/work/framework_list.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/schedule/schedule_traits.hpp"

namespace plumbline {
namespace {

std::string name_of(Fp8Recipe recipe) {
  switch (recipe) {
    case Fp8Recipe::delayed:
      return "delayed";
    case Fp8Recipe::tensorwise:
      return "tensorwise";
    case Fp8Recipe::blockwise:
      return "blockwise";
    case Fp8Recipe::mxfp8:
      return "mxfp8";
  }
  return "?";
}

bool multiplies(const Device& device, Fp8Recipe recipe) {
  return (recipe == Fp8Recipe::mxfp8 ? device.peak_mx8 : device.peak_8bit) > 0;
}

bool is_file(const std::string& hardware) {
  return hardware.find('/') != std::string::npos || hardware.ends_with(".json");
}

/// The accelerator that a row names: one of `profiles`, or that of a user's file. Empty for any other name.
/// Throws InputError for a file that is none.
std::optional<HardwareProfile> hardware_of(const std::string& name, const Profiles& profiles) {
  const auto machine = profiles.machines.find(name);
  if (machine != profiles.machines.end()) return accelerator_profile(name, machine->second);
  if (!is_file(name)) return std::nullopt;
  HardwareProfile hardware = load_hardware(name);
  if (hardware.accelerator() == nullptr) {
    throw InputError(
        fmt::format("hardware: found the calibrated profile {}, expected an accelerator's file or name",
                    printable(name)));
  }
  return hardware;
}

/// Parts of a valid configuration that predictions do not model. `hardware`: none if it is not known.
std::vector<std::string> not_predicted(const RunConfig& config,
                                       const std::optional<HardwareProfile>& hardware,
                                       const Profiles& profiles) {
  std::vector<std::string> features;
  const auto add = [&](std::string_view key, const std::string& value) {
    features.push_back(fmt::format("{} {}", key, printable(value)));
  };
  const Device* device = hardware ? &hardware->accelerator()->constants.device : nullptr;
  if (device == nullptr) {
    add("hardware", config.machine.hardware);
  } else if (config.numerics.fp8.on() && !multiplies(*device, config.numerics.fp8.recipe)) {
    add("fp8_recipe", name_of(config.numerics.fp8.recipe) + " on " + config.machine.hardware);
  }
  const bool fp4 = config.numerics.fp4_format != Fp4Format::none;
  if (fp4 && device != nullptr && device->peak_4bit <= 0)
    add("fp4_format", "e2m1 on " + config.machine.hardware);
  const auto software = profiles.software.find(config.machine.software);
  if (software == profiles.software.end()) {
    add("software", config.machine.software);
  } else if (!software->second.own_step) {
    const Fp8Config& fp8 = config.numerics.fp8;
    const bool graphs = config.machine.cuda_graph_impl != CudaGraphImpl::none;
    if (fp4 && !software->second.fp8.nvfp4_scaling) add("fp4_format", "e2m1 with " + config.machine.software);
    if (graphs && software->second.host.graph_operator_s == 0)
      add("cuda_graph_impl", "with " + config.machine.software);
    if (software->second.fp8.always && !fp8.on() && !fp4)
      add("precision", "of 16 bit with " + config.machine.software);
    if (config.numerics.fp8_dot_product_attention && !software->second.communication.buckets())
      add("fp8_dot_product_attention", "with " + config.machine.software);
    if (config.optimizer.lean() && !software->second.communication.buckets())
      add("exp_avg_dtype", "with " + config.machine.software);
    if (fp8.on() && !takes_recipe(software->second, fp8.recipe))
      add("fp8_recipe", name_of(fp8.recipe) + " with " + config.machine.software);
  }
  const bool framework = software != profiles.software.end() && !software->second.own_step;
  if (config.parallel.expert > 1 && !config.model.mixture)
    features.emplace_back("expert_model_parallel_size");
  if (config.model.mixture && framework) {
    if (!software->second.describes_mixtures()) add("num_experts", "with " + config.machine.software);
    if (config.parallel.dp.zero_stage >= 2 && !software->second.communication.sharded)
      add("zero_stage", "3 of a mixture with " + config.machine.software);
  }
  const bool modules =
      config.recompute.granularity == Recompute::selective && config.recompute.modules != kCoreAttention;
  if (framework && modules && !software->second.communication.buckets())
    add("recompute_modules", "with " + config.machine.software);
  if (framework && config.offload.on() && !software->second.communication.buckets())
    add("cpu_offloading_num_layers",
        fmt::format("{} with {}", config.offload.num_layers, config.machine.software));
  if (config.numerics.precision == DType::fp32) add("precision", "fp32");
  const bool muon = framework && config.optimizer.muons() && software->second.communication.buckets();
  if (config.optimizer.kind != Optimizer::adam && !muon)
    add("optimizer", optimizer_name(config.optimizer.kind));
  if (config.distillation.teacher) features.emplace_back("teacher");
  if (find_schedule_traits(config.parallel.pp.schedule) == nullptr) {
    add("pipeline_schedule", config.parallel.pp.schedule);
  }
  return features;
}

/// Peak bytes of a rank of the first or last pipeline coordinate, or of the fullest.
double peak_of(const MemoryPrediction& memory, MemoryOf which) {
  Bytes peak = memory.peak;
  if (which == MemoryOf::first) peak = memory.ranks.front().peak.total();
  if (which == MemoryOf::last) peak = memory.ranks.back().peak.total();
  return static_cast<double>(peak.value);
}

/// The prediction of a row's one reading.
PredictedRun predict_reading(const PublishedRun& run, const Profiles& profiles, const ScheduleMakers& make) {
  PredictedRun predicted;
  predicted.choice = run.choice;
  predicted.unmodelled = run.unmodelled;
  const std::optional<HardwareProfile> hardware = hardware_of(run.config.machine.hardware, profiles);
  for (std::string& feature : not_predicted(run.config, hardware, profiles)) {
    predicted.unmodelled.push_back(std::move(feature));
  }
  if (!predicted.unmodelled.empty()) return predicted;
  const Software& software = profiles.generation(run.config.machine.software);
  const Prediction prediction = predict(run.config, make.of_run(run.config), *hardware, software);
  predicted.step_s = prediction.time.step.value;
  predicted.fit = prediction.fit;
  predicted.kind = kind_of(run.config, *hardware);
  predicted.peak_bytes = peak_of(prediction.memory, run.measured.memory_of);
  return predicted;
}

Spread spread_of(const std::vector<PredictedRun>& runs, double PredictedRun::*figure) {
  Spread spread{runs.front().*figure, runs.front().*figure};
  for (const PredictedRun& run : runs) {
    spread.low = std::min(spread.low, run.*figure);
    spread.high = std::max(spread.high, run.*figure);
  }
  return spread;
}

}  // namespace

PredictedRun predict_run(const PublishedRun& run, const Profiles& profiles, const ScheduleMakers& make) {
  std::vector<PredictedRun> readings;
  std::exception_ptr refusal;
  const auto add = [&](const PublishedRun& reading) {
    try {
      readings.push_back(predict_reading(reading, profiles, make));
    } catch (const InputError&) {  // too few micro-batches for its schedule, for example
      if (!refusal) refusal = std::current_exception();
    }
  };
  add(run);
  for (const PublishedRun& other : run.others) add(other);
  if (readings.empty()) std::rethrow_exception(refusal);
  PredictedRun likeliest = readings.front();
  std::erase_if(readings, [](const PredictedRun& reading) { return !reading.unmodelled.empty(); });
  if (readings.empty()) return likeliest;
  const auto fits = [](const PredictedRun& reading) { return reading.fit.fits; };
  if (std::any_of(readings.begin(), readings.end(), fits)) std::erase_if(readings, std::not_fn(fits));
  PredictedRun predicted = readings.front();
  predicted.step_spread = spread_of(readings, &PredictedRun::step_s);
  predicted.peak_spread = spread_of(readings, &PredictedRun::peak_bytes);
  return predicted;
}

}  // namespace plumbline
