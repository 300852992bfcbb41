// `plumbline noise`: how steady this machine is.
#include "bench/measure/calibrate/noise.hpp"

#include <memory>

#include "bench/commands/commands.hpp"

namespace plumbline {

void add_noise_command(CLI::App& app, CommandAction& action) {
  CLI::App* command =
      app.add_subcommand("noise", "Record machine noise: compute, memory and message speed per second");
  const auto options = std::make_shared<NoiseOptions>();
  command->add_option("--minutes", options->minutes, "Length of the recording, in minutes (default: 10)")
      ->check(CLI::Range(0.05, 1440.0))
      ->type_name("N");
  command
      ->add_option("--out", options->out,
                   "Output CSV, with a summary on standard output; without it the CSV is printed")
      ->type_name("FILE.csv");
  command->add_flag("--rank", options->rank)->group("");  // the command's own ranks under mpirun
  command->callback([=, &app, &action] {
    action = [=, &app] {
      options->quiet = is_quiet(app);
      return noise(*options);
    };
  });
}

}  // namespace plumbline
