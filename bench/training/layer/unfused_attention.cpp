#include "bench/training/layer/unfused_attention.hpp"

namespace plumbline::training {

Tensor make_scores(const TrainingContext& context, Category category, const char* holder) {
  if (!is_unfused(context)) return {};
  const AttentionShape& shape = context.shape.attention;
  // Scores of the rank's tokens with whole sequences; if heads are exchanged, of whole sequences and some of
  // the heads.
  return context.make(category, holder, shape.batch * shape.heads * shape.seq,
                      context.config.batch.seq_length);
}

void make_unfused_attention(const TrainingContext& context, const AttentionShape& shape,
                            LayerActivations& saved) {
  if (!is_unfused(context)) return;
  saved.probabilities = make_scores(context, context.kept, "layer attention probabilities");
  if (shape.dropout.probability > 0) {
    const Matrix& whole = saved.probabilities;
    saved.probability_mask = context.arena.allocate(context.kept, "layer attention dropout mask", whole.rows,
                                                    whole.cols, DType::uint8);
    saved.dropped_probabilities = make_scores(context, context.kept, "layer dropped probabilities");
  }
  saved.repeated = context.make(context.kept, "layer keys and values per head", context.shape.tokens,
                                2 * (context.shape.query - context.shape.key));
}

}  // namespace plumbline::training
