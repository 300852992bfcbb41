// Cost of schedules: simulated actions per second, generation and checking, growth with the number of
// actions.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdio>
#include <random>

#include "analysis/simulate/simulation_plan.hpp"
#include "analysis/simulate/simulator.hpp"
#include "core/validate/deadlock.hpp"
#include "core/validate/validate.hpp"
#include "schedules/make_schedule.hpp"
#include "schedules/passes.hpp"

namespace plumbline {
namespace {

/// Every stage a little different.
Costs jittered(int stages) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> jitter(0.95, 1.05);
  Costs costs;
  for (int stage = 0; stage < stages; ++stage) {
    costs.stages.push_back({.forward = {1e-3 * jitter(random)},
                            .backward = {2e-3 * jitter(random)},
                            .backward_input = {1e-3 * jitter(random)},
                            .backward_weight = {1e-3 * jitter(random)}});
  }
  return costs;
}

std::int64_t actions_of(const Schedule& schedule) {
  std::size_t count = 0;
  for (const auto& actions : schedule.actions) count += actions.size();
  return static_cast<std::int64_t>(count);
}

double peak_resident_mib() {
  std::FILE* file = std::fopen("/proc/self/status", "r");
  char line[256];
  long kib = 0;
  while (file != nullptr && std::fgets(line, sizeof line, file) != nullptr) {
    if (std::sscanf(line, "VmHWM: %ld", &kib) == 1) break;
  }
  if (file != nullptr) std::fclose(file);
  return static_cast<double>(kib) / 1024;
}

/// A static schedule: its plan is made once, costs change from run to run.
void sweep_static(benchmark::State& state) {
  const Schedule schedule = one_f_one_b(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  const Costs costs = jittered(schedule.stages);
  const SimulationPlan plan(schedule, plan_options(costs));
  SweepTimes times;
  for (auto step : state) {
    sweep(plan, plan.prices(costs), times);
    benchmark::DoNotOptimize(times.clock.data());
  }
  state.SetItemsProcessed(state.iterations() * actions_of(schedule));
}
BENCHMARK(sweep_static)->Args({8, 64})->Args({64, 1024})->Unit(benchmark::kMicrosecond);

/// The same with transfers on links of their own; items are still compute actions.
void sweep_with_links(benchmark::State& state) {
  const Schedule schedule = one_f_one_b(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  Costs costs = jittered(schedule.stages);
  costs.transfer = {1e-5};
  costs.latency = {1e-6};
  const SimulationPlan plan(schedule, plan_options(costs));
  SweepTimes times;
  for (auto step : state) {
    sweep(plan, plan.prices(costs), times);
    benchmark::DoNotOptimize(times.clock.data());
  }
  state.SetItemsProcessed(state.iterations() * actions_of(schedule));
}
BENCHMARK(sweep_with_links)->Args({8, 64})->Args({64, 1024})->Unit(benchmark::kMicrosecond);

/// Plan and sweep, nothing kept.
void makespan_from_scratch(benchmark::State& state) {
  const Schedule schedule = one_f_one_b(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  const Costs costs = jittered(schedule.stages);
  for (auto step : state) benchmark::DoNotOptimize(simulate_makespan(schedule, costs));
  state.SetItemsProcessed(state.iterations() * actions_of(schedule));
}
BENCHMARK(makespan_from_scratch)->Args({8, 64})->Args({64, 1024})->Unit(benchmark::kMicrosecond);

/// The whole Trace.
void trace_from_scratch(benchmark::State& state) {
  const Schedule schedule = one_f_one_b(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  const Costs costs = jittered(schedule.stages);
  for (auto step : state) benchmark::DoNotOptimize(simulate(schedule, costs));
  state.SetItemsProcessed(state.iterations() * actions_of(schedule));
}
BENCHMARK(trace_from_scratch)->Args({8, 64})->Args({64, 1024})->Unit(benchmark::kMicrosecond);

/// Generation, transfers, validation and both deadlock checks.
void generate_and_check(benchmark::State& state, const char* name) {
  ScheduleRequest request;
  request.name = name;
  request.ranks = static_cast<int>(state.range(0));
  request.microbatches = static_cast<int>(state.range(1));
  for (auto step : state) {
    const Schedule schedule = add_transfers(make_schedule(request));
    validate(schedule);
    check_deadlock_free(schedule);
  }
}
BENCHMARK_CAPTURE(generate_and_check, one_f_one_b, "1f1b")->Args({64, 1024})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(generate_and_check, zb_h1, "zb-h1")->Args({64, 1024})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(generate_and_check, interleaved, "interleaved")
    ->Args({64, 1024})
    ->Unit(benchmark::kMillisecond);

/// 16,384 ranks × 512 micro-batches: generate, plan, sweep.
void sixteen_thousand_ranks(benchmark::State& state) {
  const Costs costs = jittered(16384);
  std::int64_t actions = 0;
  for (auto step : state) {
    const Schedule schedule = one_f_one_b(16384, 512);
    benchmark::DoNotOptimize(simulate_makespan(schedule, costs));
    actions = actions_of(schedule);
  }
  state.SetItemsProcessed(state.iterations() * actions);
  state.counters["peak_resident_MiB"] = peak_resident_mib();
}
BENCHMARK(sixteen_thousand_ranks)->Unit(benchmark::kMillisecond)->Iterations(1);

/// Time by number of actions, 64 ranks.
void growth(benchmark::State& state) {
  const Costs costs = jittered(64);
  std::int64_t actions = 0;
  for (auto step : state) {
    const Schedule schedule = one_f_one_b(64, static_cast<int>(state.range(0)));
    benchmark::DoNotOptimize(simulate_makespan(schedule, costs));
    actions = actions_of(schedule);
  }
  state.SetComplexityN(actions);
  state.SetItemsProcessed(state.iterations() * actions);
  state.counters["peak_resident_MiB"] = peak_resident_mib();
}
BENCHMARK(growth)
    ->RangeMultiplier(4)
    ->Range(64, 65536)
    ->Complexity(benchmark::oN)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plumbline

BENCHMARK_MAIN();
