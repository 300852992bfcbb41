// `plumbline calibrate`: measures this machine and writes a hardware profile.
#include <filesystem>
#include <memory>

#include "bench/calibrate.hpp"
#include "bench/commands.hpp"
#include "bench/evaluation.hpp"

namespace plumbline {

void add_calibrate_command(CLI::App& app, CommandAction& action) {
  CLI::App* command =
      app.add_subcommand("calibrate", "Measure this machine's operators and messages, at most 60 s");
  const auto options = std::make_shared<CalibrateOptions>();
  options->out = default_profile_path();
  command->add_option("--out", options->out, "Profile to write (default: ~/.cache/plumbline/profile.json)")
      ->type_name("PROFILE.json");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print the profile instead of writing it");
  command->add_option("--part", options->part)->group("");  // the ranks that calibration starts
  command->callback([=, &app, &action] {
    action = [=, &app] {
      options->quiet = is_quiet(app);
      if (*json) options->out.clear();
      const std::filesystem::path folder = std::filesystem::path(options->out).parent_path();
      std::error_code ignored;  // an unwritable place is reported by calibrate()
      if (!options->out.empty() && !folder.empty()) std::filesystem::create_directories(folder, ignored);
      return calibrate(*options);
    };
  });
}

}  // namespace plumbline
