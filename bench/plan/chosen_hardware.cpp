#include "bench/plan/chosen_hardware.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>
#include <variant>

#include "analysis/work/routing/given_routing.hpp"
#include "bench/processes/launch/rank_binding.hpp"
#include "core/run/processors.hpp"

namespace plumbline {

namespace fs = std::filesystem;

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

/// State of a file, by which a change of it is noticed.
struct FileStamp {
  fs::file_time_type written;
  std::uintmax_t bytes = 0;
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

/// load_hardware(); a file that has not changed since the last call is not read again.
HardwareProfile remembered_hardware(const std::string& name) {
  if (const HardwareProfile* preset = find_hardware_preset(name)) return *preset;
  std::error_code error;
  const FileStamp stamp{fs::last_write_time(name, error), error ? 0 : fs::file_size(name, error)};
  if (error) return load_hardware(name);
  static std::mutex mutex;
  static std::map<std::string, std::pair<FileStamp, HardwareProfile>> known;
  const std::string path = fs::absolute(name, error).string();
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(path); found != known.end() && found->second.first == stamp)
    return found->second.second;
  constexpr std::size_t kMostProfiles = 16;
  if (known.size() >= kMostProfiles) known.clear();
  HardwareProfile profile = load_hardware(name);
  known.insert_or_assign(path, std::pair(stamp, profile));
  return profile;
}

HardwareProfile chosen_hardware(const RunConfig& config, std::string& note) {
  if (!config.machine.hardware.empty()) {
    HardwareProfile hardware = remembered_hardware(config.machine.hardware);
    if (config.machine.backend == Backend::emulated) hardware.unshare_processors();
    return hardware;
  }
  std::error_code error;
  const std::string of_gpu = default_cuda_profile_path();
  if (config.machine.backend == Backend::cuda && std::filesystem::exists(of_gpu, error))
    return remembered_hardware(of_gpu);
  const std::string path = default_profile_path();
  if (std::filesystem::exists(path, error)) {
    HardwareProfile hardware = remembered_hardware(path);
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
  const bool routing_counts =
      of_student || (config.spreads_teacher_experts() && given_teacher_steps(config).empty());
  if (routing_counts && note.find(even) == std::string::npos) {  // of another cell of a matrix
    if (!note.empty()) note += "; ";
    note += even;
  }
  return hardware;
}

}  // namespace plumbline
