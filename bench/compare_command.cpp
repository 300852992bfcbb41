// `plumbline compare`: the records of a folder as a table, a page, CSV or JSON.
#include <fmt/format.h>

#include <memory>

#include "bench/commands.hpp"
#include "bench/memory_comparison.hpp"
#include "bench/record_store.hpp"
#include "bench/report/html_report.hpp"
#include "bench/tables.hpp"

namespace plumbline {

namespace {

/// One line per measured cell: is memory as predicted, to the byte? With `tables` the peak in detail.
void print_memory(const std::string& folder, const std::vector<Record>& records, bool tables) {
  for (std::size_t i = 0; i < records.size(); ++i) {
    const std::string verdict = memory_verdict(records[i], load_timelines(folder, records[i].id));
    if (verdict.empty()) continue;
    fmt::print("#{} memory: {}\n", i + 1, verdict);
    if (tables) fmt::print("{}", memory_table(records[i]));
  }
}

}  // namespace

void add_compare_command(CLI::App& app, CommandAction& action) {
  CLI::App* command =
      app.add_subcommand("compare", "Show the results of a matrix: predicted beside measured");
  const auto folder = std::make_shared<std::string>();
  const auto format = std::make_shared<std::string>("table");
  command->add_option("dir", *folder, "Folder that `matrix` wrote")->required()->type_name("DIR");
  command->add_option("--format", *format, "Output format")
      ->check(CLI::IsMember({"table", "csv", "json", "html"}));
  command->add_flag_callback(
      "--json", [format] { *format = "json"; }, "The same as --format json");
  const auto memory = std::make_shared<bool>(false);
  command->add_flag(
      "--memory", *memory,
      "Also show, for every cell, the bytes by category at the peak, its action and who held most");
  command->callback([=, &action] {
    action = [=] {
      if (*format == "html") {
        fmt::print("{}", html_report_of(*folder));
        return 0;
      }
      const std::vector<Record> records = load_records(*folder);
      if (*format == "csv") {
        fmt::print("{}", to_csv(records));
      } else if (*format == "json") {
        fmt::print("{}\n", to_json_array(records));
      } else {
        fmt::print("{}\n{}\n", to_table(records, style_of_standard_output()), to_line(summarize(records)));
        print_memory(*folder, records, *memory);
      }
      return 0;
    };
  });
}

}  // namespace plumbline
