// The sums of gradients over ranks that hold the same parameters for another reason than data parallelism.
#include <algorithm>

#include "bench/training/parameters/views.hpp"
#include "bench/training/stage/step_end.hpp"

namespace plumbline::training {

void StepEnd::reduce_gradients() {
  rank_.gradients.finish_step();
  if (rank_.placement.routes > 1) reduce_between_copies();
}

void StepEnd::reduce_between_copies() {
  // Both ranks hold the same two parts, in opposite order.
  std::vector<const StageEntry*> stages;
  for (const StageEntry& stage : rank_.parameters.stages) stages.push_back(&stage);
  std::sort(stages.begin(), stages.end(),
            [](const StageEntry* a, const StageEntry* b) { return a->part.index < b->part.index; });
  Communicator& communicator = rank_.context.communicator;
  for (const StageEntry* stage : stages) {
    for (std::size_t i = 0; i < stage->parameters.unit_elements.size(); ++i) {
      const int unit = stage->first_unit + static_cast<int>(i);
      communicator.all_reduce(Group::mirror, rank_.memory.owned(rank_.memory.gradients, unit), ReduceOp::sum);
    }
    communicator.all_reduce(Group::mirror, stage_vectors(*stage, stage->parameters.vectors), ReduceOp::sum);
  }
}

void StepEnd::reduce_embedding() {
  const ModelConfig& model = rank_.context.model();
  // A critic, which has a head of its own, runs the schedule of its actor.
  if (rank_.context.frozen || (!model.embedding.tied && model.prediction_modules == 0)) return;
  for (const StageEntry& stage : rank_.parameters.stages) {
    if (!stage.part.first() && !stage.part.last()) continue;
    const bool own = stage.part.copies_embedding;
    const Parameter& copy = stage.parameters.find(stage.part.first() ? "embedding.weight"
                                                  : own              ? kEmbeddingCopy
                                                                     : "output.weight");
    rank_.context.communicator.all_reduce(
        Group::embedding, rank_.memory.owned(rank_.memory.gradients, stage.unit_of(copy)), ReduceOp::sum);
  }
}

// With fewer KV heads than tensor ranks, neighbours hold the same head. Each has seen only its own query
// heads, so the head's gradient is the sum over them.
void StepEnd::reduce_shared_kv_heads() {
  const TrainingContext& context = rank_.context;
  if (context.model().kv_heads >= context.tensor_size()) return;
  const LayerWidths& shape = context.shape;
  for (const StageEntry& stage : rank_.parameters.stages) {
    for (const Parameter& parameter : stage.parameters.list) {
      if (parameter.role == "qkv.weight") {
        // The part of the K and V rows that this data rank owns.
        const int unit = stage.unit_of(parameter);
        const std::int64_t owned_from = rank_.memory.owned_from(unit);
        const std::int64_t owned_end = owned_from + rank_.memory.owned_elements(unit);
        const std::int64_t first = std::max(parameter.offset + shape.query * parameter.cols, owned_from);
        const std::int64_t end = std::min(parameter.end(), owned_end);
        if (first >= end) continue;
        const Matrix owned = rank_.memory.owned(rank_.memory.gradients, unit);
        context.communicator.all_reduce(Group::shared_kv, owned.columns(first - owned_from, end - first),
                                        ReduceOp::sum);
      } else if (parameter.role == "qkv.bias") {
        const Matrix bias = vector_of(stage, parameter, rank_.memory.gradients);
        context.communicator.all_reduce(Group::shared_kv, bias.columns(shape.query, 2 * shape.key),
                                        ReduceOp::sum);
      }
    }
  }
}

// Each tensor rank has seen only its own heads. With sequence parallelism they are summed with the other
// vectors.
void StepEnd::reduce_head_norms() {
  const TrainingContext& context = rank_.context;
  if (context.frozen || !context.model().norms.qk || context.tensor_size() == 1 || context.sequence_parallel)
    return;
  for (const StageEntry& stage : rank_.parameters.stages) {
    for (const Parameter& parameter : stage.parameters.list) {
      if (parameter.role != "query_norm.weight") continue;  // that of the keys follows it
      const Matrix query = vector_of(stage, parameter, rank_.memory.gradients);
      const Matrix both(query.data, 1, 2 * query.cols, query.dtype);
      context.communicator.all_reduce(Group::tensor, both, ReduceOp::sum);
    }
  }
}

// With sequence parallelism each tensor rank has seen its own rows only.
void StepEnd::reduce_replicated_vectors() {
  if (rank_.context.frozen || !rank_.context.sequence_parallel) return;
  for (const StageEntry& stage : rank_.parameters.stages) {
    rank_.context.communicator.all_reduce(
        Group::tensor, stage_vectors(stage, stage.parameters.replicated_vectors), ReduceOp::sum);
  }
}

// A replicated factor of an adapter has seen its rank's part of the products only: the rows of B that go with
// A, or the columns of A that go with B.
void StepEnd::reduce_adapters() {
  const TrainingContext& context = rank_.context;
  if (!context.frozen || context.tensor_size() == 1) return;
  for (const StageEntry& stage : rank_.parameters.stages) {
    for (const Parameter& parameter : stage.parameters.list) {
      if (parameter.unit < 0 || !parameter.replicated || rank_.memory.unit(stage.unit_of(parameter)).frozen)
        continue;
      const int unit = stage.unit_of(parameter);
      const std::int64_t owned_from = rank_.memory.owned_from(unit);
      const std::int64_t first = std::max(parameter.offset, owned_from);
      const std::int64_t end = std::min(parameter.end(), owned_from + rank_.memory.owned_elements(unit));
      if (first >= end) continue;
      const Matrix owned = rank_.memory.owned(rank_.memory.gradients, unit);
      context.communicator.all_reduce(Group::tensor, owned.columns(first - owned_from, end - first),
                                      ReduceOp::sum);
    }
  }
}

Matrix StepEnd::stage_vectors(const StageEntry& stage, std::int64_t count) const {
  const Matrix& all = rank_.memory.gradients.vectors;
  return {all.at(0, stage.vector_offset), 1, count, all.dtype};
}

}  // namespace plumbline::training
