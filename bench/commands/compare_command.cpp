// `plumbline compare`: the records of a folder as a table, a page or a file for other programs; or two
// folders against each other.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>

#include "bench/commands/commands.hpp"
#include "bench/record/record_store.hpp"
#include "bench/show/history/regression.hpp"
#include "bench/show/report/exports.hpp"
#include "bench/show/report/html_report.hpp"
#include "bench/show/text/progress.hpp"
#include "bench/show/text/record_stream.hpp"
#include "bench/show/text/record_tables.hpp"
#include "bench/show/text/wrap.hpp"
#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/base/standard_streams.hpp"

namespace plumbline {
namespace {

namespace fs = std::filesystem;

struct CompareOptions {
  std::string folder;
  std::string other;
  std::string format = "table";
  std::string tolerance;
  std::vector<std::string> columns;
  bool quiet = false;
};

std::string table_of(const std::vector<Record>& records, const std::vector<std::string>& columns) {
  TableStyle style = style_of_standard_output();
  style.columns = columns;
  return within_terminal(fmt::format("{}\n{}\n", to_table(records, style), to_line(summarize(records))));
}

/// Formats for other programs.
const std::map<std::string, std::string (*)(const std::vector<Record>&)>& formats() {
  static const std::map<std::string, std::string (*)(const std::vector<Record>&)> table = {
      {"megatron-bridge", to_megatron_bridge_csv}, {"google-benchmark", to_google_benchmark_json}};
  return table;
}

/// A note on a file whose last line is cut. A file that was named itself needs one whole record; that of a
/// folder may wait for the first.
void check_whole(const std::string& folder_or_file) {
  std::error_code error;
  const auto whole = RecordFile(folder_or_file).cut_after();
  const bool is_file = fs::is_regular_file(folder_or_file, error);
  if (is_file && (whole ? *whole == 0 : fs::file_size(folder_or_file, error) == 0)) {
    throw InputError(fmt::format("{}: found no whole record, expected one in every line; name another file",
                                 printable(folder_or_file)));
  }
  if (!whole) return;
  say(fmt::format("note: {}: the last line is incomplete: {} whole {} read\n", printable(folder_or_file),
                  *whole, *whole == 1 ? "record is" : "records are"));
}

int compare(const CompareOptions& options) {
  check_whole(options.folder);
  if (!options.other.empty()) check_whole(options.other);
  if (!options.columns.empty() && (options.format != "table" || !options.other.empty()))
    throw InputError("--columns: found another output, expected the table of one folder; leave it out");
  std::string text;
  ExitCode code = ExitCode::done;
  if (!options.other.empty()) {
    if (options.format != "table" && options.format != "json" && options.format != "html") {
      throw InputError(
          fmt::format("--format {}: found two folders, expected table, json or html; or name one folder",
                      options.format));
    }
    const double tolerance = options.tolerance.empty() ? 0.05 : parse_tolerance(options.tolerance);
    const Regression regression =
        compare_records(load_figures(options.folder), load_figures(options.other), tolerance);
    text = options.format == "json" ? to_json(regression, tolerance)
           : options.format == "html"
               ? to_html(regression, tolerance, fmt::format("{} and {}", options.folder, options.other))
               : to_text(regression, tolerance);
    if (regression.any_loss()) code = ExitCode::regressed;
  } else if (!options.tolerance.empty()) {
    throw InputError("--tolerance: compares two folders, expected BASE and NEW");
  } else if (options.format == "html") {
    Progress progress(1, 0, options.quiet ? nullptr : stderr);
    text = html_report_of(options.folder, [&](int done, int all) { progress.update(done, all, "cells"); });
  } else if (options.format == "json") {
    write_json_array(stdout, RecordStream(options.folder));
  } else if (options.format == "csv") {
    write_csv(stdout, RecordStream(options.folder));
  } else if (options.format == "table") {
    text = table_of(load_figures(options.folder), options.columns);
  } else {
    text = formats().at(options.format)(load_records(options.folder));
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
  return static_cast<int>(code);
}

}  // namespace

void add_compare_command(CLI::App& app, CommandAction& action) {
  CLI::App* command = app.add_subcommand("compare", "Show results of a matrix, or compare two");
  const auto options = std::make_shared<CompareOptions>();
  command->add_option("dir", options->folder, "Folder written by `matrix`, or a .jsonl file")
      ->required()
      ->type_name("DIR");
  command->add_option("new", options->other, "Later folder of the same matrix, to compare with DIR")
      ->type_name("NEW");
  command
      ->add_option("--format", options->format,
                   "Output format: terminal table, CSV, JSON, HTML page, CSV with Megatron-Bridge's columns, "
                   "JSON for Google Benchmark's compare.py")
      ->check(CLI::IsMember({"table", "csv", "json", "html", "megatron-bridge", "google-benchmark"}))
      ->capture_default_str();
  command->add_flag_callback(
      "--json", [options] { options->format = "json"; }, "The same as --format json");
  command
      ->add_option("--tolerance", options->tolerance,
                   "Growth of step time or peak memory that counts as a regression, default 5%")
      ->type_name("PERCENT");
  command
      ->add_option("--columns", options->columns,
                   "Columns of the table: keys that vary, memory, device, step, bubble, tokens")
      ->delimiter(',')
      ->type_name("NAME,...");
  command->callback([options, &app, &action] {
    action = [options, &app] {
      options->quiet = is_quiet(app);
      return compare(*options);
    };
  });
}

}  // namespace plumbline
