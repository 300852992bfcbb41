#include "bench/training/layer/layer_attention.hpp"

#include "bench/training/layer/shared_attention.hpp"
#include "bench/training/layer/unfused_attention.hpp"
#include "bench/training/parameters/conversations.hpp"

namespace plumbline::training {
namespace {

/// Keys and values are gathered; every rank computes the rows of its own queries (Llama 3, arXiv:2407.21783
/// §3.3.2).
class GatheredAttention : public SharedAttention {
 public:
  using SharedAttention::SharedAttention;

  void forward(const QueryKeyValue& in, const AttentionTensors& saved) const {
    const Tensor whole = gather(in);
    each_chunk([&](std::int64_t sequence, std::int64_t chunk) {
      const Matrix seen = whole.matrix().row_range(sequence * seq_, seen_keys(chunk));
      context_.operators.attention_forward(dropout_.attention(layer_, sequence, chunks_, chunk),
                                           rows(in.q, sequence, chunk), keys(seen), values(seen),
                                           rows(saved.attention, sequence, chunk),
                                           statistics(saved.log_sum_exp, sequence, chunk), scratch_);
    });
  }

  void backward(const QueryKeyValue& in, const AttentionTensors& saved, const Matrix& output_gradient,
                const QueryKeyValue& out) const {
    Tensor whole = gather(in);
    Tensor gradients = make("gradient of whole sequences' keys and values", batch_ * seq_, key_ + value_);
    {
      // The later chunk sees more keys: its gradient covers those that no other chunk here sees.
      const Tensor part = make("gradient of a chunk's keys and values", seq_, key_ + value_);
      for (std::int64_t sequence = 0; sequence < batch_; ++sequence) {
        const Matrix sum = gradients.matrix().row_range(sequence * seq_, seq_);
        for (std::int64_t chunk = chunks_.count - 1; chunk >= 0; --chunk) {
          const std::int64_t count = seen_keys(chunk);
          const bool first = chunk == chunks_.count - 1;
          const Matrix seen = whole.matrix().row_range(sequence * seq_, count);
          const Matrix own = (first ? sum : part.matrix()).row_range(0, count);
          context_.operators.attention_backward(
              dropout_.attention(layer_, sequence, chunks_, chunk), rows(in.q, sequence, chunk), keys(seen),
              values(seen), rows(saved.attention, sequence, chunk),
              statistics(saved.log_sum_exp, sequence, chunk), rows(output_gradient, sequence, chunk),
              rows(out.q, sequence, chunk), keys(own), values(own), scratch_);
          const Matrix added = sum.row_range(0, count);
          if (!first) {
            context_.operators.add(added, own, {}, added);
          } else if (count < seq_) {
            context_.operators.fill(sum.row_range(count, seq_ - count), 0);
          }
        }
      }
    }
    whole.reset();
    Tensor sent = make("gradient of keys and values by rank", chunks_.ranks * tokens_, key_ + value_);
    to_ranks(chunks_.ranks, gradients, sent);
    gradients.reset();
    const Tensor sum = make("gradient of keys and values", tokens_, key_ + value_);
    context_.over_context_ranks(
        [&](Communicator& communicator) { communicator.reduce_scatter(Group::context, sent, sum); });
    sent.reset();
    context_.operators.copy(keys(sum), out.k);
    context_.operators.copy(values(sum), out.v);
  }

 private:
  /// Number of keys of its sequence that the last query of a chunk sees.
  std::int64_t seen_keys(std::int64_t chunk) const { return chunks_.first(chunk) + chunks_.length; }

  /// Keys and values of whole sequences, side by side, by position.
  Tensor gather(const QueryKeyValue& in) const {
    const Tensor gathered = make("gathered keys and values", chunks_.ranks * tokens_, key_ + value_);
    const Matrix own = gathered.matrix().row_range(chunks_.rank * tokens_, tokens_);
    context_.operators.copy(in.k, keys(own));
    context_.operators.copy(in.v, values(own));
    context_.over_context_ranks(
        [&](Communicator& communicator) { communicator.all_gather(Group::context, own, gathered); });
    Tensor whole = make("keys and values of whole sequences", batch_ * seq_, key_ + value_);
    to_positions(chunks_.ranks, gathered, whole);
    return whole;
  }
};

/// Attention of the context-parallel ranks, by cp_comm_type.
template <class Use>
void with_shared(const TrainingContext& context, const SharedBuffers& shared,
                 const MicrobatchDropout& dropout, const Layer& layer, Use&& use) {
  const Matrix& scratch = shared.attention_scratch;
  switch (context.config.parallel.cp.comm_type) {
    case CpCommType::p2p:
      if (shared.conversations != nullptr) return use(RingAttention(context, dropout, layer.index, shared));
      return use(RingAttention(context, dropout, layer.index, scratch));
    case CpCommType::a2a:
    case CpCommType::a2a_p2p:
      return use(ExchangedAttention(context, dropout, layer.index, scratch));
    case CpCommType::all_gather:
      return use(GatheredAttention(context, dropout, layer.index, scratch));
  }
}

/// Attention of every conversation by itself. Padding has result 0 and gradients 0.
class PackedAttention {
 public:
  PackedAttention(const TrainingContext& context, const SharedBuffers& shared,
                  const MicrobatchDropout& dropout, const Layer& layer)
      : context_(context), shared_(shared), shape_(dropout.attention(layer.index)) {}

  void forward(const QueryKeyValue& in, const AttentionTensors& saved) const {
    each_conversation([&](std::int64_t first, std::int64_t count) {
      const auto rows = [&](const Matrix& x) { return x.row_range(first, count); };
      context_.operators.attention_forward(shape_of(first, count), rows(in.q), rows(in.k), rows(in.v),
                                           rows(saved.attention), statistics(saved, first, count),
                                           shared_.attention_scratch);
    });
    pad(saved.attention);
  }

  void backward(const QueryKeyValue& in, const AttentionTensors& saved, const Matrix& output_gradient,
                const QueryKeyValue& out) const {
    each_conversation([&](std::int64_t first, std::int64_t count) {
      const auto rows = [&](const Matrix& x) { return x.row_range(first, count); };
      const AttentionShape shape = shape_of(first, count);
      context_.operators.attention_backward(shape, rows(in.q), rows(in.k), rows(in.v), rows(saved.attention),
                                            statistics(saved, first, count), rows(output_gradient),
                                            rows(out.q), rows(out.k), rows(out.v), shared_.attention_scratch);
      // A token counts half a pair with itself, as in predictions.
      *shared_.attended_pairs += static_cast<double>(shape.seq) * static_cast<double>(shape.keys()) / 2;
    });
    for (const Matrix& gradient : {out.q, out.k, out.v}) pad(gradient);
  }

 private:
  AttentionShape shape_of(std::int64_t first, std::int64_t count) const {
    AttentionShape shape = shape_;
    shape.seq = count;
    shape.dropout.first_row += first;
    return shape;
  }
  Matrix statistics(const AttentionTensors& saved, std::int64_t first, std::int64_t count) const {
    const Matrix& all = saved.log_sum_exp;
    return Matrix{all.data, shape_.heads, shape_.seq, all.dtype}.columns(first, count);
  }
  template <class Use>
  void each_conversation(Use&& use) const {
    each_chunk_of(*shared_.conversations, context_.chunks(),
                  [&](std::int64_t first, std::int64_t count, std::int64_t) { use(first, count); });
  }
  void pad(const Matrix& x) const {
    const std::int64_t end = shared_.conversations->rows();
    if (end < x.rows) context_.operators.fill(rows_from(x, end), 0);
  }

  const TrainingContext& context_;
  const SharedBuffers& shared_;
  const AttentionShape shape_;
};

}  // namespace

void exchange_heads(const TrainingContext& context, const MicrobatchDropout& dropout, const Layer& layer,
                    const AttentionTensors& saved) {
  ExchangedAttention(context, dropout, layer.index, {}).exchange(saved);
}

void attention_forward(const TrainingContext& context, const SharedBuffers& shared,
                       const MicrobatchDropout& dropout, const Layer& layer, const AttentionTensors& saved) {
  const QueryKeyValue in(context.shape, saved);
  const Tensor scores = make_scores(context, kPassing, "attention scores");
  if (shared.attention != nullptr)
    return shared.attention->forward(dropout.attention(layer.index), layer.index, in, saved);
  if (context.config.parallel.context > 1) {
    return with_shared(context, shared, dropout, layer,
                       [&](const auto& attention) { attention.forward(in, saved); });
  }
  if (shared.conversations != nullptr)
    return PackedAttention(context, shared, dropout, layer).forward(in, saved);
  if (is_unfused(context)) {
    return context.operators.unfused_attention_forward(dropout.attention(layer.index), in.q, in.k, in.v,
                                                       unfused_attention(saved, scores), saved.attention,
                                                       saved.log_sum_exp, shared.attention_scratch);
  }
  context.operators.attention_forward(dropout.attention(layer.index), in.q, in.k, in.v, saved.attention,
                                      saved.log_sum_exp, shared.attention_scratch);
}

void attention_backward(const TrainingContext& context, const SharedBuffers& shared,
                        const MicrobatchDropout& dropout, const Layer& layer, const AttentionTensors& saved,
                        const Matrix& output_gradient, const QueryKeyValue& gradients) {
  const QueryKeyValue in(context.shape, saved);
  const Tensor scores = make_scores(context, kPassing, "gradient of attention scores");
  if (context.config.parallel.context > 1) {
    return with_shared(context, shared, dropout, layer, [&](const auto& attention) {
      attention.backward(in, saved, output_gradient, gradients);
    });
  }
  if (shared.conversations != nullptr)
    return PackedAttention(context, shared, dropout, layer).backward(in, saved, output_gradient, gradients);
  if (is_unfused(context)) {
    return context.operators.unfused_attention_backward(
        dropout.attention(layer.index), in.q, in.k, in.v, unfused_attention(saved, scores), output_gradient,
        gradients.q, gradients.k, gradients.v, shared.attention_scratch);
  }
  context.operators.attention_backward(dropout.attention(layer.index), in.q, in.k, in.v, saved.attention,
                                       saved.log_sum_exp, output_gradient, gradients.q, gradients.k,
                                       gradients.v, shared.attention_scratch);
}

}  // namespace plumbline::training
