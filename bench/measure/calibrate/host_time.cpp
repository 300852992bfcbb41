#include "bench/measure/calibrate/host_time.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "analysis/predict/predict.hpp"
#include "bench/plan/plan.hpp"
#include "bench/training/trainer/trainer.hpp"
#include "core/base/statistics.hpp"
#include "core/run/solo_communicator.hpp"
#include "kernels/cpu/cpu_operators.hpp"

namespace plumbline::calibration {
namespace {

using HostClock = std::chrono::steady_clock;

/// Passes every call on and adds up the wall time inside.
class ClockedOperators final : public Operators {
 public:
  explicit ClockedOperators(Operators& inner) : inner_(inner) {}
  double take_inside() { return std::exchange(inside_, 0); }

#define PLUMBLINE_OPERATOR(type, name, parameters, arguments) \
  type name parameters override {                             \
    const Inside inside(inside_);                             \
    return inner_.name arguments;                             \
  }
#include "kernels/operator_list.inc"
  std::int64_t attention_scratch(const AttentionShape& shape, DType type) const override {
    return inner_.attention_scratch(shape, type);
  }

 private:
  class Inside {
   public:
    explicit Inside(double& sum) : sum_(sum) {}
    ~Inside() { sum_ += std::chrono::duration<double>(HostClock::now() - start_).count(); }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    double& sum_;
    HostClock::time_point start_ = HostClock::now();
  };

  Operators& inner_;
  double inside_ = 0;
};

/// Time outside of operators, step by step.
class OutsideTimes final : public StepObserver {
 public:
  explicit OutsideTimes(ClockedOperators& operators) : operators_(operators) {}
  void step_begins(int /*index*/) override { operators_.take_inside(); }
  void step_ends(Seconds /*origin*/, std::vector<Event>& /*events*/, Seconds& /*tensor*/) override {
    inside_.push_back(operators_.take_inside());
  }
  /// The lower quartile over the last steps.
  double outside(const std::vector<Seconds>& step_times) const {
    std::vector<double> outside;
    const std::size_t warmup = inside_.size() - step_times.size();
    for (std::size_t i = 0; i < step_times.size(); ++i)
      outside.push_back(step_times[i].value - inside_[warmup + i]);
    return value_at(outside, (outside.size() - 1) / 4);
  }

 private:
  ClockedOperators& operators_;
  std::vector<double> inside_;
};

RunConfig tiny(int layers, int microbatches) {
  RunConfig config;
  ModelConfig& model = config.model;
  model.name = "host-time";
  model.architecture = "llama";
  model.layers = layers;
  model.hidden = model.head_dim = 16;
  model.heads = model.kv_heads = 1;
  model.ffn = 32;
  model.vocab = 64;
  model.position.max = 16;
  config.parallel.make_vocab_size_divisible_by = 16;
  config.batch.seq_length = 16;
  config.batch.global_batch_size = microbatches;
  config.numerics.precision = DType::fp32;
  config.measure.warmup_steps = 2;
  config.measure.steps = 9;
  return config;
}

double outside_of(const RunConfig& config, Operators& operators) {
  ClockedOperators clocked(operators);
  OutsideTimes outside(clocked);
  SoloCommunicator communicator;
  const training::TrainingResult result = training::train(config, schedule_for(config), clocked, communicator,
                                                          communicator, host_memory(), {}, &outside);
  return outside.outside(result.step_times);
}

/// Number of times that the cost that is 1 in `unit` occurs in a step of the time model; everything else
/// takes next to nothing.
double count_in_step(const RunConfig& config, Seconds HardwareProfile::*cost) {
  HardwareProfile unit;
  unit.kind = Calibrated{1};
  unit.peak_fp32 = unit.peak_16bit = {1e30};
  unit.memory_bandwidth = unit.link_bandwidth = {1e30};
  unit.*cost = {1};
  return predict(config, schedule_for(config), unit).time.step.value;
}

/// One configuration: the count of each cost, and the host's time without allocations.
struct Sample {
  double calls = 0;
  double actions = 0;
  double seconds = 0;
};

/// Overhead of the clock around an operator in the time outside of it: the least of several samples.
double clock_cost(Operators& operators) {
  constexpr int kCalls = 4000;
  constexpr int kLooks = 9;
  float value = 0;
  const Matrix one(&value, 1, 1, DType::fp32);
  ClockedOperators clocked(operators);
  double least = 0;
  for (int look = 0; look < kLooks; ++look) {
    clocked.take_inside();
    const auto start = HostClock::now();
    for (int i = 0; i < kCalls; ++i) clocked.fill(one, 0);
    const double whole = std::chrono::duration<double>(HostClock::now() - start).count();
    const double outside = std::max(0.0, (whole - clocked.take_inside()) / kCalls);
    least = look == 0 ? outside : std::min(least, outside);
  }
  return least;
}

}  // namespace

Seconds measure_allocation() {
  constexpr int kTimes = 20'000;
  Arena arena({0}, host_memory());
  double quickest = 0;
  for (int look = 0; look < 5; ++look) {
    const auto start = HostClock::now();
    for (int i = 0; i < kTimes; ++i) arena.allocate(Category::workspace, "calibration", 16, 16, DType::fp32);
    const double each = std::chrono::duration<double>(HostClock::now() - start).count() / kTimes;
    quickest = look == 0 ? each : std::min(quickest, each);
  }
  return {quickest};
}

HostTime measure_host_time(Seconds allocation) {
  const std::unique_ptr<Operators> operators = make_cpu_operators();
  const double clock = clock_cost(*operators);
  const auto sample = [&](int layers, int microbatches) {
    const RunConfig config = tiny(layers, microbatches);
    Sample s;
    s.calls = count_in_step(config, &HardwareProfile::launch_overhead);
    s.actions = count_in_step(config, &HardwareProfile::action_overhead);
    s.seconds = outside_of(config, *operators) - clock * s.calls -
                allocation.value * count_in_step(config, &HardwareProfile::allocation);
    return s;
  };
  const Sample small = sample(2, 4);
  const Sample deep = sample(10, 4);
  const Sample many = sample(2, 16);
  HostTime host;
  host.call.value = std::max(0.0, (deep.seconds - small.seconds) / (deep.calls - small.calls));
  host.action.value =
      std::max(0.0, (many.seconds - small.seconds - host.call.value * (many.calls - small.calls)) /
                        (many.actions - small.actions));
  host.step.value =
      std::max(0.0, small.seconds - host.call.value * small.calls - host.action.value * small.actions);
  return host;
}

Seconds measure_cold_call(const HardwareProfile& profile) {
  constexpr int kLooks = 5;
  const std::unique_ptr<Operators> operators = make_cpu_operators();
  struct Excess {
    double calls = 0;
    double predicted = 0;
    double seconds = 0;  // the quickest look's lower quartile
  };
  const auto excess = [&](int layers) {
    const RunConfig config = tiny(layers, 4);
    Excess e;
    e.calls = count_in_step(config, &HardwareProfile::launch_overhead);
    e.predicted = predict(config, step_for(config), profile).time.step.value;
    for (int look = 0; look < kLooks; ++look) {
      SoloCommunicator communicator;
      const training::TrainingResult result = training::train(
          config, schedule_for(config), *operators, communicator, communicator, host_memory(), {}, nullptr);
      std::vector<double> steps;
      for (const Seconds step : result.step_times) steps.push_back(step.value);
      const double quiet = value_at(steps, (steps.size() - 1) / 4);
      e.seconds = look == 0 ? quiet : std::min(e.seconds, quiet);
    }
    return e;
  };
  const Excess small = excess(2);
  const Excess deep = excess(10);
  const double longer = (deep.seconds - deep.predicted) - (small.seconds - small.predicted);
  return {std::max(0.0, longer / (deep.calls - small.calls))};
}

}  // namespace plumbline::calibration
