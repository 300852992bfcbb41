#include "bench/reports.hpp"

#include <algorithm>

#include "analysis/flops.hpp"

namespace plumbline {
namespace {

/// Mean time per pipeline rank in the reductions and the optimizer after the pipeline's part of the step.
Seconds mean_in(const Trace& trace, std::initializer_list<ActionType> types) {
  Seconds total;
  for (const auto& events : trace.ranks) {
    for (const Event& event : events) {
      if (std::find(types.begin(), types.end(), event.action.type) != types.end())
        total += event.end - event.start;
    }
  }
  return total / static_cast<double>(trace.ranks.size());
}

Seconds median(std::vector<Seconds> times) {
  std::sort(times.begin(), times.end());
  return times[(times.size() - 1) / 2];
}

}  // namespace

PredictionReport report_of(const Prediction& prediction) {
  std::vector<RankMemoryReport> ranks;
  for (const RankMemory& rank : prediction.memory.ranks)
    ranks.push_back({rank.rank, rank.pipeline_rank, rank.peak});
  PredictionReport report;
  report.fits = prediction.fits;
  report.memory = MemoryReport::of(std::move(ranks));
  const StepTime& time = prediction.time;
  report.time = {time.step_s,           time.bubble_ratio,       time.bubble_fraction, time.compute_s,
                 time.exposed_tensor_s, time.exposed_pipeline_s, time.exposed_data_s,  time.optimizer_s};
  const Throughput& throughput = prediction.throughput;
  report.throughput = {throughput.tokens_per_s, throughput.tokens_per_s_per_gpu,
                       throughput.model_tflops_per_gpu, throughput.mfu, throughput.peak_tflops};
  return report;
}

MeasurementReport report_of(const training::TrainingResult& result, const RunConfig& config,
                            const HardwareProfile& hardware) {
  MeasurementReport report;
  const Layout layout = config.layout();
  std::vector<RankMemoryReport> ranks;
  for (int rank = 0; rank < layout.world(); ++rank) {
    const training::RankMemory& memory = result.memory[static_cast<std::size_t>(rank)];
    ranks.push_back({rank, layout.coordinates(rank).pipeline, memory.at_peak});
    report.device_reserved = std::max(report.device_reserved, memory.reserved);
  }
  report.memory = MemoryReport::of(std::move(ranks));

  const Bubble bubble = bubble_of(result.trace);
  const Seconds window = result.trace.pipeline_end();
  const Seconds busy = window * (1 - bubble.fraction);
  report.time.step = median(result.step_times);
  report.time.bubble_ratio = bubble.ratio;
  report.time.bubble_fraction = bubble.fraction;
  report.time.exposed_tensor = result.tensor_communication;
  report.time.compute = busy - result.tensor_communication;
  report.time.exposed_pipeline = window - busy;
  report.time.exposed_data =
      mean_in(result.trace, {ActionType::reduce_gradients, ActionType::reduce_embedding});
  report.time.optimizer = mean_in(result.trace, {ActionType::optimizer});

  const Throughput throughput = throughput_of(config, hardware, report.time.step);
  report.throughput = {throughput.tokens_per_s, throughput.tokens_per_s_per_gpu,
                       throughput.model_tflops_per_gpu, throughput.mfu, throughput.peak_tflops};
  report.samples = static_cast<int>(result.step_times.size());
  report.step_min = *std::min_element(result.step_times.begin(), result.step_times.end());
  report.step_max = *std::max_element(result.step_times.begin(), result.step_times.end());
  report.loss = result.losses.back();
  return report;
}

ModelReport report_of(const ModelConfig& model, std::int64_t seq_length) {
  return {model.parameters(), model_flops_per_token(model, seq_length).value};
}

}  // namespace plumbline
