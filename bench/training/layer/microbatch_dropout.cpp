#include "bench/training/layer/microbatch_dropout.hpp"

#include <algorithm>

namespace plumbline::training {

MicrobatchDropout::MicrobatchDropout(const TrainingContext& context, std::int64_t step,
                                     std::uint32_t microbatch)
    : context_(context),
      step_(step),
      rank_(context.communicator.layout().coordinates(context.communicator.rank())),
      chunks_(context.chunks()),
      first_row_((std::int64_t{microbatch} * context.config.parallel.data() + rank_.data / chunks_.ranks) *
                 context.shape.tokens * chunks_.ranks) {}

Dropout MicrobatchDropout::at(std::int64_t site, double probability, std::int64_t first_row) const {
  return {.probability = probability,
          .seed = static_cast<std::uint32_t>(context_.config.measure.seed),
          .step = static_cast<std::uint32_t>(step_),
          .site = static_cast<std::uint32_t>(site),
          .first_row = first_row};
}

AttentionShape MicrobatchDropout::attention(std::int64_t layer) const {
  AttentionShape shape = context_.shape.attention;
  shape.window = context_.model().window_of(layer);
  shape.dropout = at(dropout_site::attention_probabilities(layer), context_.config.numerics.attention_dropout,
                     first_row_);
  shape.first_head = rank_.tensor * shape.heads;
  return shape;
}

AttentionShape MicrobatchDropout::attention(std::int64_t layer, std::int64_t sequence,
                                            const SequenceChunks& chunks, std::int64_t chunk) const {
  AttentionShape shape = attention(layer);
  shape.batch = 1;
  shape.seq = chunks.length;
  shape.past = chunks.first(chunk);
  shape.dropout.first_row = first_row_ + sequence * context_.config.batch.seq_length + shape.past;
  return shape;
}

Tensor MicrobatchDropout::mask(std::int64_t site) const {
  if (!drops_hidden()) return {};
  const LayerWidths& shape = context_.shape;
  const std::int64_t own_rows = context_.sequence_parallel ? rank_.tensor * shape.rows : 0;
  Tensor mask =
      context_.arena.allocate(context_.kept, "dropout mask", shape.rows, shape.hidden, DType::uint8);
  const double probability = context_.config.numerics.hidden_dropout;
  if (chunks_.count == 1) {
    context_.operators.dropout_mask(at(site, probability, first_row_ + own_rows), mask);
    return mask;
  }
  for (std::int64_t row = 0; row < shape.rows;) {  // rows of a chunk are neighbours in the batch
    const std::int64_t sequence = (own_rows + row) / chunks_.tokens();
    const std::int64_t token = (own_rows + row) % chunks_.tokens();
    const std::int64_t rows = std::min(chunks_.length - token % chunks_.length, shape.rows - row);
    const std::int64_t first =
        first_row_ + sequence * context_.config.batch.seq_length + chunks_.position(token);
    context_.operators.dropout_mask(at(site, probability, first), mask.matrix().row_range(row, rows));
    row += rows;
  }
  return mask;
}

Tensor MicrobatchDropout::drop(std::int64_t site, const Matrix& x) const {
  Tensor drawn = mask(site);
  if (drawn) context_.operators.dropout_add(x, {}, {}, drawn, context_.config.numerics.hidden_dropout, x);
  return drawn;
}

Tensor MicrobatchDropout::add(std::int64_t site, const Matrix& y, const Matrix& bias, const Matrix& residual,
                              double factor) const {
  Tensor drawn = mask(site);
  if (!drawn) {
    context_.operators.add_multiple(y, residual, factor, bias, y);
    return drawn;
  }
  const bool whole = factor == 1;
  context_.operators.dropout_add(y, bias, whole ? residual : Matrix(), drawn,
                                 context_.config.numerics.hidden_dropout, y);
  if (!whole) context_.operators.add_multiple(y, residual, factor, {}, y);
  return drawn;
}

}  // namespace plumbline::training
