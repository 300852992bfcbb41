#include "bench/training/layer/layer_attention.hpp"
#include "bench/training/layer/shared_attention.hpp"

namespace plumbline::training {

QueryKeyValue ExchangedAttention::of_heads(const Matrix& whole) const {
  return {whole.columns(0, query_width()), whole.columns(query_width(), key_width()),
          whole.columns(query_width() + key_width(), value_width())};
}

void ExchangedAttention::send(const Matrix& from, const Matrix& to) const {
  const Group group = rings() ? Group::context_heads : Group::context;
  context_.over_context_ranks([&](Communicator& communicator) { communicator.all_to_all(group, from, to); });
}

AttentionShape ExchangedAttention::shape_of_heads() const {
  AttentionShape shape = dropout_.attention(layer_);
  shape.seq = seq_;
  shape.heads /= members();
  shape.kv_heads /= members();
  shape.first_head += chunks_.rank * shape.heads;
  return shape;
}

Matrix ExchangedAttention::statistics_of_heads(const AttentionTensors& saved) const {
  const Matrix& lse = saved.log_sum_exp;
  return {lse.data, lse.elements() / seq_, seq_, lse.dtype};
}

void ExchangedAttention::exchange(const AttentionTensors& saved) const {
  const QueryKeyValue in(context_.shape, saved);
  const auto pack = [&](const Matrix& from, const Matrix& to) { context_.operators.copy(from, to); };
  Tensor sent = make("queries, keys and values by head", members() * tokens_, all_width());
  each_part(in.q, query_width(), sent, 0, pack);
  each_part(in.k, key_width(), sent, query_width(), pack);
  each_part(in.v, value_width(), sent, query_width() + key_width(), pack);
  const Tensor received = make("queries, keys and values by rank", members() * tokens_, all_width());
  send(sent, received);
  sent.reset();
  to_positions(members(), received, exchanged(saved));
}

void ExchangedAttention::forward(const QueryKeyValue& /*in*/, const AttentionTensors& saved) const {
  const QueryKeyValue heads = of_heads(exchanged(saved));
  const Matrix out = by_part(saved.attention_of_heads, attended_width());
  if (rings()) {
    ring().forward(heads, RingAttention::Results{out, saved.log_sum_exp});
  } else {
    context_.operators.attention_forward(shape_of_heads(), heads.q, heads.k, heads.v, out,
                                         statistics_of_heads(saved), scratch_);
  }
  Tensor sent = make("attention by rank", members() * tokens_, attended_width());
  to_ranks(members(), out, sent);
  const Tensor received = make("attention by head", members() * tokens_, attended_width());
  send(sent, received);
  sent.reset();
  each_part(saved.attention, attended_width(), received, 0,
            [&](const Matrix& to, const Matrix& from) { context_.operators.copy(from, to); });
}

void ExchangedAttention::backward(const QueryKeyValue& /*in*/, const AttentionTensors& saved,
                                  const Matrix& output_gradient, const QueryKeyValue& out) const {
  Tensor sent = make("gradient of attention by head", members() * tokens_, attended_width());
  each_part(output_gradient, attended_width(), sent, 0,
            [&](const Matrix& from, const Matrix& to) { context_.operators.copy(from, to); });
  Tensor received = make("gradient of attention by rank", members() * tokens_, attended_width());
  send(sent, received);
  sent.reset();
  Tensor dattention = make("gradient of attention of heads", members() * tokens_, attended_width());
  to_positions(members(), received, dattention);
  received.reset();
  Tensor whole = make("gradient of heads", members() * tokens_, all_width());
  const QueryKeyValue heads = of_heads(exchanged(saved));
  const QueryKeyValue gradients = of_heads(whole);
  const Matrix attention = by_part(saved.attention_of_heads, attended_width());
  if (rings()) {
    ring().backward(heads, RingAttention::Results{attention, saved.log_sum_exp}, dattention, gradients);
  } else {
    context_.operators.attention_backward(shape_of_heads(), heads.q, heads.k, heads.v, attention,
                                          statistics_of_heads(saved), dattention, gradients.q, gradients.k,
                                          gradients.v, scratch_);
  }
  dattention.reset();
  Tensor by_rank = make("gradient of heads by rank", members() * tokens_, all_width());
  to_ranks(members(), whole, by_rank);
  whole.reset();
  const Tensor own = make("gradient of the rank's tokens by head", members() * tokens_, all_width());
  send(by_rank, own);
  by_rank.reset();
  const auto unpack = [&](const Matrix& to, const Matrix& from) { context_.operators.copy(from, to); };
  each_part(out.q, query_width(), own, 0, unpack);
  each_part(out.k, key_width(), own, query_width(), unpack);
  each_part(out.v, value_width(), own, query_width() + key_width(), unpack);
}

}  // namespace plumbline::training
