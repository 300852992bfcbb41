// Complete evaluations (memory and time) per second of one thread: GPT-3 175B on 64 accelerators, by how the
// pipeline's time is found.
#include <benchmark/benchmark.h>

#include <string>

#include "analysis/hardware/profiles.hpp"
#include "analysis/search/search.hpp"
#include "analysis/search/sensitivity.hpp"
#include "bench/evaluate/cluster_schedule.hpp"

namespace plumbline {
namespace {

using cluster::Job;

void evaluate(benchmark::State& state, const std::string& schedule, int pipeline, int chunks) {
  cluster::PipelinePlans plans(make_cluster_schedule);
  cluster::Evaluator evaluator(cluster::built_in_profiles().machine("a100-sxm-80gb"),
                               cluster::built_in_profiles().generation("plumbline"), plans);
  Job job;
  job.model = cluster::model_of(*find_preset("gpt3-175b"));
  job.sequence = 2048;
  job.tensor = 8;
  job.pipeline = pipeline;
  job.data = 8 / pipeline;
  job.chunks = chunks;
  job.micro_batch = 2;
  job.microbatches = 192 / job.data / job.micro_batch;
  const std::uint8_t index = cluster::schedule_index(schedule, chunks);
  for (auto _ : state) {
    evaluator.set_job(job);
    if (!evaluator.set_schedule(index)) state.SkipWithError("the schedule does not allow these sizes");
    benchmark::DoNotOptimize(evaluator.evaluate(0, false));
  }
  state.counters["evaluations/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
  state.counters["simulated"] = evaluator.simulated() > 0 ? 1 : 0;
}

BENCHMARK_CAPTURE(evaluate, one_stage_closed_form, "1f1b", 1, 1);
BENCHMARK_CAPTURE(evaluate, gpipe_8_closed_form, "gpipe", 8, 1);
BENCHMARK_CAPTURE(evaluate, one_f_one_b_8, "1f1b", 8, 1);
BENCHMARK_CAPTURE(evaluate, zb_h1_4, "zb-h1", 4, 1);
BENCHMARK_CAPTURE(evaluate, zb_h1_8, "zb-h1", 8, 1);
BENCHMARK_CAPTURE(evaluate, zb_h2_8, "zb-h2", 8, 1);
BENCHMARK_CAPTURE(evaluate, interleaved_8_2, "interleaved", 8, 2);
BENCHMARK_CAPTURE(evaluate, interleaved_8_4, "interleaved", 8, 4);

}  // namespace
}  // namespace plumbline

BENCHMARK_MAIN();
