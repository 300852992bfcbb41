// Complete predictions (memory, times, simulation) per second of one thread: common configurations, and some
// large ones.
#include <benchmark/benchmark.h>

#include <string>

#include "analysis/predict/predict.hpp"
#include "bench/plan/plan.hpp"
#include "core/config_text/load_config.hpp"

namespace plumbline {
namespace {

struct Case {
  const char* model;
  int world;
  int tensor;
  int pipeline;
  int batch;
  int zero;
};
constexpr Case kTour{"llama-3.1-8b", 8, 2, 4, 64, 0};
constexpr Case kOrdinary{"llama-3.1-8b", 64, 2, 4, 512, 1};
constexpr Case kFlat{"llama-3.1-8b", 64, 1, 1, 128, 3};
constexpr Case kLarge{"llama-3.1-70b", 512, 8, 8, 1024, 1};
constexpr Case kMillion{"llama-3.1-70b", 32, 1, 32, 1'000'000, 0};

RunConfig config_of(const Case& c) {
  RunConfig config;
  config.model = *find_preset(c.model);
  config.machine.hardware = "h100-sxm-80gb";
  config.parallel.world_size = c.world;
  config.parallel.tensor = c.tensor;
  config.parallel.pipeline = c.pipeline;
  config.parallel.sequence_parallel = c.tensor > 1;
  config.parallel.dp.zero_stage = c.zero;
  config.batch.seq_length = 4096;
  config.batch.global_batch_size = c.batch;
  config.numerics.precision = DType::bf16;
  return config;
}

/// From the configuration: its schedule is made as well.
void from_configuration(benchmark::State& state, const Case& c) {
  const RunConfig config = config_of(c);
  const HardwareProfile hardware = load_hardware(config.machine.hardware);
  for (auto _ : state) benchmark::DoNotOptimize(predict(config, step_for(config), hardware));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(from_configuration, tour, kTour)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(from_configuration, ordinary, kOrdinary)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(from_configuration, flat, kFlat)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(from_configuration, large, kLarge)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(from_configuration, million_microbatches, kMillion)->Unit(benchmark::kMicrosecond);

/// With an existing schedule.
void of_a_schedule(benchmark::State& state, const Case& c) {
  const RunConfig config = config_of(c);
  const HardwareProfile hardware = load_hardware(config.machine.hardware);
  const RepeatedSchedule step = step_for(config);
  for (auto _ : state) benchmark::DoNotOptimize(predict(config, step, hardware));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(of_a_schedule, tour, kTour)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(of_a_schedule, ordinary, kOrdinary)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(of_a_schedule, flat, kFlat)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(of_a_schedule, large, kLarge)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace plumbline

BENCHMARK_MAIN();
