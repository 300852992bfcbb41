// Complete predictions (memory and time) per second of one thread, and bounds of a search: GPT-3 175B on 64
// accelerators, by schedule.
#include <benchmark/benchmark.h>

#include <string>

#include "analysis/predict/predict.hpp"
#include "analysis/search/evaluator.hpp"
#include "bench/plan/plan.hpp"

namespace plumbline {
namespace {

RunConfig gpt3(const std::string& schedule, int pipeline, int chunks) {
  RunConfig config;
  config.model = *find_preset("gpt3-175b");
  config.batch = {.seq_length = 2048, .micro_batch_size = 2, .global_batch_size = 192};
  config.numerics.precision = DType::bf16;
  config.machine.hardware = "a100-sxm-80gb";
  config.parallel.world_size = 64;
  config.parallel.tensor = 8;
  config.parallel.pipeline = pipeline;
  config.parallel.pp.virtual_chunks = chunks;
  config.parallel.pp.schedule = schedule;
  return config;
}

void rate(benchmark::State& state, const char* name) {
  state.counters[name] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

void prediction(benchmark::State& state, const std::string& schedule, int pipeline, int chunks) {
  const RunConfig config = gpt3(schedule, pipeline, chunks);
  const HardwareProfile& hardware = *find_hardware_preset(config.machine.hardware);
  for (auto _ : state) benchmark::DoNotOptimize(predict(config, step_for(config), hardware));
  rate(state, "predictions/s");
}

void bounds(benchmark::State& state, const std::string& schedule, int pipeline, int chunks) {
  const RunConfig config = gpt3(schedule, pipeline, chunks);
  SearchSchedules schedules(step_for);
  Evaluator evaluator(config, *find_hardware_preset(config.machine.hardware), schedules);
  const SearchKeys keys = keys_of(config);
  for (auto _ : state) benchmark::DoNotOptimize(evaluator.bounds(keys));
  rate(state, "bounds/s");
}

BENCHMARK_CAPTURE(prediction, one_stage, "1f1b", 1, 1);
BENCHMARK_CAPTURE(prediction, one_f_one_b_8, "1f1b", 8, 1);
BENCHMARK_CAPTURE(prediction, zb_h1_8, "zb-h1", 8, 1);
BENCHMARK_CAPTURE(prediction, interleaved_8_4, "interleaved", 8, 4);
BENCHMARK_CAPTURE(bounds, one_f_one_b_8, "1f1b", 8, 1);
BENCHMARK_CAPTURE(bounds, interleaved_8_4, "interleaved", 8, 4);

}  // namespace
}  // namespace plumbline

BENCHMARK_MAIN();
