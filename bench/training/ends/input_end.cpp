#include "bench/training/ends/input_end.hpp"

#include <utility>
#include <vector>

#include "bench/training/parameters/block_positions.hpp"
#include "bench/training/parameters/conversations.hpp"
#include "bench/training/parameters/views.hpp"

namespace plumbline::training {

InputEnd::InputEnd(RankResources& rank, const StageEntry& stage, EmbeddingShard* shard)
    : rank_(rank),
      shard_(shard),
      tensor_rank_(stage.part.tensor_rank),
      first_token_(tensor_rank_ * rank.context.shape.vocab) {
  if (shard == nullptr) {
    embedding_ = &stage.parameters.find("embedding.weight");
    embedding_unit_ = stage.unit_of(*embedding_);
    units_.push_back(embedding_unit_);
  }
  if (rank.context.model().position_rows() > 0) {
    positions_ = &stage.parameters.find("positions.weight");
    positions_unit_ = stage.unit_of(*positions_);
    units_.push_back(positions_unit_);
    if (rank.context.model().position.of_blocks) position_rows_ = make_position_rows();
  }
}

InputEnd::InputEnd(RankResources& rank, const StageEntry& stage, const Parameter& table)
    : rank_(rank),
      shard_(nullptr),
      embedding_(&table),
      units_{stage.unit_of(table)},
      embedding_unit_(units_.front()),
      tensor_rank_(stage.part.tensor_rank),
      first_token_(tensor_rank_ * rank.context.shape.vocab) {}

/// The rows of the table, which is two, that the tokens of a micro-batch read: (2, T).
Tensor InputEnd::make_position_rows() const {
  const TrainingContext& context = rank_.context;
  const BatchConfig& batch = context.config.batch;
  const std::int64_t tokens = context.shape.tokens;
  Tensor rows = context.arena.allocate(Category::workspace, "rows of positions", 2, tokens, DType::int32);
  if (context.config.machine.backend == Backend::emulated) return rows;  // reads no memory
  std::vector<std::int32_t> ids(static_cast<std::size_t>(2 * tokens));
  for (std::int64_t t = 0; t < tokens; ++t) {
    const BlockPosition at = block_position(t % batch.seq_length, batch.prefix_length);
    ids[static_cast<std::size_t>(t)] = static_cast<std::int32_t>(at.position);
    ids[static_cast<std::size_t>(tokens + t)] =
        static_cast<std::int32_t>(context.model().position.max + at.block);
  }
  context.operators.upload(ids.data(), rows);
  return rows;
}

void InputEnd::forward(const Matrix& tokens, const Matrix& x) const {
  const TrainingContext& context = rank_.context;
  const LayerWidths& shape = context.shape;
  Tensor full;
  if (context.sequence_parallel) {
    full = context.make(Category::workspace, "embedded sequence", shape.tokens, shape.hidden);
  }
  const Matrix all = full ? full.matrix() : x;
  context.operators.embedding_forward(tokens, view_of(*embedding_, rank_.values.begin()), first_token_, all);
  rank_.values.end();
  if (!full) context.reduce_over_tensor_ranks(all, ReduceOp::sum);
  add_positions(all);
  if (full) context.scatter_over_tensor_ranks(all, x);
}

void InputEnd::add_positions(const Matrix& x) const {
  const TrainingContext& context = rank_.context;
  const ModelConfig& model = context.model();
  if (model.embedding.scale != 1) context.operators.scale(x, model.embedding.scale);
  if (positions_ == nullptr) return;
  const Matrix table = view_of(*positions_, rank_.values.begin());
  // Before a sum over the ranks they count once; a split vocabulary's sum is done.
  const bool counts = !context.sequence_parallel || shard_ != nullptr || tensor_rank_ == 0;
  if (const Matrix& ids = rank_.shared.positions; counts && ids.data != nullptr) {
    context.operators.embedding_add(ids, from_first_position(table), x);
  } else if (counts && position_rows_) {
    for (const std::int64_t row : {0, 1})
      context.operators.embedding_add(position_rows_.matrix().row_range(row, 1), table, x);
  } else if (counts) {
    each_chunk(x, table, [&](const Matrix& rows, const Matrix& positions, std::int64_t seq) {
      context.operators.position_forward(rows, positions, seq);
    });
  }
  rank_.values.end();
}

/// The rows of a position table, or of its gradient, from position 0 on.
Matrix InputEnd::from_first_position(const Matrix& table) const {
  const std::int64_t offset = rank_.context.model().position.offset;
  return table.row_range(offset, table.rows - offset);
}

/// Calls `use(rows of x, rows of the table, tokens of a sequence)`: at once for whole sequences, else by
/// chunks or packed conversations.
template <class Use>
void InputEnd::each_chunk(const Matrix& x, const Matrix& table, Use&& use) const {
  const Matrix positions = from_first_position(table);
  if (const auto* const conversations = rank_.shared.conversations) {
    each_chunk_of(*conversations, rank_.context.chunks(),
                  [&](std::int64_t row, std::int64_t count, std::int64_t position) {
                    use(x.row_range(row, count), positions.row_range(position, count), count);
                  });
    return;
  }
  const SequenceChunks chunks = rank_.context.chunks();
  if (chunks.count == 1) return use(x, positions, chunks.length);
  for (std::int64_t row = 0; row < x.rows; row += chunks.length) {
    const std::int64_t first = chunks.position(row % chunks.tokens());
    use(x.row_range(row, chunks.length), positions.row_range(first, chunks.length), chunks.length);
  }
}

void InputEnd::finish_forward(std::uint32_t microbatch, Tensor& x) const {
  const TrainingContext& context = rank_.context;
  shard_->finish_forward(microbatch);
  add_positions(x);
  if (!context.sequence_parallel) return;
  Tensor own = context.make_stream(Category::activations, "layer input");
  context.operators.copy(context.own_rows(x), own);
  x = std::move(own);
}

void InputEnd::backward(std::uint32_t microbatch, const Matrix& tokens, Tensor& gradient) const {
  const TrainingContext& context = rank_.context;
  {
    // No family has learned positions as well, whose gradient would not be scaled.
    const double scale = context.model().embedding.scale;
    if (scale != 1) context.operators.scale(gradient, scale);
    AllRows all = context.gather_rows(gradient);
    if (shard_ == nullptr) {
      context.operators.embedding_backward(tokens, all, first_token_,
                                           view_of(*embedding_, rank_.gradients.open(embedding_unit_)));
      rank_.gradients.done(embedding_unit_);
    }
    if (positions_ != nullptr) {
      const Matrix table = view_of(*positions_, rank_.gradients.open(positions_unit_));
      if (position_rows_) {
        for (const std::int64_t row : {0, 1}) {
          context.operators.embedding_backward(position_rows_.matrix().row_range(row, 1), all, 0, table);
        }
      } else {
        each_chunk(all, table, [&](const Matrix& rows, const Matrix& positions, std::int64_t seq) {
          context.operators.position_backward(rows, positions, seq);
        });
      }
      rank_.gradients.done(positions_unit_);
    }
    if (shard_ != nullptr && all.held) gradient = std::move(all.held);
  }
  if (shard_ != nullptr) return shard_->start_backward(microbatch, std::move(gradient));
  gradient.reset();
}

}  // namespace plumbline::training
