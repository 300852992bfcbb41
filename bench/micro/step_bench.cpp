// Where one rank's training step spends its time, operator by operator.
//   micro_step [CONFIG keys as key=value ...]     default: Qwen2.5-0.5B, bf16, sequence 256
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bench/evaluate/plan.hpp"
#include "bench/micro/config_arguments.hpp"
#include "bench/training/trainer/step_data.hpp"
#include "bench/training/trainer/timed_operators.hpp"
#include "bench/training/weights/weights.hpp"
#include "core/base/error.hpp"
#include "core/run/solo_communicator.hpp"
#include "kernels/cpu/cpu_operators.hpp"

namespace plumbline {
namespace {

int run(int argc, char** argv) {
  using namespace training;
  ConfigDraft draft;
  draft.config.model = *find_preset("qwen2.5-0.5b");
  draft.config.batch.seq_length = 256;
  draft.config.batch.global_batch_size = 2;
  const RunConfig config = config_from_arguments(draft, argc, argv);
  const auto operators = make_cpu_operators();
  TimedOperators timed(*operators);
  SoloCommunicator communicator;
  Arena arena({}, host_memory());
  const Schedule schedule = schedule_for(config);
  RankStages stage(config, schedule, timed, communicator, arena);
  load_weights(stage, random_weights(config.measure.seed, config.model.init_std));
  const StepData data(config, 0);
  Seconds step;
  for (int i = 0; i < config.measure.warmup_steps + config.measure.steps; ++i) {
    if (i == config.measure.warmup_steps) {
      timed.clear();
      step = {};
    }
    const StepTokens tokens = data.step(i);
    const Seconds start = communicator.now();
    stage.start_step(tokens.inputs.data(), tokens.targets.data());
    execute(schedule, stage, communicator, start);
    step += communicator.now() - start;
  }
  std::vector<std::pair<std::string, OperatorTime>> sorted(timed.times().begin(), timed.times().end());
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  Seconds gemms;
  Seconds all;
  fmt::print("{:<26} {:>8} {:>12} {:>12} {:>8}\n", "operator", "calls", "ms per step", "us per call",
             "share %");
  for (const auto& [name, time] : sorted) {
    fmt::print("{:<26} {:>8} {:>12.3f} {:>12.2f} {:>8.2f}\n", name, time.calls / config.measure.steps,
               1e3 * time.seconds.value / config.measure.steps,
               1e6 * time.seconds.value / static_cast<double>(time.calls), 100 * (time.seconds / step));
    if (name.starts_with("gemm")) gemms += time.seconds;
    all += time.seconds;
  }
  fmt::print("step {:.3f} ms, GEMMs outside attention {:.1f} %, outside operators {:.1f} %\n",
             1e3 * step.value / config.measure.steps, 100 * (gemms / step), 100 * (1 - all / step));
  return 0;
}

}  // namespace
}  // namespace plumbline

int main(int argc, char** argv) {
  try {
    return plumbline::run(argc, argv);
  } catch (const plumbline::Error& error) {
    fmt::print(stderr, "micro_step: {}\n", error.what());
    return static_cast<int>(error.code());
  }
}
