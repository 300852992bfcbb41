#include "bench/evaluate/evaluation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "bench/evaluate/plan.hpp"
#include "bench/evaluate/record_parts.hpp"
#include "bench/launch/rank_binding.hpp"
#include "bench/machine/cuda_facts.hpp"
#include "bench/machine/machine.hpp"
#include "bench/training/trainer/run_files.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/config_listing.hpp"
#include "core/run/processors.hpp"

namespace plumbline {

HardwareProfile rough_guess() {
  HardwareProfile guess;
  guess.name = "uncalibrated";
  const int usable = usable_processors();
  guess.kind = Calibrated{usable > 0 ? usable : available_processors()};
  guess.peak_fp32 = {100e9};
  guess.peak_16bit = {100e9};
  guess.memory_bandwidth = {10e9};
  guess.launch_overhead = {1e-6};
  guess.link_latency = {2e-6};
  guess.link_bandwidth = {5e9};
  return guess;
}

std::string default_profile_path() {
  namespace fs = std::filesystem;
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') return (fs::path(cache) / "plumbline" / "profile.json").string();
  const char* home = std::getenv("HOME");
  // Never in /tmp, where any user can put a profile of that name.
  const passwd* user = home == nullptr ? getpwuid(getuid()) : nullptr;  // NOLINT(concurrency-mt-unsafe)
  const fs::path folder = home != nullptr ? home : user != nullptr ? user->pw_dir : "/";
  return (folder / ".cache" / "plumbline" / "profile.json").string();
}

std::string default_cuda_profile_path() {
  return (std::filesystem::path(default_profile_path()).parent_path() / "profile-cuda.json").string();
}

namespace {

HardwareProfile chosen_hardware(const RunConfig& config, std::string& note) {
  if (!config.machine.hardware.empty()) {
    HardwareProfile hardware = load_hardware(config.machine.hardware);
    if (config.machine.backend == Backend::emulated) hardware.unshare_processors();
    return hardware;
  }
  std::error_code error;
  const std::string of_gpu = default_cuda_profile_path();
  if (config.machine.backend == Backend::cuda && std::filesystem::exists(of_gpu, error))
    return load_hardware(of_gpu);
  const std::string path = default_profile_path();
  if (std::filesystem::exists(path, error)) {
    HardwareProfile hardware = load_hardware(path);
    // Calibrated with all processors of the machine; this process may have fewer.
    auto* calibrated = std::get_if<Calibrated>(&hardware.kind);
    if (const int usable = usable_processors(); usable > 0 && calibrated != nullptr)
      calibrated->processors = std::min(calibrated->processors, usable);
    return hardware;
  }
  note = fmt::format(
      "this machine is not calibrated: predicted times are rough guesses until you run `plumbline "
      "calibrate`, "
      "or name an accelerator with --hardware: {}",
      fmt::join(hardware_preset_names(), ", "));
  return rough_guess();
}

}  // namespace

HardwareProfile hardware_of(const RunConfig& config, std::string& note) {
  HardwareProfile hardware = chosen_hardware(config, note);
  if (config.numerics.fp8.on() && !hardware.measured_fp8()) {
    note =
        "the hardware profile has no times of FP8 products, those of the storage type are taken: run "
        "`plumbline calibrate` again";
  }
  const std::string even = "predictions are for tokens that are spread evenly over the experts";
  const MixtureConfig& mixture = config.mixture;
  const bool of_student = (config.spreads_experts() || mixture.capacity_factor > 0) &&
                          !mixture.pad_to_capacity && mixture.routing == MixtureConfig().routing;
  const bool routing_counts = of_student || config.spreads_teacher_experts();
  if (routing_counts && note.find(even) == std::string::npos) {  // of another cell of a matrix
    if (!note.empty()) note += "; ";
    note += even;
  }
  return hardware;
}

Record start_record(const std::string& id, const RunConfig& config, Asked asked) {
  Record record;
  record.id = id;
  record.config = describe(config);
  record.machine = this_machine();
  record.model = model_report(config);
  if (const auto reason = why_invalid(config)) {
    record.status = Status::invalid;
    record.reason = *reason;
  } else if (const auto missing =
                 asked == Asked::prediction ? why_unpredictable(config) : why_unsupported(config)) {
    record.status = Status::unsupported;
    record.reason = *missing;
  } else if (config.numerics.fp8.on()) {
    std::string note;
    if (const auto lacking = why_unpredictable(config, hardware_of(config, note))) {
      record.status = Status::unsupported;
      record.reason = *lacking;
    }
  }
  return record;
}

bool has_device(const RunConfig& config, Record& record) {
  if (config.machine.backend != Backend::cuda) return true;
  add_cuda(cuda_facts(), config.parallel.world_size, record.machine);
  const auto reason = why_no_cuda(cuda_facts());
  if (!reason) return true;
  record.status = Status::unsupported;
  record.reason = *reason;
  return false;
}

std::vector<std::string> check_files(const RunConfig& config) {
  return training::check_files(config);
}

Prediction predict_config(const RunConfig& config, const HardwareProfile& hardware) {
  return predict(config, step_for(config), hardware);
}

}  // namespace plumbline
