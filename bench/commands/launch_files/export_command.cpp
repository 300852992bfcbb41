// `plumbline export`: a configuration as a launch command of another framework.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>

#include "bench/ask/launch_text.hpp"
#include "bench/commands/commands.hpp"
#include "bench/commands/config_options.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"

namespace plumbline {
namespace {

struct ExportOptions {
  ConfigOptions config;
  std::string to;
};

int export_config(const ExportOptions& options) {
  const RunConfig config = options.config.load_with_notes();
  if (const std::optional<std::string> reason = why_invalid(config)) throw InputError(*reason);
  fmt::print("{}", launch_text(config, options.to));
  return static_cast<int>(ExitCode::done);
}

}  // namespace

void add_export_command(CLI::App& app, CommandAction& action) {
  CLI::App* command =
      app.add_subcommand("export", "Print a configuration as another framework's launch file");
  const auto options = std::make_shared<ExportOptions>();
  add_config_options(*command, options->config);
  command->add_option("--to", options->to, "Framework: megatron-lm, megatron-bridge, torchtitan or deepspeed")
      ->required()
      ->type_name("FRAMEWORK");
  command->callback([=, &action] { action = [=] { return export_config(*options); }; });
}

}  // namespace plumbline
