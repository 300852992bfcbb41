#include "bench/commands/benchmarks/bench_launch.hpp"

#include <fmt/format.h>

#include <exception>
#include <string>
#include <vector>

#include "bench/evaluate/cell_process.hpp"
#include "bench/measure/machine/accelerator_name.hpp"
#include "bench/measure/machine/cuda_facts.hpp"
#include "bench/measure/machine/named_hardware.hpp"
#include "bench/plan/chosen_hardware.hpp"
#include "bench/processes/launch/interrupts.hpp"
#include "bench/processes/launch/launch.hpp"
#include "bench/run/benched_rank.hpp"
#include "core/base/error.hpp"
#include "core/base/standard_streams.hpp"

namespace plumbline {
namespace {

/// The words by which a rank gets the same request.
std::vector<std::string> bench_words(const BenchOptions& options, int ranks) {
  std::vector<std::string> words = {"bench", options.what};
  words.insert(words.end(), options.kinds.begin(), options.kinds.end());
  for (const auto& [option, value] :
       {std::pair("--sizes", options.sizes), std::pair("--type", options.type),
        std::pair("--group", options.group), std::pair("--backend", options.backend),
        std::pair("--time-limit", fmt::format("{}", options.limit_s)),
        std::pair("--ranks", fmt::format("{}", ranks))})
    words.insert(words.end(), {option, value});
  if (options.config.empty()) {
    for (const auto& [option, size] :
         {std::pair("--tp", options.tensor), std::pair("--cp", options.context),
          std::pair("--pp", options.pipeline), std::pair("--ep", options.expert)})
      words.insert(words.end(), {option, fmt::format("{}", size)});
  } else {
    words.insert(words.end(), {"--config", options.config});
  }
  if (options.registered) words.emplace_back("--registered");
  words.emplace_back("--rows");
  return words;
}

}  // namespace

HardwareProfile bench_hardware(const BenchOptions& options) {
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

Layout checked_bench_layout(const BenchOptions& options) {
  const std::vector<Host> hosts = chosen_hosts(options.launcher, process_variables());
  const Layout layout = bench_layout(options, slots_of(hosts));
  check_bench(bench_request(options), layout, bench_backend(options));
  if (bench_backend(options) == Backend::cuda) {
    if (const auto reason = why_no_cuda(cuda_facts())) throw InputError(*reason);
  }
  return layout;
}

int launch_measured(const MeasuredLaunch& asked, const std::function<void(const std::string&)>& on_json,
                    bool quiet) {
  std::vector<Host> hosts = asked.hosts;
  if (!hosts.empty()) hosts = hosts_for(hosts, asked.ranks);
  require_first(hosts);
  const Interrupts interrupts;
  LaunchSpec spec;
  spec.program = self_path();
  spec.arguments = asked.words;
  spec.ranks = asked.ranks;
  spec.hosts = hosts;
  spec.timeout_per_step = true;
  spec.bind_ranks = asked.backend == Backend::cpu;
  std::exception_ptr failure;  // of on_json, in the launcher's callback
  spec.on_tick = [&] { return !Interrupts::requested() && !failure; };
  spec.on_line = [&](const OutputLine& line) {
    if (line.rank == 0 && !line.error_stream && line.text.starts_with('{') && !failure) {
      try {
        on_json(line.text);
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
  const bool wrong =
      result.ending == Ending::exited && result.exit_code == static_cast<int>(ExitCode::regressed);
  if (!result.ok() && !wrong) {
    const auto [status, reason] = meaning_of(result);
    const bool late = status == Status::timeout;
    throw Error(fmt::format("{}: {}", name_of(status), reason),
                late ? ExitCode::rank_failed : exit_code_of(status));
  }
  return result.exit_code;
}

int launch_bench(const BenchOptions& options, const Layout& layout,
                 const std::function<void(CollectiveRow)>& on_row, bool quiet) {
  return launch_measured(
      {bench_words(options, layout.world()), layout.world(), bench_backend(options),
       chosen_hosts(options.launcher, process_variables())},
      [&](const std::string& text) { on_row(parse_collective_row(text, "rank 0")); }, quiet);
}

}  // namespace plumbline
