#include "bench/training/layer/layer_attention.hpp"

namespace plumbline::training {
namespace {

/// Attention over sequences that ranks share: keys and values are gathered, every rank computes the rows of its own
/// queries (Llama 3, arXiv:2407.21783 §3.3.2). bench/training/context.md lists what is allocated when.
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

  void forward(const QueryKeyValue& in, const LayerActivations& saved) const {
    const Tensor whole = gather(in);
    each_chunk([&](std::int64_t sequence, std::int64_t chunk) {
      const Place at = place(sequence, chunk);
      const Matrix seen = whole.matrix().row_range(sequence * seq_, at.keys);
      context_.operators.attention_forward(
          dropout_.attention(layer_, sequence, chunk), rows(in.q, at), seen.columns(0, key_),
          seen.columns(key_, key_), rows(saved.attention, at), statistics(saved, sequence, chunk), scratch_);
    });
  }

  void backward(const QueryKeyValue& in, const LayerActivations& saved, const Matrix& output_gradient,
                const QueryKeyValue& out) const {
    Tensor whole = gather(in);
    Tensor gradients = make("gradient of whole sequences' keys and values", batch_ * seq_);
    {
      // The later chunk sees more keys: what its gradient leaves are those that nobody here sees.
      const Tensor part = make("gradient of a chunk's keys and values", seq_);
      for (std::int64_t sequence = 0; sequence < batch_; ++sequence) {
        const Matrix sum = gradients.matrix().row_range(sequence * seq_, seq_);
        for (std::int64_t chunk = chunks_.count - 1; chunk >= 0; --chunk) {
          const Place at = place(sequence, chunk);
          const bool first = chunk == chunks_.count - 1;
          const Matrix seen = whole.matrix().row_range(sequence * seq_, at.keys);
          const Matrix own = (first ? sum : part.matrix()).row_range(0, at.keys);
          context_.operators.attention_backward(dropout_.attention(layer_, sequence, chunk), rows(in.q, at),
                                                seen.columns(0, key_), seen.columns(key_, key_),
                                                rows(saved.attention, at), statistics(saved, sequence, chunk),
                                                rows(output_gradient, at), rows(out.q, at),
                                                own.columns(0, key_), own.columns(key_, key_), scratch_);
          const Matrix added = sum.row_range(0, at.keys);
          if (!first) {
            context_.operators.add(added, own, {}, added);
          } else if (at.keys < seq_) {
            context_.operators.fill(sum.row_range(at.keys, seq_ - at.keys), 0);
          }
        }
      }
    }
    whole.reset();
    Tensor sent = make("gradient of keys and values by rank", chunks_.ranks * tokens_);
    each_chunk_of_all([&](const Matrix& by_rank,
                          const Matrix& by_position) { context_.operators.copy(by_position, by_rank); },
                      sent, gradients);
    gradients.reset();
    const Tensor sum = make("gradient of keys and values", tokens_);
    context_.over_context_ranks(
        [&](Communicator& communicator) { communicator.reduce_scatter(Group::context, sent, sum); });
    sent.reset();
    context_.operators.copy(sum.matrix().columns(0, key_), out.k);
    context_.operators.copy(sum.matrix().columns(key_, key_), out.v);
  }

 private:
  /// Of a chunk: its rows among the rank's tokens, and how many keys of the sequence its last query sees.
  struct Place {
    std::int64_t row, keys;
  };
  Place place(std::int64_t sequence, std::int64_t chunk) const {
    return {sequence * chunks_.tokens() + chunk * chunks_.length, chunks_.first(chunk) + chunks_.length};
  }
  Matrix rows(const Matrix& x, const Place& at) const { return x.row_range(at.row, chunks_.length); }
  Matrix statistics(const LayerActivations& saved, std::int64_t sequence, std::int64_t chunk) const {
    const std::int64_t heads = context_.shape.attention.heads;
    return saved.log_sum_exp.matrix()
        .row_range(sequence * heads, heads)
        .columns(chunk * chunks_.length, chunks_.length);
  }
  Tensor make(const char* holder, std::int64_t rows) const {
    return context_.make(kPassing, holder, rows, 2 * key_);
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
      each_chunk([&](std::int64_t sequence, std::int64_t chunk) {
        use(by_rank.row_range(other.rank * tokens_ + place(sequence, chunk).row, chunks_.length),
            by_position.row_range(sequence * seq_ + other.first(chunk), chunks_.length));
      });
    }
  }

  /// Keys and values of whole sequences, side by side, by position.
  Tensor gather(const QueryKeyValue& in) const {
    const Tensor gathered = make("gathered keys and values", chunks_.ranks * tokens_);
    const Matrix own = gathered.matrix().row_range(chunks_.rank * tokens_, tokens_);
    context_.operators.copy(in.k, own.columns(0, key_));
    context_.operators.copy(in.v, own.columns(key_, key_));
    context_.over_context_ranks(
        [&](Communicator& communicator) { communicator.all_gather(Group::context, own, gathered); });
    Tensor whole = make("keys and values of whole sequences", batch_ * seq_);
    each_chunk_of_all([&](const Matrix& by_rank,
                          const Matrix& by_position) { context_.operators.copy(by_rank, by_position); },
                      gathered, whole);
    return whole;
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

}  // namespace

void attention_forward(const TrainingContext& context, const SharedBuffers& shared,
                       const MicrobatchDropout& dropout, const Layer& layer, const LayerActivations& saved) {
  const QueryKeyValue in(context.shape, saved);
  if (context.config.parallel.context > 1) {
    return SharedAttention(context, dropout, layer, shared.attention_scratch).forward(in, saved);
  }
  context.operators.attention_forward(dropout.attention(layer.index), in.q, in.k, in.v, saved.attention,
                                      saved.log_sum_exp, shared.attention_scratch);
}

void attention_backward(const TrainingContext& context, const SharedBuffers& shared,
                        const MicrobatchDropout& dropout, const Layer& layer, const LayerActivations& saved,
                        const Matrix& output_gradient, const QueryKeyValue& gradients) {
  const QueryKeyValue in(context.shape, saved);
  if (context.config.parallel.context > 1) {
    return SharedAttention(context, dropout, layer, shared.attention_scratch)
        .backward(in, saved, output_gradient, gradients);
  }
  context.operators.attention_backward(dropout.attention(layer.index), in.q, in.k, in.v, saved.attention,
                                       saved.log_sum_exp, output_gradient, gradients.q, gradients.k,
                                       gradients.v, shared.attention_scratch);
}

}  // namespace plumbline::training
