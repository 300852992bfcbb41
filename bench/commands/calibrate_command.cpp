// `plumbline calibrate`: measures this machine and writes a hardware profile, or records how steady it is.
#include <filesystem>
#include <memory>

#include "bench/commands/commands.hpp"
#include "bench/commands/number_range.hpp"
#include "bench/cuda/calibrate_cuda.hpp"
#include "bench/evaluate/evaluation.hpp"
#include "bench/measure/calibrate/calibrate.hpp"
#include "bench/measure/calibrate/noise.hpp"
#include "core/base/error.hpp"

namespace plumbline {

void add_calibrate_command(CLI::App& app, CommandAction& action) {
  CLI::App* command =
      app.add_subcommand("calibrate", "Measure this machine's operators and messages, at most 90 s");
  const auto options = std::make_shared<CalibrateOptions>();
  options->out = default_profile_path();
  command
      ->add_option("--out", options->out,
                   "Output profile (default: ~/.cache/plumbline/profile.json), or CSV of --noise")
      ->type_name("FILE");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print the profile instead of writing it");
  const auto backend = std::make_shared<std::string>("cpu");
  command
      ->add_option("--backend", *backend,
                   "Backend to calibrate: cpu (operators and messages), cuda (GPU memory of a process "
                   "besides tensors)")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command
      ->add_option(
          "--hardware", options->hardware,
          "Accelerator or profile with the other constants, for --backend cuda (default: by device name)")
      ->type_name("NAME");
  const auto recorded = std::make_shared<NoiseOptions>();
  const auto noisy = std::make_shared<bool>(false);
  CLI::Option* noise_option = command->add_flag(
      "--noise", *noisy,
      "Record machine noise instead: compute, memory and message speed per second, as CSV into --out "
      "with a summary on standard output, else to standard output");
  for (const char* other : {"--json", "--backend", "--hardware"}) noise_option->excludes(other);
  command->add_option("--minutes", recorded->minutes, "Length of the recording, in minutes (default: 10)")
      ->check(number_from(0.05, 1440.0))
      ->needs(noise_option)
      ->type_name("N");
  command->add_flag("--rank", recorded->rank)->group("");  // the recording's own ranks under mpirun
  // The ranks that calibration starts.
  command->add_option("--part", options->part)->group("");
  command->add_option("--seconds", options->seconds)->group("");
  command->add_option("--round", options->round)->group("");
  command->add_option("--known", options->known)->group("");
  command->add_option("--most-fp32", options->most_fp32)->group("");
  command->add_option("--most-bf16", options->most_bf16)->group("");
  command->callback([=, &app, &action] {
    action = [=, &app] {
      options->quiet = recorded->quiet = is_quiet(app);
      if (*noisy) {
        if (command->count("--out") > 0) recorded->out = options->out;
        return noise(*recorded);
      }
      if (*backend == "cuda" && command->count("--out") == 0) options->out = default_cuda_profile_path();
      if (*json) options->out.clear();
      const std::filesystem::path folder = std::filesystem::path(options->out).parent_path();
      std::error_code ignored;  // an unwritable place is reported by calibrate()
      if (!options->out.empty() && !folder.empty()) std::filesystem::create_directories(folder, ignored);
      if (*backend == "cuda") return calibrate_cuda(*options);
      if (!options->hardware.empty()) {
        throw InputError(
            "calibrate: --hardware: found with --backend cpu, expected --backend cuda; leave it out");
      }
      return calibrate(*options);
    };
  });
}

}  // namespace plumbline
