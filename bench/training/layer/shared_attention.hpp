// Attention under context parallelism (bench/training/context.md lists what is allocated when).
#pragma once

#include <vector>

#include "bench/training/layer/attention_tensors.hpp"
#include "bench/training/layer/microbatch_dropout.hpp"

namespace plumbline::training {

/// A layer's attention on a rank that has two chunks of every sequence. `together`: so many neighbours have
/// exchanged their heads; each has the chunks of all of them, for its part of the heads. `packed`: the
/// sequences are conversations.
class SharedAttention {
 public:
  SharedAttention(const TrainingContext& context, const MicrobatchDropout& dropout, std::int64_t layer,
                  const Matrix& scratch, int together = 1, const Conversations* packed = nullptr)
      : context_(context),
        dropout_(dropout),
        layer_(layer),
        scratch_(scratch),
        together_(together),
        chunks_(packed != nullptr ? context.chunks().of_neighbours(packed->ranks)
                                  : context.chunks().of_group(together)),
        heads_(context.shape.attention.heads / together),
        query_(context.shape.query / together),
        key_(context.shape.key / together),
        value_(context.shape.value / together),
        attended_(context.shape.attended / together),
        tokens_(context.shape.tokens * together),
        batch_(context.shape.attention.batch),
        seq_(chunks_.tokens() * chunks_.ranks) {
    std::int64_t row = 0;
    const auto add = [&](const SequenceChunks& chunks) {
      parts_.push_back({row, chunks});
      row += chunks.tokens();
    };
    if (packed != nullptr) {
      for (const std::int64_t rows : packed->lengths)
        add(context.chunks().of_conversation(rows, packed->ranks));
    } else {
      for (std::int64_t sequence = 0; sequence < batch_; ++sequence) add(chunks_);
    }
  }

 protected:
  /// A workspace tensor of the storage type.
  Tensor make(const char* holder, std::int64_t rows, std::int64_t cols) const {
    return context_.make(kPassing, holder, rows, cols);
  }
  /// A sequence's, or conversation's, rows on this rank.
  struct Part {
    std::int64_t row;
    SequenceChunks chunks;
  };
  const Part& part(std::int64_t sequence) const { return parts_[static_cast<std::size_t>(sequence)]; }
  /// Rows of one of the rank's chunks in a tensor of all of them.
  Matrix rows(const Matrix& x, std::int64_t sequence, std::int64_t chunk) const {
    const Part& of = part(sequence);
    return x.row_range(of.row + chunk * of.chunks.length, of.chunks.length);
  }
  Matrix keys(const Matrix& both) const { return both.columns(0, key_); }
  Matrix values(const Matrix& both) const { return both.columns(key_, value_); }
  /// Log-sum-exps of the same rows, for every head.
  Matrix statistics(const Matrix& log_sum_exp, std::int64_t sequence, std::int64_t chunk) const {
    const std::int64_t tokens = tokens_ / batch_;  // conversations are packed into one sequence
    const Matrix all{log_sum_exp.data, batch_ * heads_, tokens, log_sum_exp.dtype};
    const Part& of = part(sequence);
    return all.row_range(of.row / tokens * heads_, heads_)
        .columns(of.row % tokens + chunk * of.chunks.length, of.chunks.length);
  }
  template <class Use>
  void each_chunk(Use&& use) const {
    for (std::int64_t sequence = 0; sequence < std::ssize(parts_); ++sequence) {
      for (std::int64_t chunk = 0; chunk < part(sequence).chunks.count; ++chunk) use(sequence, chunk);
    }
  }
  /// Every chunk of `members` neighbours, this rank among them, in a tensor by rank and in one by sequence
  /// and position.
  template <class Use>
  void each_chunk_of(int members, Use&& use, const Matrix& by_rank, const Matrix& by_position) const {
    const SequenceChunks group = chunks_.of_group(members);
    SequenceChunks other = chunks_;
    for (int member = 0; member < members; ++member) {
      other.rank = group.rank * members + member;
      const Matrix piece = by_rank.row_range(member * tokens_, tokens_);
      each_chunk([&](std::int64_t sequence, std::int64_t chunk) {
        const std::int64_t row = sequence * group.tokens() + group.token(other.first(chunk));
        use(rows(piece, sequence, chunk), by_position.row_range(row, chunks_.length));
      });
    }
  }
  void to_positions(int members, const Matrix& by_rank, const Matrix& by_position) const {
    each_chunk_of(
        members, [&](const Matrix& from, const Matrix& to) { context_.operators.copy(from, to); }, by_rank,
        by_position);
  }
  void to_ranks(int members, const Matrix& by_position, const Matrix& by_rank) const {
    each_chunk_of(
        members, [&](const Matrix& to, const Matrix& from) { context_.operators.copy(from, to); }, by_rank,
        by_position);
  }

  const TrainingContext& context_;
  const MicrobatchDropout& dropout_;
  const std::int64_t layer_;
  const Matrix scratch_;
  const int together_;
  const SequenceChunks chunks_;
  const std::int64_t heads_;
  const std::int64_t query_;
  const std::int64_t key_;
  const std::int64_t value_;     // as keys, but with latent attention
  const std::int64_t attended_;  // of attention's result: as queries, but with latent attention
  const std::int64_t tokens_;
  const std::int64_t batch_;
  const std::int64_t seq_;
  std::vector<Part> parts_;
};

/// Ring exchange of keys and values (Liu et al. 2023, arXiv:2310.01889): while a rank computes with one
/// rank's K/V, the next rank's are in transit. In the backward so are the gradients of the previous ones.
/// Conversations go round the rings of the ranks that split them, all of a rank's together.
class RingAttention : public SharedAttention {
 public:
  using SharedAttention::SharedAttention;
  /// Attention of conversations.
  RingAttention(const TrainingContext& context, const MicrobatchDropout& dropout, std::int64_t layer,
                const SharedBuffers& shared)
      : SharedAttention(context, dropout, layer, shared.attention_scratch, 1, shared.conversations),
        attended_pairs_(shared.attended_pairs) {}
  /// Results of attention for the rank's tokens and heads.
  struct Results {
    Matrix attention, log_sum_exp;
  };
  /// Overwrites `results`.
  void forward(const QueryKeyValue& in, const Results& results) const;
  /// Overwrites `out`.
  void backward(const QueryKeyValue& in, const Results& results, const Matrix& output_gradient,
                const QueryKeyValue& out) const;
  /// The same with a layer's kept tensors.
  void forward(const QueryKeyValue& in, const AttentionTensors& saved) const {
    forward(in, results_of(saved));
  }
  void backward(const QueryKeyValue& in, const AttentionTensors& saved, const Matrix& output_gradient,
                const QueryKeyValue& out) const {
    backward(in, results_of(saved), output_gradient, out);
  }

 private:
  double* attended_pairs_ = nullptr;  // gets the backwards' pairs of tokens
  static Results results_of(const AttentionTensors& saved) { return {saved.attention, saved.log_sum_exp}; }
  enum Tag { kKeys = 1, kGradients = 2 };
  struct Passed {
    Ticket sent, received;
  };
  /// A block: one of the rank's chunks of queries with a chunk of the keys that are here.
  struct Block {
    SequenceChunks owner;
    std::int64_t sequence, queries, keys;
  };
  /// Destinations of a step's gradients: of the local keys and values, and of a part.
  struct Gradients {
    Matrix keys, values, query_part, key_part;
  };
  Tensor own_keys(const QueryKeyValue& in) const;
  /// Keys and values of a chunk, of `here`, or of a rank alone of its own.
  struct KeysAndValues {
    Matrix keys, values;
  };
  KeysAndValues chunk_of(const QueryKeyValue& in, const Matrix& here, std::int64_t sequence,
                         std::int64_t chunk) const;
  /// Rows behind the last conversation become 0.
  void pad(const Matrix& x) const;
  /// `from` to the next rank, the previous one's into `to`.
  Passed pass_on(const Matrix& from, const Matrix& to, int tag) const;
  void wait(Passed& passed) const;
  int neighbour(int distance) const;
  /// The rank whose keys and values are here after `steps` steps.
  SequenceChunks after(int steps, std::int64_t sequence) const;
  /// Some query of the block sees some key of it.
  bool sees(const Block& block) const;
  /// A chunk of queries with its own keys, the first block of each.
  bool diagonal(const Block& block) const {
    return block.owner.first(block.keys) == part(block.sequence).chunks.first(block.queries);
  }
  AttentionShape shape_of(const Block& block) const;
  void step_backward(int step, const QueryKeyValue& in, const Results& results, const Matrix& output_gradient,
                     const Matrix& here, const Matrix& queries, const Gradients& to) const;
};

/// Heads for sequences (DeepSpeed-Ulysses, Jacobs et al. 2023, arXiv:2309.14509). Every rank has its part of
/// the heads of whole sequences, and returns the results of the others' tokens. With a2a+p2p these ranks are
/// a subgroup of the context ranks, and their joint part goes round a ring with the others.
class ExchangedAttention : public SharedAttention {
 public:
  using SharedAttention::SharedAttention;
  /// saved.qkv, or saved.normed with norms of queries and keys, is by head and position from here on.
  void exchange(const AttentionTensors& saved) const;
  /// Overwrites saved.attention, saved.attention_of_heads and saved.log_sum_exp.
  void forward(const QueryKeyValue& in, const AttentionTensors& saved) const;
  /// Overwrites `out`, of the rank's tokens.
  void backward(const QueryKeyValue& in, const AttentionTensors& saved, const Matrix& output_gradient,
                const QueryKeyValue& out) const;

 private:
  /// Ranks that exchange heads.
  int members() const { return context_.config.parallel.head_ranks(); }
  bool rings() const { return context_.config.parallel.hierarchical(); }
  /// The ring of the group's joint part.
  RingAttention ring() const { return {context_, dropout_, layer_, scratch_, members()}; }
  /// A rank's part of the heads: elements of a row of queries, of keys, of values, of results, of the first
  /// three.
  std::int64_t query_width() const { return query_ / members(); }
  std::int64_t key_width() const { return key_ / members(); }
  std::int64_t value_width() const { return value_ / members(); }
  std::int64_t attended_width() const { return attended_ / members(); }
  std::int64_t all_width() const { return query_width() + key_width() + value_width(); }
  /// A tensor whose elements per row of the rank's tokens are those of all ranks' parts, seen as rows of one
  /// part.
  Matrix by_part(const Matrix& x, std::int64_t width) const {
    return {x.data, members() * tokens_, width, x.dtype};
  }
  /// Where exchanged heads are: norms' backwards need what queries and keys were before.
  Matrix exchanged(const AttentionTensors& saved) const {
    return by_part(saved.normed.empty() ? saved.qkv : saved.normed, all_width());
  }
  /// Queries, keys and values of the rank's heads in a tensor by position.
  QueryKeyValue of_heads(const Matrix& whole) const;
  /// Calls use(columns of x (T, ranks parts of `width`), the rows of the same in `parts` from column `first`)
  /// for every rank.
  template <class Use>
  void each_part(const Matrix& x, std::int64_t width, const Matrix& parts, std::int64_t first,
                 Use&& use) const {
    for (int member = 0; member < members(); ++member) {
      use(x.columns(member * width, width), parts.row_range(member * tokens_, tokens_).columns(first, width));
    }
  }
  void send(const Matrix& from, const Matrix& to) const;
  AttentionShape shape_of_heads() const;
  Matrix statistics_of_heads(const AttentionTensors& saved) const;
};

}  // namespace plumbline::training
