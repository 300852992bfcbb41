// Time cost of saving memory: steps of the same training with recomputation and ZeRO in turn, as ratios of
// one run.
//   mpirun -n RANKS micro_savings [CONFIG keys as key=value ...]
// Default: three layers of Qwen2.5-0.5B's width, bf16, all ranks data parallel. Rounds = key `steps`.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "bench/measure/micro/config_arguments.hpp"
#include "bench/plan/plan.hpp"
#include "bench/training/stage/rank_stages.hpp"
#include "bench/training/trainer/step_data.hpp"
#include "bench/training/weights/weights.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/backends/mpi/session.hpp"
#include "core/base/statistics.hpp"
#include "core/config/config_checks.hpp"
#include "core/run/executor.hpp"
#include "kernels/cpu/cpu_operators.hpp"

namespace plumbline {
namespace {

using namespace training;

/// One way to train, with its own memory.
struct Variant {
  Variant(std::string label, const RunConfig& settings, Operators& operators, Communicator& communicator)
      : name(std::move(label)),
        config(settings),
        schedule(schedule_for(config)),
        stages(config, schedule, operators, communicator, arena) {
    load_weights(stages, random_weights(config.measure.seed, config.model.init_std));
  }
  std::string name;
  RunConfig config;
  Schedule schedule;
  Arena arena{{0}, host_memory()};
  RankStages stages;
  std::vector<double> steps;
  std::vector<double> forwards;  // time in F of a step
};

void run_step(Variant& variant, const StepTokens& tokens, Communicator& communicator) {
  variant.stages.start_step(tokens.inputs.data(), tokens.targets.data());
  communicator.barrier(Group::world);
  const Seconds start = communicator.now();
  const std::vector<Event> events = execute(variant.schedule, variant.stages, communicator, start);
  communicator.barrier(Group::world);
  variant.steps.push_back((communicator.now() - start).value);
  Seconds forward;
  for (const Event& event : events) {
    if (event.action.type == ActionType::forward) forward += event.end - event.start;
  }
  variant.forwards.push_back(forward.value);
}

int run(int argc, char** argv, const MpiSession& session) {
  ConfigDraft draft;
  draft.config.model = *find_preset("qwen2.5-0.5b");
  draft.config.model.layers = 3;
  draft.config.model.vocab = 4096;
  draft.config.batch.seq_length = 256;
  draft.config.batch.global_batch_size = std::int64_t{2} * session.ranks();
  draft.data_parallel_size = session.ranks();
  draft.config.measure.steps = 9;
  const RunConfig config = config_from_arguments(draft, argc, argv);
  if (const auto reason = why_invalid(config)) throw InputError(*reason);
  MpiCommunicator communicator(config.layout());
  const auto operators = make_cpu_operators();
  std::vector<std::unique_ptr<Variant>> variants;
  const auto add = [&](const char* name, Recompute recompute, int zero) {
    RunConfig changed = config;
    changed.recompute.granularity = recompute;
    changed.parallel.dp.zero_stage = zero;
    variants.push_back(std::make_unique<Variant>(name, changed, *operators, communicator));
  };
  add("plain", Recompute::none, 0);
  add("selective recomputation", Recompute::selective, 0);
  add("full recomputation", Recompute::full, 0);
  if (config.parallel.data() > 1) {
    add("ZeRO-1", Recompute::none, 1);
    add("ZeRO-2", Recompute::none, 2);
    add("ZeRO-3", Recompute::none, 3);
  }
  const StepData data(config, communicator.layout().coordinates(communicator.rank()).data);
  for (int round = 0; round <= config.measure.steps; ++round) {
    const StepTokens tokens = data.step(round);
    for (auto& variant : variants) run_step(*variant, tokens, communicator);
    if (round > 0) continue;
    for (auto& variant : variants) {  // the first round warms caches and memory up
      variant->steps.clear();
      variant->forwards.clear();
    }
  }
  if (session.rank() != 0) return 0;
  const double plain = upper_median(variants.front()->steps);
  fmt::print("{} ranks, median of {} rounds; plain: forward is {:.2f} % of the step\n", session.ranks(),
             config.measure.steps, 100 * upper_median(variants.front()->forwards) / plain);
  for (const auto& variant : variants) {
    std::vector<double> ratios;  // round by round, so that slow minutes of the machine cancel
    std::vector<double> beyond;
    for (std::size_t i = 0; i < variant->steps.size(); ++i) {
      ratios.push_back(variant->steps[i] / variants.front()->steps[i]);
      beyond.push_back((variant->steps[i] - variants.front()->steps[i] - variants.front()->forwards[i]) /
                       variants.front()->steps[i]);
    }
    fmt::print("{:<26}{:>10.2f} ms{:>9.2f} % of plain", variant->name, 1e3 * upper_median(variant->steps),
               100 * upper_median(ratios));
    if (variant->config.recompute.granularity == Recompute::full)
      fmt::print(", {:+.2f} % beyond one more forward", 100 * upper_median(beyond));
    fmt::print("\n");
  }
  return 0;
}

}  // namespace
}  // namespace plumbline

int main(int argc, char** argv) {
  const plumbline::MpiSession session(argc, argv);
  return session.guard([&] { return plumbline::run(argc, argv, session); });
}
