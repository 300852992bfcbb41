// `plumbline validate`: predictions for runs that others measured and published.
#include <fmt/format.h>

#include <memory>

#include "analysis/published/leave_one_out.hpp"
#include "analysis/published/published.hpp"
#include "bench/commands/commands.hpp"
#include "bench/plan/schedule_makers.hpp"
#include "bench/show/text/progress.hpp"
#include "bench/show/text/wrap.hpp"
#include "bench/show/views/published_errors.hpp"
#include "bench/show/views/validate_report.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"
#include "core/base/standard_streams.hpp"

namespace plumbline {
namespace {

struct ValidateOptions {
  std::string folder;
  std::string plot;
  std::string only;
  std::string group_by;
  bool json = false;
  bool rows = false;
  bool leave_one_out = false;
  bool intervals = false;
  bool changes = false;
  bool quiet = false;
};

std::string text_of(const std::vector<ComparedTable>& tables, const ValidateOptions& options) {
  if (options.json) return validation_json(tables);
  if (options.intervals) return held_out_text(tables);
  if (options.changes) return changes_text(tables, options.rows);
  return options.group_by.empty() ? validation_text(tables, options.rows)
                                  : validation_groups_text(tables, options.group_by);
}

/// The text says why each row is skipped.
bool lists_rows(const ValidateOptions& options) {
  return options.rows && !options.json && !options.intervals && !options.changes && options.group_by.empty();
}

int validate(const ValidateOptions& options) {
  const std::vector<PublishedTable> tables =
      options.folder.empty() ? built_in_tables() : read_tables(options.folder);
  if (options.leave_one_out) {
    std::vector<LeftOut> left;
    {
      Progress progress(1, 0, options.quiet ? nullptr : stderr);
      left = leave_one_out(tables, built_in_profiles(), schedule_makers(),
                           [&](int done, int all) { progress.update(done, all, "choices of constants"); });
    }
    fmt::print("{}", leave_one_out_text(left));
    return static_cast<int>(ExitCode::done);
  }
  std::vector<ComparedTable> compared;
  std::string names;
  Progress progress(1, 0, options.quiet ? nullptr : stderr);
  int done = 0;
  for (const PublishedTable& table : tables) {
    names += (names.empty() ? "" : ", ") + table.name;
    progress.update(done++, static_cast<int>(tables.size()), "tables");
    if (!options.only.empty() && table.name != options.only) continue;
    compared.push_back(compare_table(table, built_in_profiles(), schedule_makers()));
  }
  if (compared.empty()) {
    throw InputError(fmt::format("validate: --table: found {}, expected one of {}", options.only, names));
  }
  if (!options.plot.empty()) write_whole_file(options.plot, validation_svg(compared));
  const std::string text = text_of(compared, options);
  fmt::print("{}", options.json ? text : within_terminal(text));
  // Rows that are not modelled yet are expected; unreadable ones are for the user to correct.
  const std::vector<std::string> unreadable = unreadable_lines(compared);
  if (unreadable.empty()) return static_cast<int>(ExitCode::done);
  if (lists_rows(options)) {
    say("plumbline: validate: found unreadable rows, expected none; the table says why they are skipped\n");
  } else {
    for (const std::string& line : unreadable) say(fmt::format("plumbline: {}\n", line));
  }
  return static_cast<int>(ExitCode::bad_input);
}

}  // namespace

void add_validate_command(CLI::App& app, CommandAction& action) {
  CLI::App* command = app.add_subcommand("validate", "Compare predictions with published measurements");
  const auto options = std::make_shared<ValidateOptions>();
  command
      ->add_option("--tables", options->folder,
                   "Folder of .csv tables, such as your own runs, in place of the built-in ones")
      ->type_name("DIR");
  command->add_option("--table", options->only, "Name of the only table to compare")->type_name("NAME");
  command->add_option("--plot", options->plot, "Output file for a picture of the errors")
      ->type_name("FILE.svg");
  command
      ->add_option(
          "--group-by", options->group_by,
          "Grouping of the errors of all tables: source, hardware, software, precision or parallelism")
      ->type_name("KEY");
  command->add_flag("--json", options->json, "Print tables and rows as JSON");
  command->add_flag("--leave-one-out", options->leave_one_out,
                    "Cross-validation: constants fitted to all tables but one, error on that one");
  command->add_flag("--intervals", options->intervals,
                    "Coverage of 80 % error intervals, which rest on comparable runs of other sources");
  command->add_flag("--changes", options->changes,
                    "Predicted and published effect of single changes between runs");
  command->add_flag("--rows", options->rows, "Print every row or change");
  command->callback([=, &app, &action] {
    action = [=, &app] {
      options->quiet = is_quiet(app);
      return validate(*options);
    };
  });
}

}  // namespace plumbline
