#include "bench/training/ends/embedding_norm.hpp"

#include <utility>

#include "bench/training/layer/norm.hpp"
#include "bench/training/parameters/views.hpp"

namespace plumbline::training {

EmbeddingNorm::EmbeddingNorm(const RankResources& rank, const StageEntry& stage)
    : rank_(rank), on_(rank.context.model().embedding.norm) {
  if (!on_) return;
  const auto vector = [&](const char* role, const ParameterSet& set) {
    return vector_of(stage, stage.parameters.find(role), set);
  };
  weight_ = vector("embedding_norm.weight", rank.memory.values);
  weight_gradient_ = vector("embedding_norm.weight", rank.memory.gradients);
  if (rank.context.model().norms.kind != Norm::layer) return;
  bias_ = vector("embedding_norm.bias", rank.memory.values);
  bias_gradient_ = vector("embedding_norm.bias", rank.memory.gradients);
}

void EmbeddingNorm::forward(Tensor& x) const {
  if (!on_) return;
  const TrainingContext& context = rank_.context;
  const LayerWidths& shape = context.shape;
  Tensor y = context.make_stream(context.kept, "layer input");
  const Tensor stats =
      context.make_fp32(context.kept, "embedding norm statistics", shape.norm_stats, shape.rows);
  norm_forward(context, x, weight_, bias_, y, stats);
  x = std::move(y);
}

}  // namespace plumbline::training
