#include "bench/evaluate/rank_output.hpp"

#include <fmt/format.h>

#include <utility>

#include "bench/evaluate/cell_process.hpp"
#include "bench/processes/launch/interrupts.hpp"
#include "bench/processes/launch/launch.hpp"
#include "bench/processes/launch/launch_output.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMostOutput = std::size_t{256} << 20;

}  // namespace

std::string output_of_ranks(const RunConfig& config, std::vector<std::string> arguments,
                            const std::string& folder, const std::string& lost,
                            const std::function<void(std::int64_t, std::int64_t)>& on_step) {
  const Interrupts interrupts;
  const std::string output = folder + "/output";
  LaunchSpec spec;
  spec.program = self_path();
  spec.arguments = std::move(arguments);
  spec.ranks = config.ranks();
  if (config.measure.timeout_s) spec.timeout = {*config.measure.timeout_s};
  spec.timeout_per_step = !config.measure.timeout_s;
  spec.bind_ranks = config.machine.backend == Backend::cpu;
  spec.environment = {{kRecordOutVariable, output}};
  spec.on_tick = [] { return !Interrupts::requested(); };
  spec.on_line = [&](const OutputLine& line) {
    if (const auto step = step_of(line)) on_step(step->first, step->second);
  };
  const LaunchResult result = launch(spec);
  if (result.ending == Ending::stopped) throw Error("stopped, " + lost);
  if (!result.ok()) {
    const auto [status, reason] = meaning_of(result);
    throw Error(fmt::format("{}: {}", name_of(status), reason), exit_code_of(status));
  }
  return read_text_file(output, kMostOutput);
}

}  // namespace plumbline
