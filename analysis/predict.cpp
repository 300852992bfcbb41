#include "analysis/predict.hpp"

#include <algorithm>

#include "analysis/flops.hpp"
#include "analysis/simulator.hpp"

namespace plumbline {
namespace {

/// Share of a rank's computing that is tensor-parallel communication.
double tensor_share(const StageCostsPrediction& predicted) {
  Seconds tensor;
  Seconds all;
  for (std::size_t i = 0; i < predicted.tensor.size(); ++i) {
    tensor += predicted.tensor[i].forward + predicted.tensor[i].backward;
    all += predicted.costs.stages[i].forward + predicted.costs.stages[i].backward;
  }
  return all.value > 0 ? tensor / all : 0;
}

StepTime step_time(const Trace& trace, const StageCostsPrediction& predicted) {
  StepTime time;
  const Bubble bubble = bubble_of(trace);
  time.bubble_ratio = bubble.ratio;
  time.bubble_fraction = bubble.fraction;
  const Seconds window = trace.pipeline_end();
  const Seconds busy = window * (1 - bubble.fraction);
  time.exposed_tensor_s = busy * tensor_share(predicted);
  time.compute_s = busy - time.exposed_tensor_s;
  time.exposed_pipeline_s = window - busy;
  time.exposed_data_s = mean_in(trace, window, {ActionType::reduce_gradients, ActionType::reduce_embedding});
  time.optimizer_s = mean_in(trace, window, {ActionType::optimizer});
  time.step_s = trace.makespan() + predicted.costs.step_overhead;
  return time;
}

}  // namespace

Throughput throughput_of(const RunConfig& config, const HardwareProfile& hardware, Seconds step) {
  Throughput throughput;
  throughput.peak_tflops = hardware.peak(config.precision).value / 1e12;
  if (step.value <= 0) return throughput;
  const double tokens = static_cast<double>(config.global_batch_size * config.seq_length);
  throughput.tokens_per_s = tokens / step.value;
  throughput.tokens_per_s_per_gpu = throughput.tokens_per_s / config.layout().world();
  const double flops_per_token = model_flops_per_token(config.model, config.seq_length).value;
  throughput.model_tflops_per_gpu = throughput.tokens_per_s_per_gpu * flops_per_token / 1e12;
  throughput.mfu = throughput.model_tflops_per_gpu / throughput.peak_tflops;
  return throughput;
}

Prediction predict(const RunConfig& config, const Schedule& schedule, const HardwareProfile& hardware) {
  Prediction prediction;
  prediction.memory = predict_memory(config, schedule);
  prediction.budget = config.memory_budget.value > 0 ? config.memory_budget : hardware.memory;
  prediction.fits = prediction.memory.fits(prediction.budget);
  StageCostsPrediction predicted = stage_costs(config, schedule, hardware);
  prediction.trace = simulate(schedule, predicted.costs);
  prediction.time = step_time(prediction.trace, predicted);
  prediction.throughput = throughput_of(config, hardware, prediction.time.step_s);
  prediction.costs = std::move(predicted.costs);
  prediction.lines = std::move(predicted.lines);
  return prediction;
}

}  // namespace plumbline
