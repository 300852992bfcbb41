#include "bench/training/trainer.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "bench/training/step_data.hpp"
#include "bench/training/weight_files.hpp"
#include "bench/training/weights.hpp"

namespace plumbline::training {
namespace {

/// Sends any plain value from world rank 0 to everybody.
template <class T>
T from_first_rank(Communicator& communicator, T value) {
  static_assert(sizeof(T) % sizeof(std::int32_t) == 0);
  std::int32_t words[sizeof(T) / sizeof(std::int32_t)];
  std::memcpy(words, &value, sizeof(T));
  communicator.broadcast(Group::world, 0, Matrix(words, 1, std::ssize(words), DType::int32));
  std::memcpy(&value, words, sizeof(T));
  return value;
}

template <class T>
std::vector<T> from_every_rank(Communicator& communicator, const T& mine) {
  static_assert(sizeof(T) % sizeof(std::int32_t) == 0 && std::is_trivially_copyable_v<T>);
  constexpr std::int64_t kWords = sizeof(T) / sizeof(std::int32_t);
  std::vector<T> all(static_cast<std::size_t>(communicator.layout().world()));
  T copy = mine;
  communicator.all_gather(Group::world, Matrix(&copy, 1, kWords, DType::int32),
                          Matrix(all.data(), 1, kWords * std::ssize(all), DType::int32));
  return all;
}

/// Mean loss of the step on every rank: only last stages have a share, and every tensor rank has the same
/// one.
double mean_loss(Communicator& communicator, const TransformerStage& stage) {
  const std::vector<double> shares = from_every_rank(communicator, stage.loss());
  double sum = 0;
  for (int rank = 0; rank < communicator.layout().world(); ++rank) {
    if (communicator.layout().coordinates(rank).tensor == 0) sum += shares[static_cast<std::size_t>(rank)];
  }
  return sum;
}

struct StepMeasurement {
  Seconds time;
  Seconds tensor_communication;
  std::vector<Event> events;
};

StepMeasurement run_step(const Schedule& schedule, TransformerStage& stage, Communicator& communicator,
                         const StepTokens& tokens) {
  stage.start_step(tokens.inputs.data(), tokens.targets.data());
  communicator.barrier(Group::world);
  const Seconds origin = from_first_rank(communicator, communicator.now());
  StepMeasurement step;
  step.events = execute(schedule, stage, communicator, origin);
  const std::vector<double> ends = from_every_rank(communicator, (communicator.now() - origin).value);
  step.tensor_communication = stage.tensor_communication();
  step.time = {*std::max_element(ends.begin(), ends.end())};
  return step;
}

std::size_t median_index(const std::vector<Seconds>& times) {
  std::vector<std::size_t> order(times.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return times[a] < times[b]; });
  return order[(order.size() - 1) / 2];
}

}  // namespace

TrainingResult train(const RunConfig& config, const Schedule& schedule, Operators& operators,
                     Communicator& communicator, std::unique_ptr<MemorySource> memory,
                     const StepProgress& progress) {
  check_outputs(config);
  Arena arena(config.memory_budget, std::move(memory));
  TransformerStage stage(config, operators, communicator, arena);
  load_weights(stage, config.weights.empty() ? random_weights(config.seed, config.model.init_std)
                                             : checkpoint_weights(config.weights));
  const StepData data(config, communicator.layout().coordinates(communicator.rank()).data);

  TrainingResult result;
  std::vector<StepMeasurement> timed;
  const int all_steps = config.warmup_steps + config.steps;
  for (int step = 0; step < all_steps; ++step) {
    stage.keep_gradients(step == 0 && !config.save_gradients.empty());
    StepMeasurement measured = run_step(schedule, stage, communicator, data.step(step));
    result.losses.push_back(mean_loss(communicator, stage));
    if (step >= config.warmup_steps) {
      result.step_times.push_back(measured.time);
      timed.push_back(std::move(measured));
    }
    if (step == 0 && !config.save_gradients.empty()) save_gradients(stage, config.save_gradients);
    if (communicator.rank() == 0 && progress) progress(step + 1, all_steps);
  }
  if (!config.save_weights.empty()) save_weights(stage, config.save_weights);

  result.gradient_norm = stage.gradient_norm();
  if (!timed.empty()) {
    const StepMeasurement& median = timed[median_index(result.step_times)];
    result.trace = gather_trace(schedule, median.events, communicator);
    for (const double seconds : from_every_rank(communicator, median.tensor_communication.value)) {
      result.tensor_communication += {seconds / communicator.layout().world()};
    }
  }
  result.memory = from_every_rank(communicator, RankMemory{arena.at_peak(), arena.reserved()});
  result.traffic = communicator.traffic();
  return result;
}

}  // namespace plumbline::training
