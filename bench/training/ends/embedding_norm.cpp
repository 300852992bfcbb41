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

void EmbeddingNorm::forward(Tensor& x, EmbeddedTokens& saved) const {
  if (!on_) return;
  const TrainingContext& context = rank_.context;
  const LayerWidths& shape = context.shape;
  saved.embedded = std::move(x);
  x = context.make_stream(context.kept, "layer input");
  saved.stats = context.make_fp32(context.kept, "embedding norm statistics", shape.norm_stats, shape.rows);
  norm_forward(context, saved.embedded, weight_, bias_, x, saved.stats);
}

void EmbeddingNorm::backward(Tensor& gradient, EmbeddedTokens& saved) const {
  if (!on_) return;
  Tensor before = rank_.context.make_stream(Category::workspace, "gradient of embedded tokens");
  norm_backward(rank_.context, gradient, saved.embedded, weight_, saved.stats, {}, before, weight_gradient_,
                bias_gradient_);
  gradient = std::move(before);
  saved.embedded.reset();
  saved.stats.reset();
}

}  // namespace plumbline::training
