// Gradient norm, clipping and the parameter update.
#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "bench/training/optimizers/elementwise.hpp"
#include "bench/training/optimizers/muon.hpp"
#include "bench/training/parameters/views.hpp"
#include "bench/training/stage/step_end.hpp"

namespace plumbline::training {
namespace {

/// Squared norm of all rows together. Neighbours in memory are summed at once.
NumberSum squared_norm(Operators& operators, std::vector<Matrix> rows) {
  std::sort(rows.begin(), rows.end(),
            [](const Matrix& a, const Matrix& b) { return std::less<>()(a.data, b.data); });
  NumberSum sum;
  for (std::size_t i = 0; i < rows.size();) {
    Matrix joined = rows[i++];
    for (; i < rows.size() && rows[i].data == joined.at(0, joined.cols); ++i) {
      joined = Matrix(joined.data, 1, joined.cols + rows[i].cols, joined.dtype);
    }
    sum.add(operators.squared_norm(joined));
  }
  return sum;
}

}  // namespace

StepEnd::StepEnd(RankResources& rank) : rank_(rank) {}

// Every element of the model counts once: replicated parameters on tensor rank 0; copies on data ranks on the
// first of them, where the sum runs over data ranks, and their pieces in the first optimizer instance; shared
// KV heads on their first holder; the tied embedding on the first stage; the two copies of a bidirectional
// schedule in the first.
std::vector<NumberSum> StepEnd::squared_sums() const {
  const TrainingContext& context = rank_.context;
  const Layout& layout = context.communicator.layout();
  const Coordinates at = layout.coordinates(context.communicator.rank());
  const bool whole =
      context.config.parallel.effective_zero_stage() == 0;  // on every rank that has copies of it
  const bool counts_data = !over_world() || at.data == 0;
  const bool counts_pieces = at.data < context.config.parallel.state_shards();
  const bool counts_experts = !over_world() || layout.expert_place(at).copy == 0;
  std::vector<NumberSum> sums;
  for (const StageEntry& stage : rank_.parameters.stages) {
    if (stage.part.route != 0) continue;
    for (std::size_t i = 0; i < stage.parameters.unit_elements.size(); ++i) {
      const Unit& unit = rank_.memory.unit(stage.first_unit + static_cast<int>(i));
      if (unit.frozen) continue;
      const bool spread = unit.spread;
      if (whole ? (spread ? counts_experts : counts_data) : counts_pieces)
        sums.push_back(squared_sum_of_unit(stage, static_cast<int>(i)));
    }
    if (counts_data && !context.frozen) sums.push_back(squared_sum_of_vectors(stage));
  }
  return sums;
}

NumberSum StepEnd::squared_sum_of_unit(const StageEntry& stage, int unit_of_stage) const {
  const TrainingContext& context = rank_.context;
  const int tensor_rank = stage.part.tensor_rank;
  const bool owns_kv = tensor_rank % context.communicator.layout().kv_sharing == 0;
  const int unit = stage.first_unit + unit_of_stage;
  const Matrix owned = rank_.memory.owned(rank_.memory.gradients, unit);
  const std::int64_t owned_from = rank_.memory.owned_from(unit);
  std::vector<Matrix> counted;
  for (const Parameter& parameter : stage.parameters.list) {
    if (parameter.unit != unit_of_stage || parameter.tied_copy) continue;
    if (parameter.replicated && tensor_rank != 0) continue;
    std::int64_t end = parameter.end();
    if (parameter.role == "qkv.weight" && !owns_kv) {
      end = parameter.offset + context.shape.query * parameter.cols;
    }
    const std::int64_t first = std::max(parameter.offset, owned_from) - owned_from;
    const std::int64_t last = std::min(end, owned_from + owned.cols) - owned_from;
    if (first < last) counted.push_back(owned.columns(first, last - first));
  }
  return squared_norm(context.operators, std::move(counted));
}

NumberSum StepEnd::squared_sum_of_vectors(const StageEntry& stage) const {
  const TrainingContext& context = rank_.context;
  const int tensor_rank = stage.part.tensor_rank;
  const bool owns_kv = tensor_rank % context.communicator.layout().kv_sharing == 0;
  std::vector<Matrix> counted;
  for (const Parameter& parameter : stage.parameters.list) {
    if (parameter.unit != kVector || (parameter.replicated && tensor_rank != 0)) continue;
    Matrix gradient = vector_of(stage, parameter, rank_.memory.gradients);
    if (parameter.role == "qkv.bias" && !owns_kv) gradient = gradient.columns(0, context.shape.query);
    counted.push_back(gradient);
  }
  return squared_norm(context.operators, std::move(counted));
}

// One replica has all elements, unless they are sharded over data ranks, or experts spread over these.
bool StepEnd::over_world() const {
  const RunConfig& config = rank_.context.config;
  return config.parallel.effective_zero_stage() > 0 || config.spreads_experts();
}

/// The host needs it: the one place of a step where it waits for the device.
double StepEnd::global_gradient_norm() const {
  const std::vector<NumberSum> sums = squared_sums();
  rank_.context.operators.synchronize();
  auto sum = static_cast<float>(total(sums));
  const Group group = over_world() ? Group::world : Group::model;
  rank_.context.communicator.all_reduce(group, Matrix(&sum, 1, 1, DType::fp32), ReduceOp::sum);
  return std::sqrt(static_cast<double>(sum));
}

void StepEnd::update() {
  const RunConfig& config = rank_.context.config;
  reduce_shared_kv_heads();
  reduce_head_norms();
  reduce_replicated_vectors();
  reduce_adapters();
  rank_.fp8.end_step(rank_.placement.routes);
  // An infinite gradient or NaN anywhere is one in the norm, which all ranks know.
  const double loss_scale = rank_.context.loss_scale();
  gradient_norm_ = global_gradient_norm() / loss_scale;
  const bool finite = std::isfinite(gradient_norm_);
  if (rank_.context.loss_scaler != nullptr) rank_.context.loss_scaler->end_step(finite);
  if (!finite) return;  // the weights stay, so that the step can be examined or the next one made
  ++updates_;
  const bool clips = config.optimizer.clip_grad > 0 && gradient_norm_ > config.optimizer.clip_grad;
  const double scale = (clips ? config.optimizer.clip_grad / gradient_norm_ : 1) / loss_scale;

  update_vectors(scale);
  for (const StageEntry& stage : rank_.parameters.stages) {
    for (int i = 0; i < std::ssize(stage.parameters.unit_elements); ++i) update_unit(stage, i, scale);
  }
  gather_values();
  update_expert_biases();
  rank_.fp8.quantize_weights();
}

void StepEnd::update_vectors(double gradient_scale) const {
  if (rank_.context.frozen) return;
  const ParameterMemory& memory = rank_.memory;
  const auto vectors = [](const ParameterSet& set) { return set ? set.vectors.matrix() : Matrix(); };
  update_elements(rank_.context.operators, rank_.context.config.optimizer,
                  {memory.values.vectors, memory.gradients.vectors, vectors(memory.master),
                   vectors(memory.moment1), vectors(memory.moment2)},
                  gradient_scale, updates_);
}

void StepEnd::update_unit(const StageEntry& stage, int unit_of_stage, double gradient_scale) const {
  const ParameterMemory& memory = rank_.memory;
  const OptimizerConfig& config = rank_.context.config.optimizer;
  const int unit = stage.first_unit + unit_of_stage;
  if (memory.unit(unit).frozen) return;
  if (config.muons() && memory.unit(unit).of == ParameterClass::matrix)
    return update_with_muon(rank_.context, memory, stage, unit_of_stage, gradient_scale);
  const auto owned = [&](const ParameterSet& set) { return set ? memory.owned(set, unit) : Matrix(); };
  update_elements(rank_.context.operators, config,
                  {owned(memory.values), owned(memory.gradients), owned(memory.master), owned(memory.moment1),
                   owned(memory.moment2), config.weight_decay},
                  gradient_scale, updates_);
}

void StepEnd::gather_values() const {
  const int zero = rank_.context.config.parallel.effective_zero_stage();
  if (zero != 1 && zero != 2) return;
  const bool ahead = rank_.context.config.parallel.effective_overlap_param_gather();
  for (int unit = 0; unit < rank_.memory.units(); ++unit) {
    if (rank_.memory.unit(unit).frozen) continue;
    if (ahead && !rank_.memory.unit(unit).shard) continue;  // the next forward gathers it
    rank_.context.communicator.all_gather(rank_.memory.unit(unit).group,
                                          rank_.memory.owned(rank_.memory.values, unit),
                                          rank_.memory.whole(rank_.memory.values, unit));
  }
}

}  // namespace plumbline::training
