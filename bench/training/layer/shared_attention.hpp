// Attention over sequences that ranks share (bench/training/context.md lists what is allocated when).
#pragma once

#include "bench/training/layer/layer.hpp"

namespace plumbline::training {

/// A layer's attention on a rank that has two chunks of every sequence.
class SharedAttention {
 public:
  SharedAttention(const TrainingContext& context, const MicrobatchDropout& dropout, const Layer& layer,
                  const Matrix& scratch)
      : context_(context),
        dropout_(dropout),
        layer_(layer.index),
        scratch_(scratch),
        chunks_(context.chunks()),
        key_(context.shape.key),
        tokens_(context.shape.tokens),
        batch_(context.shape.attention.batch),
        seq_(chunks_.tokens() * chunks_.ranks) {}

 protected:
  /// A workspace tensor of the storage type.
  Tensor make(const char* holder, std::int64_t rows, std::int64_t cols) const {
    return context_.make(kPassing, holder, rows, cols);
  }
  /// Rows of one of the rank's chunks in a tensor of all of them.
  Matrix rows(const Matrix& x, std::int64_t sequence, std::int64_t chunk) const {
    return x.row_range(sequence * chunks_.tokens() + chunk * chunks_.length, chunks_.length);
  }
  Matrix keys(const Matrix& both) const { return both.columns(0, key_); }
  Matrix values(const Matrix& both) const { return both.columns(key_, key_); }
  /// Of the same rows, every head's log-sum-exps.
  Matrix statistics(const LayerActivations& saved, std::int64_t sequence, std::int64_t chunk) const {
    const std::int64_t heads = context_.shape.attention.heads;
    return saved.log_sum_exp.matrix()
        .row_range(sequence * heads, heads)
        .columns(chunk * chunks_.length, chunks_.length);
  }
  template <class Use>
  void each_chunk(Use&& use) const {
    for (std::int64_t sequence = 0; sequence < batch_; ++sequence) {
      for (std::int64_t chunk = 0; chunk < chunks_.count; ++chunk) use(sequence, chunk);
    }
  }
  /// Every chunk of every rank, in a tensor by rank and in one by sequence and position.
  template <class Use>
  void each_chunk_of_all(Use&& use, const Matrix& by_rank, const Matrix& by_position) const {
    SequenceChunks other = chunks_;
    for (other.rank = 0; other.rank < chunks_.ranks; ++other.rank) {
      const Matrix piece = by_rank.row_range(other.rank * tokens_, tokens_);
      each_chunk([&](std::int64_t sequence, std::int64_t chunk) {
        use(rows(piece, sequence, chunk),
            by_position.row_range(sequence * seq_ + other.first(chunk), chunks_.length));
      });
    }
  }
  void to_positions(const Matrix& by_rank, const Matrix& by_position) const {
    each_chunk_of_all([&](const Matrix& from, const Matrix& to) { context_.operators.copy(from, to); },
                      by_rank, by_position);
  }
  void to_ranks(const Matrix& by_position, const Matrix& by_rank) const {
    each_chunk_of_all([&](const Matrix& to, const Matrix& from) { context_.operators.copy(from, to); },
                      by_rank, by_position);
  }

  const TrainingContext& context_;
  const MicrobatchDropout& dropout_;
  const std::int64_t layer_;
  const Matrix scratch_;
  const SequenceChunks chunks_;
  const std::int64_t key_;
  const std::int64_t tokens_;
  const std::int64_t batch_;
  const std::int64_t seq_;
};

/// Keys and values round a ring (Liu et al. 2023, arXiv:2310.01889): while a rank computes with those of one rank, those
/// of the next travel on, and backward the gradients of those before.
class RingAttention : public SharedAttention {
 public:
  using SharedAttention::SharedAttention;
  /// Overwrites saved.attention and saved.log_sum_exp.
  void forward(const QueryKeyValue& in, const LayerActivations& saved) const;
  /// Overwrites `out`.
  void backward(const QueryKeyValue& in, const LayerActivations& saved, const Matrix& output_gradient,
                const QueryKeyValue& out) const;

 private:
  enum Tag { kKeys = 1, kGradients = 2 };
  struct Passed {
    Ticket sent, received;
  };
  /// A block: one of the rank's chunks of queries with a chunk of the keys that are here.
  struct Block {
    SequenceChunks owner;
    std::int64_t sequence, queries, keys;
  };
  /// Where a step puts the gradients of the keys and values that are here, and of a part.
  struct Gradients {
    Matrix keys, values, query_part, key_part;
  };
  Tensor own_keys(const QueryKeyValue& in) const;
  /// `from` to the next rank, the previous one's into `to`.
  Passed pass_on(const Matrix& from, const Matrix& to, int tag) const;
  void wait(Passed& passed) const;
  int neighbour(int distance) const;
  /// The rank whose keys and values are here after so many steps.
  SequenceChunks after(int steps) const;
  /// Some query of the block sees some key of it.
  bool sees(const Block& block) const;
  /// A chunk of queries with its own keys, the first block of each.
  bool diagonal(const Block& block) const {
    return block.owner.first(block.keys) == chunks_.first(block.queries);
  }
  AttentionShape shape_of(const Block& block) const;
  void step_backward(int step, const QueryKeyValue& in, const LayerActivations& saved,
                     const Matrix& output_gradient, const Matrix& here, const Matrix& queries,
                     const Gradients& to) const;
};

/// Heads for sequences (DeepSpeed-Ulysses, Jacobs et al. 2023, arXiv:2309.14509): every rank has its part of the heads of
/// whole sequences, and gives back the results of the others' tokens.
class ExchangedAttention : public SharedAttention {
 public:
  using SharedAttention::SharedAttention;
  /// saved.qkv, by head and position from here on.
  void exchange(const LayerActivations& saved) const;
  /// Overwrites saved.attention, saved.attention_of_heads and saved.log_sum_exp.
  void forward(const QueryKeyValue& in, const LayerActivations& saved) const;
  /// Overwrites `out`, of the rank's tokens.
  void backward(const QueryKeyValue& in, const LayerActivations& saved, const Matrix& output_gradient,
                const QueryKeyValue& out) const;

 private:
  /// A rank's part of the heads: elements of a row of queries, of keys.
  std::int64_t query_width() const { return context_.shape.query / chunks_.ranks; }
  std::int64_t key_width() const { return key_ / chunks_.ranks; }
  std::int64_t all_width() const { return query_width() + 2 * key_width(); }
  /// A tensor with as many elements per row of the rank's tokens as all ranks' parts have, seen as rows of one part.
  Matrix by_part(const Matrix& x, std::int64_t width) const {
    return {x.data, chunks_.ranks * tokens_, width, x.dtype};
  }
  struct Heads {
    Matrix q, k, v;
  };
  /// Queries, keys and values of the rank's heads in a tensor of whole sequences.
  Heads of_heads(const Matrix& whole) const;
  /// Calls use(columns of x (T, ranks parts of `width`), the rows of the same in `parts` from column `first`) for every
  /// rank.
  template <class Use>
  void each_part(const Matrix& x, std::int64_t width, const Matrix& parts, std::int64_t first,
                 Use&& use) const {
    for (int member = 0; member < chunks_.ranks; ++member) {
      use(x.columns(member * width, width), parts.row_range(member * tokens_, tokens_).columns(first, width));
    }
  }
  void send(const Matrix& from, const Matrix& to) const;
  AttentionShape shape_of_heads() const;
  Matrix statistics_of_heads(const LayerActivations& saved) const;
};

}  // namespace plumbline::training
