#include "bench/training/layer/shared_attention.hpp"

namespace plumbline::training {

Tensor RingAttention::own_keys(const QueryKeyValue& in) const {
  Tensor own = make("keys and values of a ring", tokens_, key_ + value_);
  if (chunks_.ranks == 1) return own;  // a rank alone reads them where they are
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

RingAttention::KeysAndValues RingAttention::chunk_of(const QueryKeyValue& in, const Matrix& here,
                                                     std::int64_t sequence, std::int64_t chunk) const {
  if (chunks_.ranks == 1) return {rows(in.k, sequence, chunk), rows(in.v, sequence, chunk)};
  const Matrix both = rows(here, sequence, chunk);
  return {keys(both), values(both)};
}

void RingAttention::pad(const Matrix& x) const {
  const std::int64_t end = parts_.empty() ? 0 : parts_.back().row + parts_.back().chunks.tokens();
  if (end < x.rows) context_.operators.fill(rows_from(x, end), 0);
}

SequenceChunks RingAttention::after(int steps, std::int64_t sequence) const {
  SequenceChunks other = part(sequence).chunks;
  other.rank = (chunks_.rank - steps + chunks_.ranks) % chunks_.ranks;
  return other;
}

bool RingAttention::sees(const Block& block) const {
  const SequenceChunks& own = part(block.sequence).chunks;
  const std::int64_t distance = own.first(block.queries) - block.owner.first(block.keys);
  const std::int64_t window = context_.model().window_of(layer_);
  return distance >= 0 && (window == 0 || distance - own.length + 1 < window);
}

AttentionShape RingAttention::shape_of(const Block& block) const {
  const SequenceChunks& own = part(block.sequence).chunks;
  AttentionShape shape = dropout_.attention(layer_, block.sequence, own, block.queries);
  shape.heads = heads_;
  shape.kv_heads /= together_;
  shape.first_head += context_.chunks().rank % together_ * heads_;
  shape.key_start = block.owner.first(block.keys);
  shape.key_count = own.length;
  return shape;
}

void RingAttention::forward(const QueryKeyValue& in, const Results& results) const {
  const Tensor even = own_keys(in);
  const Tensor odd = make("keys and values of a ring", tokens_, key_ + value_);
  const Tensor part_out = make("attention of a block", chunks_.length, attended_);
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
      const SequenceChunks& own = part(sequence).chunks;
      const Matrix block_out = part_out.matrix().row_range(0, own.length);
      const Matrix block_lse = part_statistics.matrix().columns(0, own.length);
      for (std::int64_t seen = own.count - 1; seen >= 0; --seen) {
        const Block block{after(step, sequence), sequence, queries, seen};
        if (!sees(block)) continue;
        const bool opens = diagonal(block);
        const KeysAndValues kv = chunk_of(in, here, sequence, seen);
        ops.attention_forward(shape_of(block), rows(in.q, sequence, queries), kv.keys, kv.values,
                              opens ? out : block_out, opens ? lse : block_lse, scratch_);
        if (!opens) ops.attention_merge(out, lse, block_out, block_lse);
      }
    });
    wait(passed);
  }
  pad(results.attention);
}

void RingAttention::step_backward(int step, const QueryKeyValue& in, const Results& results,
                                  const Matrix& output_gradient, const Matrix& here, const Matrix& queries,
                                  const Gradients& to) const {
  Operators& ops = context_.operators;
  each_chunk([&](std::int64_t sequence, std::int64_t place) {
    const SequenceChunks& own = part(sequence).chunks;
    const std::int64_t seen =
        own.count - 1 - place;  // both diagonal blocks before the one that adds to theirs
    const KeysAndValues kv = chunk_of(in, here, sequence, seen);
    const Matrix query_part = to.query_part.row_range(0, own.length);
    const Matrix key_part = to.key_part.row_range(0, own.length);
    const Matrix dk = rows(to.keys, sequence, seen);
    const Matrix dv = rows(to.values, sequence, seen);
    bool opens_keys = true;
    for (std::int64_t chunk = 0; chunk < own.count; ++chunk) {
      const Block block{after(step, sequence), sequence, chunk, seen};
      if (!sees(block)) continue;
      const bool opens = diagonal(block);
      const Matrix dq = rows(queries, sequence, chunk);
      ops.attention_backward(shape_of(block), rows(in.q, sequence, chunk), kv.keys, kv.values,
                             rows(results.attention, sequence, chunk),
                             statistics(results.log_sum_exp, sequence, chunk),
                             rows(output_gradient, sequence, chunk), opens ? dq : query_part,
                             opens_keys ? dk : keys(key_part), opens_keys ? dv : values(key_part), scratch_);
      if (!opens) ops.add(dq, query_part, {}, dq);
      if (!opens_keys) {
        ops.add(dk, keys(key_part), {}, dk);
        ops.add(dv, values(key_part), {}, dv);
      }
      // A token counts half a pair with itself, as in predictions.
      const auto pairs = static_cast<double>(own.length * own.length);
      if (attended_pairs_ != nullptr) *attended_pairs_ += opens ? pairs / 2 : pairs;
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
  if (chunks_.ranks > 1) {
    context_.operators.add(out.k, keys(arriving), {}, out.k);
    context_.operators.add(out.v, values(arriving), {}, out.v);
  }
  for (const Matrix& gradient : {out.q, out.k, out.v}) pad(gradient);
}

}  // namespace plumbline::training
