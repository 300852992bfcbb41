// `plumbline bench`: collectives, messages and operators of this machine, beside their predictions.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <utility>

#include "bench/commands/benchmarks/bench_launch.hpp"
#include "bench/commands/benchmarks/bench_options.hpp"
#include "bench/commands/benchmarks/operator_bench.hpp"
#include "bench/commands/commands.hpp"
#include "bench/plan/collective_prediction.hpp"
#include "bench/processes/hosts/placement.hpp"
#include "bench/run/benched_rank.hpp"
#include "bench/show/text/progress.hpp"
#include "bench/show/views/benchmarks/collective_plot.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"
#include "core/base/standard_streams.hpp"

namespace plumbline {
namespace {

/// Rows on their way to the user: each gets its prediction and is printed at once.
class Printer {
 public:
  Printer(const BenchOptions& options, const BenchRequest& request, const Layout& layout)
      : options_(options),
        group_(request.group),
        layout_(layout),
        hardware_(bench_hardware(options)),
        table_(options.format(), options.backend, terminal_width(stdout)) {
    if (!options.plot.empty()) check_can_write(options.plot, "--plot");
  }

  void print(CollectiveRow row) {
    row.predicted_s = predicted_seconds(row, group_, layout_, hardware_);
    if (hardware_.calibration.known()) row.predicted_drift = hardware_.calibration.noise.messages;
    row.limit_s = seconds_at_limit(row, group_, layout_, hardware_);
    put(table_.row(row));
  }

  void end() {
    put(table_.end());
    if (!options_.plot.empty()) write_whole_file(options_.plot, collective_svg(table_.rows()));
  }

 private:
  static void put(const std::string& text) {
    fmt::print("{}", text);
    std::fflush(stdout);  // a run that is cut off has printed its results so far
  }

  const BenchOptions& options_;
  Group group_;
  Layout layout_;
  HardwareProfile hardware_;
  CollectiveTable table_;
};

int launch_ranks(const BenchOptions& options, bool quiet) {
  const Layout layout = checked_bench_layout(options);
  Printer printer(options, bench_request(options), layout);
  const int code = launch_bench(
      options, layout, [&](CollectiveRow row) { printer.print(std::move(row)); }, quiet);
  printer.end();
  return code;
}

int run_rank(const BenchOptions& options, int ranks) {
  const BenchRequest request = bench_request(options);
  const Layout layout = bench_layout(options, ranks);
  std::unique_ptr<Printer> printer;
  std::size_t done = 0;
  const int code = run_as_benched_rank(
      request, layout, bench_backend(options), options.registered, [&](const CollectiveRow& row) {
        if (options.rows) {
          fmt::print("{}\n", to_json(row).dump());
          std::fflush(stdout);
          say(fmt::format("step {} of {}\n", done + 1, done + 2));  // the launcher's time starts anew
          ++done;
          return;
        }
        if (!printer) printer = std::make_unique<Printer>(options, request, layout);
        printer->print(row);
      });
  if (printer) printer->end();
  return code;
}

int run_bench(const BenchOptions& options, bool quiet) {
  const Placement placement = find_placement(process_variables());
  require_mpi(placement);
  if (!placement.one_of_several()) return launch_ranks(options, quiet);
  if (placement.size == kUnknownNumber && options.ranks == 0) {
    throw InputError("--ranks: found nothing under a launcher that does not tell, expected their number");
  }
  return run_rank(options, placement.size);
}

}  // namespace

void add_bench_command(CLI::App& app, CommandAction& action) {
  CLI::App* command =
      app.add_subcommand("bench", "Measure collectives, messages and operators beside their predictions");
  const auto options = std::make_shared<BenchOptions>();
  add_bench_options(*command, options);
  command->callback([=, &app, &action] {
    action = [=, &app] {
      check_bench_options(*command, *options);
      return options->what == "operator" ? run_operator_bench(*options) : run_bench(*options, is_quiet(app));
    };
  });
}

}  // namespace plumbline
