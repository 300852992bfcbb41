// `plumbline history`: results folders of many dates and versions, and where cells changed.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bench/commands/commands.hpp"
#include "bench/commands/number_range.hpp"
#include "bench/show/history/history.hpp"
#include "bench/show/history/regression.hpp"
#include "bench/show/text/progress.hpp"
#include "bench/show/text/record_stream.hpp"
#include "bench/show/text/wrap.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

struct HistoryOptions {
  std::vector<std::string> folders;
  std::string format = "table";
  std::string tolerance = "2%";
  double significance = 0.001;
};

/// "2026-11-30" of results/2026-11-30/.
std::string short_name(const std::string& folder) {
  const std::filesystem::path path = std::filesystem::path(folder).lexically_normal();
  return path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
}

int run_history(const HistoryOptions& options) {
  if (options.folders.size() < 2)
    throw InputError("history: found one folder, expected at least two, the oldest first; add DIR");
  const ChangeRule rule{options.significance, parse_tolerance(options.tolerance)};
  std::vector<HistoryFolder> folders;
  folders.reserve(options.folders.size());
  for (const std::string& folder : options.folders)
    folders.push_back({short_name(folder), load_figures(folder)});
  const History history = history_of(folders, rule);
  const std::string text = options.format == "json" ? history_json(history)
                           : options.format == "html"
                               ? history_page(history)
                               : within_terminal(history_text(history, terminal_width(stdout)));
  std::fwrite(text.data(), 1, text.size(), stdout);
  return static_cast<int>(history.regressed() ? ExitCode::regressed : ExitCode::done);
}

}  // namespace

void add_history_command(CLI::App& app, CommandAction& action) {
  CLI::App* command = app.add_subcommand("history", "Find changes over results of many dates and versions");
  const auto options = std::make_shared<HistoryOptions>();
  command
      ->add_option("dirs", options->folders, "Folders written by `matrix`, or .jsonl files, the oldest first")
      ->required()
      ->type_name("DIR");
  command->add_option("--format", options->format, "Output format: terminal table, JSON or HTML page")
      ->check(CLI::IsMember({"table", "json", "html"}))
      ->capture_default_str();
  command->add_flag_callback(
      "--json", [options] { options->format = "json"; }, "The same as --format json");
  command
      ->add_option("--tolerance", options->tolerance,
                   "Smallest change of step time or peak memory that counts")
      ->type_name("PERCENT")
      ->capture_default_str();
  command
      ->add_option("--significance", options->significance,
                   "Largest chance that noise alone makes a change anywhere in the history")
      ->check(number_from(1e-12, 0.5))
      ->capture_default_str();
  command->callback([=, &action] { action = [=] { return run_history(*options); }; });
}

}  // namespace plumbline
