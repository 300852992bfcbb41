// `plumbline bench`: collectives and messages of this machine, checked, beside their predictions.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <memory>

#include "bench/commands/benchmarks/bench_options.hpp"
#include "bench/commands/commands.hpp"
#include "bench/evaluate/cell_process.hpp"
#include "bench/measure/machine/accelerator_name.hpp"
#include "bench/measure/machine/cuda_facts.hpp"
#include "bench/measure/machine/named_hardware.hpp"
#include "bench/plan/chosen_hardware.hpp"
#include "bench/plan/collective_prediction.hpp"
#include "bench/processes/hosts/placement.hpp"
#include "bench/processes/launch/interrupts.hpp"
#include "bench/processes/launch/launch.hpp"
#include "bench/run/benched_rank.hpp"
#include "bench/show/views/collectives/collective_plot.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"
#include "core/base/standard_streams.hpp"

namespace plumbline {
namespace {

/// The profile that the times are compared with.
HardwareProfile profile_of(const BenchOptions& options) {
  RunConfig config;
  config.machine.backend = bench_backend(options);
  config.machine.hardware = options.hardware;
  if (!options.hardware.empty()) {
    name_hardware(config.machine.hardware);
  } else if (config.machine.backend == Backend::cuda && !cuda_facts().devices.empty()) {
    const CudaDevice& device = cuda_facts().devices.front();
    config.machine.hardware = accelerator_of(device.name, device.memory);
  }
  std::string note;
  HardwareProfile profile = hardware_of(config, note);
  if (!note.empty()) say(fmt::format("note: {}\n", note));
  return profile;
}

/// Rows on their way to the user: each gets its prediction and is printed at once.
class Printer {
 public:
  Printer(const BenchOptions& options, const BenchRequest& request, const Layout& layout)
      : options_(options),
        group_(request.group),
        layout_(layout),
        hardware_(profile_of(options)),
        table_(options.format(), options.backend) {
    if (!options.plot.empty()) check_can_write(options.plot, "--plot");
  }

  void print(CollectiveRow row) {
    row.predicted_s = predicted_seconds(row, group_, layout_, hardware_);
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
  const BenchRequest request = bench_request(options);
  std::vector<Host> hosts = chosen_hosts(options.launcher, process_variables());
  const Layout layout = bench_layout(options, slots_of(hosts));
  const Backend backend = bench_backend(options);
  check_bench(request, layout, backend);
  if (backend == Backend::cuda) {
    if (const auto reason = why_no_cuda(cuda_facts())) throw InputError(*reason);
  }
  if (!hosts.empty()) hosts = hosts_for(hosts, layout.world());
  require_first(hosts);
  Printer printer(options, request, layout);
  const Interrupts interrupts;
  LaunchSpec spec;
  spec.program = self_path();
  spec.arguments = command_line();
  spec.arguments.insert(spec.arguments.end(), {"--rows", fmt::format("--ranks={}", layout.world())});
  spec.ranks = layout.world();
  spec.hosts = hosts;
  spec.timeout_per_step = true;
  spec.bind_ranks = backend == Backend::cpu;
  std::exception_ptr failure;  // of printing, in the launcher's callback
  spec.on_tick = [&] { return !Interrupts::requested() && !failure; };
  spec.on_line = [&](const OutputLine& line) {
    if (line.rank == 0 && !line.error_stream && line.text.starts_with('{') && !failure) {
      try {
        printer.print(parse_collective_row(line.text, "rank 0"));
      } catch (...) {
        failure = std::current_exception();
      }
    } else if (line.error_stream && line.text.starts_with("note: ") && !quiet) {
      say(line.text + "\n");
    }
  };
  const LaunchResult result = launch(spec);
  if (failure) std::rethrow_exception(failure);
  if (result.ending == Ending::stopped) throw Error("stopped");
  const bool wrong = result.ending == Ending::exited && result.exit_code == 1;
  if (!result.ok() && !wrong) {
    const auto [status, reason] = meaning_of(result);
    const bool late = status == Status::timeout;
    throw Error(fmt::format("{}: {}", name_of(status), reason),
                late ? ExitCode::rank_failed : exit_code_of(status));
  }
  printer.end();
  return result.exit_code;
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
      app.add_subcommand("bench", "Measure collectives and messages, checked, beside their predictions");
  const auto options = std::make_shared<BenchOptions>();
  add_bench_options(*command, options);
  command->callback(
      [=, &app, &action] { action = [=, &app] { return run_bench(*options, is_quiet(app)); }; });
}

}  // namespace plumbline
