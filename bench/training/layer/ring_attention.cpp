#include "bench/training/layer/shared_attention.hpp"

namespace plumbline::training {

Tensor RingAttention::own_keys(const QueryKeyValue& in) const {
  Tensor own = make("keys and values of a ring", tokens_, key_ + value_);
  context_.operators.copy(in.k, keys(own));
  context_.operators.copy(in.v, values(own));
  return own;
}

int RingAttention::neighbour(int distance) const {
  const Layout& layout = context_.communicator.layout();
  Coordinates at = layout.coordinates(context_.communicator.rank());
  at.data += together_ * ((chunks_.rank + distance + chunks_.ranks) % chunks_.ranks - chunks_.rank);
  return layout.rank_of(at);
}

RingAttention::Passed RingAttention::pass_on(const Matrix& from, const Matrix& to, int tag) const {
  Communicator& communicator = context_.communicator;
  Passed passed;
  passed.received = communicator.receive(to, neighbour(-1), tag);
  passed.sent = communicator.send(from, neighbour(1), tag);
  return passed;
}

void RingAttention::wait(Passed& passed) const {
  context_.over_context_ranks([&](Communicator& communicator) {
    communicator.wait(passed.received);
    communicator.wait(passed.sent);
  });
}

SequenceChunks RingAttention::after(int steps) const {
  SequenceChunks other = chunks_;
  other.rank = (chunks_.rank - steps + chunks_.ranks) % chunks_.ranks;
  return other;
}

bool RingAttention::sees(const Block& block) const {
  const std::int64_t distance = chunks_.first(block.queries) - block.owner.first(block.keys);
  const std::int64_t window = context_.model().window_of(layer_);
  return distance >= 0 && (window == 0 || distance - chunks_.length + 1 < window);
}

AttentionShape RingAttention::shape_of(const Block& block) const {
  AttentionShape shape = dropout_.attention(layer_, block.sequence, chunks_, block.queries);
  shape.heads = heads_;
  shape.kv_heads /= together_;
  shape.first_head += context_.chunks().rank % together_ * heads_;
  shape.key_start = block.owner.first(block.keys);
  shape.key_count = chunks_.length;
  return shape;
}

void RingAttention::forward(const QueryKeyValue& in, const Results& results) const {
  const Tensor even = own_keys(in);
  const Tensor odd = make("keys and values of a ring", tokens_, key_ + value_);
  const Tensor part = make("attention of a block", chunks_.length, attended_);
  const Tensor part_statistics =
      context_.make_fp32(kPassing, "log-sum-exp of a block", heads_, chunks_.length);
  Operators& ops = context_.operators;
  for (int step = 0; step < chunks_.ranks; ++step) {
    const Matrix here = step % 2 == 0 ? even : odd;
    Passed passed;
    if (step + 1 < chunks_.ranks) passed = pass_on(here, step % 2 == 0 ? odd : even, kKeys);
    each_chunk([&](std::int64_t sequence, std::int64_t queries) {
      const Matrix out = rows(results.attention, sequence, queries);
      const Matrix lse = statistics(results.log_sum_exp, sequence, queries);
      for (std::int64_t seen = chunks_.count - 1; seen >= 0; --seen) {
        const Block block{after(step), sequence, queries, seen};
        if (!sees(block)) continue;
        const bool opens = diagonal(block);
        const Matrix kv = rows(here, sequence, seen);
        ops.attention_forward(shape_of(block), rows(in.q, sequence, queries), keys(kv), values(kv),
                              opens ? out : part.matrix(), opens ? lse : part_statistics.matrix(), scratch_);
        if (!opens) ops.attention_merge(out, lse, part, part_statistics);
      }
    });
    wait(passed);
  }
}

void RingAttention::step_backward(int step, const QueryKeyValue& in, const Results& results,
                                  const Matrix& output_gradient, const Matrix& here, const Matrix& queries,
                                  const Gradients& to) const {
  Operators& ops = context_.operators;
  each_chunk([&](std::int64_t sequence, std::int64_t place) {
    const std::int64_t seen =
        chunks_.count - 1 - place;  // both diagonal blocks before the one that adds to theirs
    const Matrix kv = rows(here, sequence, seen);
    const Matrix dk = rows(to.keys, sequence, seen);
    const Matrix dv = rows(to.values, sequence, seen);
    bool opens_keys = true;
    for (std::int64_t chunk = 0; chunk < chunks_.count; ++chunk) {
      const Block block{after(step), sequence, chunk, seen};
      if (!sees(block)) continue;
      const bool opens = diagonal(block);
      const Matrix dq = rows(queries, sequence, chunk);
      ops.attention_backward(
          shape_of(block), rows(in.q, sequence, chunk), keys(kv), values(kv),
          rows(results.attention, sequence, chunk), statistics(results.log_sum_exp, sequence, chunk),
          rows(output_gradient, sequence, chunk), opens ? dq : to.query_part,
          opens_keys ? dk : keys(to.key_part), opens_keys ? dv : values(to.key_part), scratch_);
      if (!opens) ops.add(dq, to.query_part, {}, dq);
      if (!opens_keys) {
        ops.add(dk, keys(to.key_part), {}, dk);
        ops.add(dv, values(to.key_part), {}, dv);
      }
      opens_keys = false;
    }
    if (opens_keys) {
      ops.fill(dk, 0);
      ops.fill(dv, 0);
    }
  });
}

void RingAttention::backward(const QueryKeyValue& in, const Results& results, const Matrix& output_gradient,
                             const QueryKeyValue& out) const {
  const auto of_keys = [&](const char* holder) { return make(holder, tokens_, key_ + value_); };
  const Tensor even = own_keys(in);
  const Tensor odd = of_keys("keys and values of a ring");
  const Tensor even_sum = of_keys("gradients of a ring");
  const Tensor odd_sum = of_keys("gradients of a ring");
  const Tensor arriving = of_keys("gradients of a ring");
  const Tensor key_part = make("gradient of a block's keys and values", chunks_.length, key_ + value_);
  const Tensor query_part = make("gradient of a block's queries", chunks_.length, query_);
  Passed gradients;
  for (int step = 0; step < chunks_.ranks; ++step) {
    const Matrix here = step % 2 == 0 ? even : odd;
    const Matrix sum = step % 2 == 0 ? even_sum : odd_sum;
    Passed passed;
    if (step + 1 < chunks_.ranks) passed = pass_on(here, step % 2 == 0 ? odd : even, kKeys);
    Gradients to{keys(sum), values(sum), query_part, key_part};
    if (step == 0) {  // its own stay here
      to.keys = out.k;
      to.values = out.v;
    }
    step_backward(step, in, results, output_gradient, here, out.q, to);
    wait(passed);
    if (step > 1) {
      wait(gradients);
      context_.operators.add(sum, arriving, {}, sum);
    }
    if (step > 0) gradients = pass_on(sum, arriving, kGradients);
  }
  wait(gradients);
  context_.operators.add(out.k, keys(arriving), {}, out.k);
  context_.operators.add(out.v, values(arriving), {}, out.v);
}

}  // namespace plumbline::training
