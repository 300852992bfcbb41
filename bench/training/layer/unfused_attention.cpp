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

}  // namespace plumbline::training
