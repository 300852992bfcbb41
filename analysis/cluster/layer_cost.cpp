#include "analysis/cluster/layer_cost.hpp"

namespace plumbline::cluster {
namespace {

/// Asynchronous tensor parallelism hides a collective behind pieces of the product next to it; only one of
/// the two at a layer's edge has such a product, and the first and last piece show.
constexpr double kAsyncExposed = 0.65;

/// Sums kernels of one pass.
class Pass {
 public:
  Pass(const Device& device, PassTime& time) : device_(device), time_(time) {}
  void stream(double bytes) { time_.device += stream_seconds(device_, bytes); }
  void gemm(double m, double n, double k, double output_bytes = 2, bool fp8 = false) {
    time_.device += gemm_seconds(device_, m, n, k, 1, output_bytes, fp8);
  }
  void batched(double batch, double m, double n, double k) {
    time_.device += gemm_seconds(device_, m, n, k, batch);
  }
  void seconds(double s) { time_.device += s; }

 private:
  const Device& device_;
  PassTime& time_;
};

struct Sizes {
  double tokens, hidden, q, kv, qkv, ffn, heads, sp_tokens, unit, sp_unit, scores;
};

Sizes sizes_of(const Job& job) {
  Sizes s{};
  const double t = job.tensor;
  s.tokens = job.sequence * job.micro_batch / job.context;
  s.hidden = job.model.hidden;
  s.q = job.model.heads * job.model.head / t;
  s.kv = std::max(job.model.kv_heads / t, 1.0) * job.model.head;
  s.qkv = s.q + 2 * s.kv;
  s.ffn = job.model.ffn / t;
  s.heads = job.model.heads / t;
  s.sp_tokens = job.sequence_parallel ? s.tokens / t : s.tokens;
  s.unit = 2 * s.tokens * s.hidden;        // bytes of one whole 16-bit activation
  s.sp_unit = 2 * s.sp_tokens * s.hidden;  // the same where sequence parallelism splits it
  s.scores = 2 * job.micro_batch * s.heads * job.sequence * job.sequence;
  return s;
}

/// Tensor-parallel collective at a layer's edge: all-reduce, or its two halves with sequence parallelism.
double edge(const Machine& machine, const Job& job, double bytes) {
  const Span group{job.tensor, 1};
  if (job.tensor == 1) return 0;
  if (!job.sequence_parallel) return all_reduce_seconds(machine.network, group, bytes);
  return 2 * scatter_seconds(machine.network, group, bytes);
}

bool softmax_is_fused(const Job& job) {
  // Megatron's fused kernels work on blocks of four rows of (micro-batch × local heads), 16 < s <= 2048
  // (fused_softmax.py, is_kernel_available); otherwise six pointwise kernels in fp32 replace one.
  const double rows = job.micro_batch * job.model.heads / job.tensor;
  return std::fmod(rows, 4.0) == 0 && job.sequence <= 2048;
}

void attention_forward(const Machine& machine, const Software& sw, const Job& job, const Sizes& s,
                       Pass& pass) {
  const double batch = job.micro_batch * s.heads;
  if (sw.flash_attention) {
    pass.seconds(
        flash_seconds(machine.device, batch, job.sequence, job.model.head, false, drops_attention(sw, job)) /
        job.context);
    return;
  }
  pass.batched(batch, job.sequence, job.sequence, job.model.head);
  if (softmax_is_fused(job)) {
    pass.stream(1.5 * s.scores);  // reads the lower triangle, writes the square
  } else {
    for (int kernel = 0; kernel < 6; ++kernel) pass.stream(3 * s.scores);
  }
  if (drops_attention(
          sw, job)) {  // read, write, mask of one byte; drawing the numbers takes longer than moving them
    pass.seconds(
        std::max(stream_seconds(machine.device, 2.5 * s.scores), machine.device.random_s * s.scores / 2));
  }
  pass.batched(batch, job.sequence, job.model.head, job.sequence);
  pass.stream(4 * s.tokens * s.q);  // heads back to rows
}

void attention_backward(const Machine& machine, const Software& sw, const Job& job, const Sizes& s,
                        Pass& pass) {
  const double batch = job.micro_batch * s.heads;
  if (sw.flash_attention) {
    pass.seconds(
        flash_seconds(machine.device, batch, job.sequence, job.model.head, true, drops_attention(sw, job)) /
        job.context);
    return;
  }
  pass.stream(4 * s.tokens * s.q);
  pass.batched(batch, job.sequence, job.sequence, job.model.head);  // dP
  pass.batched(batch, job.sequence, job.model.head, job.sequence);  // dV
  if (drops_attention(sw, job)) pass.stream(2.5 * s.scores);
  if (softmax_is_fused(job)) {
    pass.stream(3 * s.scores);
  } else {
    for (int kernel = 0; kernel < 6; ++kernel) pass.stream(3 * s.scores);
  }
  pass.batched(batch, job.sequence, job.model.head, job.sequence);  // dQ
  pass.batched(batch, job.sequence, job.model.head, job.sequence);  // dK
}

/// Accumulates into the weight's gradient what a separate kernel must.
void accumulate(const Software& sw, Pass& pass, double parameters) {
  if (sw.weight_gradient_bytes > 0) pass.stream(parameters * sw.weight_gradient_bytes);
}

double operator_host(const Software& sw, const Job& job, double operators, bool attention_inside) {
  double extra = 0;
  if (attention_inside && !sw.flash_attention && !softmax_is_fused(job)) extra = 6;
  return (operators + extra) * sw.host_operator_s;
}

}  // namespace

PartCost layer_cost(const Machine& machine, const Software& sw, const Job& job) {
  const Device& d = machine.device;
  const Sizes s = sizes_of(job);
  const double t = job.tensor;
  const double up = (job.model.gated ? 2 : 1) * s.ffn;
  const double ffn_bytes = 2 * s.tokens * s.ffn;
  const bool e = sw.fp8;
  const double wide =
      sw.fused_weight_gradient ? 2 * sw.gradient_bytes : 2;  // read and written by the product
  // Pointwise work of norms, residuals and dropout, in passes over one activation.
  const double norm = sw.norm_passes;
  const auto residual = [&](Pass& pass) {  // bias, dropout, residual sum
    if (!drops_stream(sw, job)) return pass.stream(3 * s.sp_unit);
    if (sw.fused_dropout) return pass.stream(3.5 * s.sp_unit);
    pass.stream(2 * s.sp_unit);
    pass.seconds(std::max(stream_seconds(d, 2.5 * s.sp_unit), d.random_s * s.sp_unit / 2));
    pass.stream(3 * s.sp_unit);
  };
  PartCost cost;

  Pass f(d, cost.forward);
  PassTime core;  // attention between the QKV and the output projection
  Pass c(d, core);
  attention_forward(machine, sw, job, s, c);
  f.stream(norm * s.sp_unit);
  f.gemm(s.tokens, s.qkv, s.hidden, 2, e);
  if (!job.model.gated) f.stream(4 * s.tokens * s.qkv);                                         // bias
  if (job.model.positions == 0) f.stream(4 * s.tokens * (s.q + s.kv) * (sw.compiled ? 1 : 3));  // rotary
  f.seconds(core.device);
  f.gemm(s.tokens, s.hidden, s.q, 2, e);
  residual(f);
  f.stream(norm * s.sp_unit);
  f.gemm(s.tokens, up, s.hidden, 2, e);
  f.stream(job.model.gated ? (sw.compiled ? 3 : 5) * ffn_bytes : 2 * ffn_bytes);
  f.gemm(s.tokens, s.hidden, s.ffn, 2, e);
  residual(f);
  if (e) f.stream(1.5 * (2 * s.unit + 2 * s.tokens * s.q + ffn_bytes));  // casts of the four inputs
  const double parameters = job.model.layer_parameters() / t;
  // FSDP copies gathered parameters out of the communication buffer, and gradients (fp32) into it.
  if (sw.sharded) f.stream(4 * parameters);
  const double edges = 2 * edge(machine, job, s.unit);
  cost.forward.tensor = edges * (sw.async_tensor ? kAsyncExposed : 1);
  const double communication_operators = job.tensor > 1 ? 4.0 * (job.sequence_parallel ? 2 : 1) : 0;
  cost.forward.host = operator_host(sw, job, sw.layer_forward_operators + communication_operators, true);

  if (job.recomputation == Recomputation::full) {
    cost.recompute = cost.forward;
    cost.recompute.host *= 1.15;  // the checkpoint saves and restores random states
  } else if (job.recomputation == Recomputation::selective && sw.selective_operators) {
    // Pointwise work again, and half of the products; attention's result is kept.
    PassTime products;
    Pass p(d, products);
    p.gemm(s.tokens, s.qkv, s.hidden, 2, e);
    p.gemm(s.tokens, s.hidden, s.q, 2, e);
    p.gemm(s.tokens, up, s.hidden, 2, e);
    p.gemm(s.tokens, s.hidden, s.ffn, 2, e);
    cost.recompute.device = cost.forward.device - core.device - products.device / 2;
    cost.recompute.host = cost.forward.host;
  } else if (job.recomputation == Recomputation::selective && !sw.flash_attention) {
    cost.recompute.device = core.device;
    cost.recompute.host = 6 * sw.host_operator_s;
  }

  Pass b(d, cost.backward_input);
  b.stream((drops_stream(sw, job) ? 2.5 : 1) * s.sp_unit);
  b.gemm(s.tokens, s.ffn, s.hidden, 2, e);
  b.stream((job.model.gated ? (sw.compiled ? 5 : 8) : 3) * ffn_bytes);
  b.gemm(s.tokens, s.hidden, up, 2, e);
  b.stream(5 * s.sp_unit);  // norm
  b.stream(3 * s.sp_unit);  // residual sum
  b.stream((drops_stream(sw, job) ? 2.5 : 1) * s.sp_unit);
  b.gemm(s.tokens, s.q, s.hidden, 2, e);
  attention_backward(machine, sw, job, s, b);
  if (job.model.positions == 0) b.stream(4 * s.tokens * (s.q + s.kv) * (sw.compiled ? 1 : 3));
  b.stream(4 * s.tokens * s.qkv);  // gradients of query, key and value side by side
  b.gemm(s.tokens, s.hidden, s.qkv, 2, e);
  b.stream(5 * s.sp_unit);
  b.stream(3 * s.sp_unit);
  if (e) b.stream(1.5 * (2 * s.unit + 2 * s.tokens * s.qkv + ffn_bytes));
  if (!job.model.gated) b.stream(2 * s.sp_unit + 2 * s.tokens * (s.qkv + s.ffn));  // bias gradients
  // The two input gradients' collectives; with sequence parallelism the inputs are gathered once more, during
  // the input-gradient product.
  cost.backward_input.tensor = edges * (sw.async_tensor ? kAsyncExposed : 1);
  cost.backward_input.host =
      operator_host(sw, job, 0.75 * sw.layer_backward_operators + communication_operators, true);

  Pass w(d, cost.backward_weight);
  w.gemm(s.hidden, s.ffn, s.tokens, wide, e);
  w.gemm(up, s.hidden, s.tokens, wide, e);
  w.gemm(s.hidden, s.q, s.tokens, wide, e);
  w.gemm(s.qkv, s.hidden, s.tokens, wide, e);
  if (sw.sharded) w.stream(10 * parameters);
  accumulate(sw, w, parameters);
  cost.backward_weight.host = operator_host(sw, job, 0.25 * sw.layer_backward_operators, false);
  return cost;
}

PartCost embedding_cost(const Machine& machine, const Software& sw, const Job& job) {
  const Sizes s = sizes_of(job);
  PartCost cost;
  Pass f(machine.device, cost.forward);
  f.stream(2 * s.unit);  // lookup
  if (job.tensor > 1) {
    f.stream(2 * s.unit);
    cost.forward.tensor = job.sequence_parallel
                              ? scatter_seconds(machine.network, {job.tensor, 1}, s.unit)
                              : all_reduce_seconds(machine.network, {job.tensor, 1}, s.unit);
  }
  if (job.model.positions > 0) f.stream(3 * s.unit);
  if (drops_stream(sw, job)) f.stream(2.5 * s.sp_unit);
  cost.forward.host = 10 * sw.host_operator_s;
  Pass w(machine.device, cost.backward_weight);
  w.stream(3 * s.unit);
  // The lookup's gradient is a dense tensor of the whole table: cleared, and added to the gradient.
  const double table = job.model.vocab * job.model.hidden / job.tensor;
  w.stream(table * (4 + 2 * sw.gradient_bytes));
  cost.backward_weight.host = 8 * sw.host_operator_s;
  return cost;
}

PartCost output_cost(const Machine& machine, const Software& sw, const Job& job, double shards) {
  const Sizes s = sizes_of(job);
  const double vocab = job.model.vocab / (job.tensor * shards);
  const double logits = 4 * s.tokens * vocab;  // fp32
  PartCost cost;
  Pass f(machine.device, cost.forward);
  f.stream(2 * s.sp_unit);  // final norm
  f.gemm(s.tokens, vocab, s.hidden);
  f.stream(sw.loss_passes * logits);
  if (job.tensor > 1) {
    if (job.sequence_parallel)
      cost.forward.tensor += scatter_seconds(machine.network, {job.tensor, 1}, s.unit);
    cost.forward.tensor += 3 * all_reduce_seconds(machine.network, {job.tensor, 1}, 4 * s.tokens);
  }
  cost.forward.host = 20 * sw.host_operator_s;
  Pass b(machine.device, cost.backward_input);
  b.stream(sw.loss_backward_passes * logits);
  b.gemm(s.tokens, s.hidden, vocab);
  b.stream(5 * s.sp_unit);
  if (job.tensor > 1) {
    cost.backward_input.tensor = job.sequence_parallel
                                     ? scatter_seconds(machine.network, {job.tensor, 1}, s.unit)
                                     : all_reduce_seconds(machine.network, {job.tensor, 1}, s.unit);
  }
  cost.backward_input.host = 12 * sw.host_operator_s;
  Pass w(machine.device, cost.backward_weight);
  w.gemm(vocab, s.hidden, s.tokens, sw.fused_weight_gradient ? 2 * sw.gradient_bytes : 2);
  accumulate(sw, w, vocab * s.hidden);
  cost.backward_weight.host = 3 * sw.host_operator_s;
  return cost;
}

}  // namespace plumbline::cluster
