// Cost of the executor per action: a schedule whose actions do nothing, one rank, no transport.
#include <benchmark/benchmark.h>

#include <vector>

#include "core/run/executor.hpp"
#include "core/run/solo_communicator.hpp"

namespace plumbline {
namespace {

class IdleProgram final : public StageProgram {
 public:
  void run(const Action& /*action*/) override {}
  Matrix send_buffer(const Action& /*action*/) override { return {}; }
  Matrix receive_buffer(const Action& /*action*/) override { return {}; }
};

void executor_per_action(benchmark::State& state) {
  const auto microbatches = static_cast<std::uint32_t>(state.range(0));
  Schedule schedule;
  schedule.microbatches = static_cast<int>(microbatches);
  schedule.rank_of_stage = {0};
  schedule.actions.resize(1);
  for (std::uint32_t m = 0; m < microbatches; ++m) {
    schedule.actions[0].push_back({ActionType::forward, false, 0, m});
    schedule.actions[0].push_back({ActionType::backward, false, 0, m});
  }
  SoloCommunicator communicator;
  IdleProgram program;
  for (auto _ : state) benchmark::DoNotOptimize(execute(schedule, program, communicator, {0}));
  const double actions =
      static_cast<double>(state.iterations()) * static_cast<double>(schedule.actions[0].size());
  state.counters["s_per_action"] =
      benchmark::Counter(actions, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(executor_per_action)->Arg(8)->Arg(1024);

}  // namespace
}  // namespace plumbline

BENCHMARK_MAIN();
