// Router biases for the choice of experts follow the load (Wang et al. 2024, arXiv:2408.15664).
#include <map>
#include <numeric>
#include <vector>

#include "bench/training/parameters/views.hpp"
#include "bench/training/stage/step_end.hpp"

namespace plumbline::training {
namespace {

/// One step of an expert's bias: up below the mean load, down above it.
float towards_mean(float bias, float load, float mean, float rate) {
  if (load == mean) return bias;
  return load < mean ? bias + rate : bias - rate;
}

}  // namespace

// Tensor ranks route alike; if experts have their own sharding each counts only the tokens that it sends.
// Both copies of a bidirectional schedule have the same layers on a pair of ranks.
void StepEnd::update_expert_biases() const {
  const TrainingContext& context = rank_.context;
  const auto rate = static_cast<float>(context.config.mixture.bias_update_rate);
  if (rate == 0 || rank_.parameters.untrained == 0) return;
  const auto experts = static_cast<std::size_t>(context.model().mixture.experts);
  std::map<std::int64_t, std::size_t> place_of_layer;  // ascending, the same on every rank that has them
  for (const StageEntry& stage : rank_.parameters.stages) {
    for (const Parameter& parameter : stage.parameters.list)
      if (parameter.unit == kUntrained) place_of_layer[parameter.layer] = 0;
  }
  std::size_t next = 0;
  for (auto& [layer, place] : place_of_layer) place = experts * next++;
  std::vector<float> loads(place_of_layer.size() * experts);
  for (const ExpertLoad& load : rank_.expert_load) {
    float* const of_layer = loads.data() + place_of_layer.at(load.layer);
    for (std::size_t i = 0; i < experts; ++i) of_layer[i] += static_cast<float>(load.rows[i]);
  }
  const Matrix all(loads.data(), 1, static_cast<std::int64_t>(loads.size()), DType::fp32);
  context.communicator.all_reduce(Group::data, all, ReduceOp::sum);
  if (context.shape.folded) context.communicator.all_reduce(Group::tensor, all, ReduceOp::sum);
  if (rank_.placement.routes > 1) context.communicator.all_reduce(Group::mirror, all, ReduceOp::sum);
  std::vector<float> biases(experts);
  for (const StageEntry& stage : rank_.parameters.stages) {
    for (const Parameter& parameter : stage.parameters.list) {
      if (parameter.unit != kUntrained) continue;
      const Matrix all_biases = stage_untrained(rank_.memory, stage);
      const Matrix held(all_biases.at(0, parameter.offset), 1, parameter.cols, all_biases.dtype);
      context.operators.download(held, biases.data());
      const float* const of_layer = loads.data() + place_of_layer.at(parameter.layer);
      const float mean = std::accumulate(of_layer, of_layer + experts, 0.0F) / static_cast<float>(experts);
      for (std::size_t i = 0; i < experts; ++i) biases[i] = towards_mean(biases[i], of_layer[i], mean, rate);
      context.operators.upload(biases.data(), held);
    }
  }
}

}  // namespace plumbline::training
