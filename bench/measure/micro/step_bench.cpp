// Time breakdown of one rank's training step, operator by operator, next to a profile's prediction.
//   micro_step [CONFIG keys as key=value ...]     default: Qwen2.5-0.5B, bf16, sequence 256
// hardware=PROFILE.json of this machine adds the predicted columns.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/predict/predict.hpp"
#include "bench/measure/micro/config_arguments.hpp"
#include "bench/plan/plan.hpp"
#include "bench/training/trainer/step_data.hpp"
#include "bench/training/trainer/timed_operators.hpp"
#include "bench/training/weights/weights.hpp"
#include "core/base/error.hpp"
#include "core/run/solo_communicator.hpp"
#include "kernels/cpu/cpu_operators.hpp"

namespace plumbline {
namespace {

/// The name under which TimedOperators has a predicted line.
std::string operator_of(const CostLine& line) {
  if (line.label == "attention forward") return "attention_forward";
  if (line.label == "attention backward") return "attention_backward";
  for (const char* pass : {"forward", "input_gradient", "weight_gradient"}) {
    if (line.flops.value > 0 && line.label.ends_with(std::string(" ") + pass))
      return std::string("gemm_") + pass;
  }
  return line.label;
}

/// Seconds of a step by operator, and under "" of all of it.
std::map<std::string, Seconds> predicted_times(const RunConfig& config) {
  std::map<std::string, Seconds> times;
  if (config.machine.hardware.empty()) return times;
  const Prediction prediction = predict(config, step_for(config), load_hardware(config.machine.hardware));
  for (const CostLine& line : prediction.lines) {
    const auto repeats = static_cast<double>(line.phase == "step" ? 1 : config.microbatches());
    times[operator_of(line)] += line.seconds * repeats;
  }
  times[""] = prediction.time.step;
  return times;
}

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
  const std::map<std::string, Seconds> predicted = predicted_times(config);
  std::vector<std::pair<std::string, OperatorTime>> sorted(timed.times().begin(), timed.times().end());
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  Seconds gemms;
  Seconds all;
  fmt::print("{:<26} {:>8} {:>12} {:>12} {:>8}{}\n", "operator", "calls", "ms per step", "us per call",
             "share %", predicted.empty() ? "" : "  predicted ms   error %  of step %");
  for (const auto& [name, time] : sorted) {
    const Seconds each = time.seconds / config.measure.steps;
    fmt::print("{:<26} {:>8} {:>12.3f} {:>12.2f} {:>8.2f}", name, time.calls / config.measure.steps,
               1e3 * each.value, 1e6 * time.seconds.value / static_cast<double>(time.calls),
               100 * (time.seconds / step));
    if (const auto found = predicted.find(name); found != predicted.end()) {
      fmt::print(" {:>13.3f} {:>+9.1f} {:>+10.2f}", 1e3 * found->second.value,
                 100 * (found->second / each - 1),
                 100 * ((found->second - each) / (step / config.measure.steps)));
    }
    fmt::print("\n");
    if (name.starts_with("gemm")) gemms += time.seconds;
    all += time.seconds;
  }
  fmt::print("step {:.3f} ms, GEMMs outside attention {:.1f} %, outside operators {:.1f} %\n",
             1e3 * step.value / config.measure.steps, 100 * (gemms / step), 100 * (1 - all / step));
  if (!predicted.empty()) {
    const Seconds whole = predicted.at("");
    Seconds inside;
    for (const auto& [name, time] : timed.times()) {
      if (const auto found = predicted.find(name); found != predicted.end()) inside += found->second;
    }
    fmt::print("predicted step {:.3f} ms, {:+.1f} %, outside operators {:.1f} %\n", 1e3 * whole.value,
               100 * (whole / (step / config.measure.steps) - 1), 100 * (1 - inside / whole));
  }
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
