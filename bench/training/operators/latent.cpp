#include "bench/training/operators/latent.hpp"

#include <utility>

#include "bench/training/layer/attention_tensors.hpp"
#include "bench/training/layer/rotary.hpp"
#include "bench/training/tape/pass.hpp"
#include "bench/training/tape/reverse.hpp"

namespace plumbline::training {
namespace {

constexpr double kEpsilon =
    1e-6;  // of both norms, regardless of the others (transformers' DeepseekV3RMSNorm)

/// Compressed form of queries, keys and values, or its gradient: the queries' part, the keys' and values',
/// and the keys' rotated elements.
struct Compressed {
  Compressed(const LayerWidths& shape, const Matrix& all)
      : query(all.columns(0, shape.query_rank)),
        kv(all.columns(shape.query_rank, shape.kv_rank)),
        rotated(all.columns(shape.query_rank + shape.kv_rank, shape.rotated)) {}
  Matrix query, kv, rotated;
};

Matrix keys_of(const LayerWidths& shape, const Matrix& keys_values) {
  return keys_values.row_range(0, shape.own_keys);
}
Matrix values_of(const LayerWidths& shape, const Matrix& keys_values) {
  return keys_values.row_range(shape.own_keys, shape.value);
}

/// The keys' own elements, or their gradient. In FP8, where keys and values are one product, together with
/// the values.
class OwnKeys {
 public:
  OwnKeys(const TrainingContext& context, const Layer& layer)
      : context_(context),
        with_values_(layer.fp8.keys_values.weight),
        held_(context.make(kPassing, "keys' own elements", context.shape.tokens,
                           context.shape.own_keys + (with_values_ ? context.shape.value : 0))) {}

  Matrix keys() const { return held_.matrix().columns(0, context_.shape.own_keys); }
  bool with_values() const { return with_values_; }
  /// With the values.
  const Matrix& all() const { return held_.matrix(); }
  Matrix values() const { return all().columns(context_.shape.own_keys, context_.shape.value); }

 private:
  const TrainingContext& context_;
  const bool with_values_;
  const Tensor held_;
};

/// Gradients of queries, and in FP8 of keys and values, as products read them.
struct UpGradients {
  LinearOperand queries, keys_values;
};

/// The norms of the first two parts; the third goes along.
void norms_forward(const TrainingContext& context, const LayerVectors& vectors, const Matrix& compressed,
                   const Matrix& latent, const Matrix& stats) {
  const Compressed from(context.shape, compressed);
  const Compressed to(context.shape, latent);
  context.operators.head_norm_forward(from.query, vectors.query_rank_norm, to.query, stats.columns(0, 1),
                                      kEpsilon);
  context.operators.head_norm_forward(from.kv, vectors.kv_rank_norm, to.kv, stats.columns(1, 1), kEpsilon);
  context.operators.copy(from.rotated, to.rotated);
}

/// Turns the gradient of the norms' outputs into that of their inputs.
void norms_backward(const TrainingContext& context, const Layer& layer, const Matrix& compressed,
                    const Matrix& stats, const Matrix& gradient) {
  const Compressed at(context.shape, gradient);
  const Compressed from(context.shape, compressed);
  context.operators.head_norm_backward(at.query, from.query, layer.values.query_rank_norm,
                                       stats.columns(0, 1), at.query, layer.gradients.query_rank_norm);
  context.operators.head_norm_backward(at.kv, from.kv, layer.values.kv_rank_norm, stats.columns(1, 1), at.kv,
                                       layer.gradients.kv_rank_norm);
}

/// In FP8, once the keys' own are in `own`.
LinearOperand gradient_of_keys_values(const TrainingContext& context, const Layer& layer,
                                      const QueryKeyValue& from, const OwnKeys& own) {
  if (!own.with_values()) return {};
  context.operators.copy(from.v, own.values());
  return layer.fp8.keys_values.gradient.read(own.all(), "quantized gradient of keys and values");
}

LinearOperand gradient_of_queries(const Layer& layer, const QueryKeyValue& from) {
  return layer.fp8.queries.gradient.read(from.q, "quantized gradient of queries");
}

/// gradient (R, C): that of the norms' outputs, from those of queries, keys and values, over the tensor
/// ranks, which have heads of their own. Leaves the gradient of the keys' own elements in `own`.
UpGradients sum_gradients(const TrainingContext& context, const SharedBuffers& shared, const Layer& layer,
                          const LatentWeights& weights, const QueryKeyValue& from, const OwnKeys& own,
                          const Matrix& gradient) {
  const LayerWidths& shape = context.shape;
  Operators& ops = context.operators;
  rotate_heads(context, shared, from.q, shape.attention.head_dim, true);
  UpGradients up{gradient_of_queries(layer, from), {}};
  context.sum_over_tensor_ranks(gradient, [&](const Matrix& to) {
    const Compressed sums(shape, to);
    ops.split_heads(from.k, shape.attention.heads, sums.rotated, own.keys());
    rotate_heads(context, shared, sums.rotated, shape.rotated, true);
    linear_input_gradient(context, up.queries, weights.queries, sums.query);
    if (own.with_values()) {
      up.keys_values = gradient_of_keys_values(context, layer, from, own);
      return linear_input_gradient(context, up.keys_values, weights.keys_values, sums.kv);
    }
    ops.gemm({.a = own.keys(), .b = keys_of(shape, weights.keys_values.values), .c = sums.kv});
    ops.gemm(
        {.a = from.v, .b = values_of(shape, weights.keys_values.values), .c = sums.kv, .accumulate = true});
  });
  return up;
}

/// Weight gradients of the matrices that make queries, the keys' own elements and values from the compressed
/// form, `all` (T, C).
void add_weight_gradients(const TrainingContext& context, const Layer& layer, const LatentMatrices& dweights,
                          const Matrix& all, const QueryKeyValue& from, const OwnKeys& own,
                          const UpGradients& up) {
  const LayerWidths& shape = context.shape;
  const Compressed x(shape, all);
  {
    const LinearOperand input = layer.fp8.queries.input.read(x.query, "quantized compression");
    linear_weight_gradient(context, up.queries, input, dweights.queries);
  }
  const LinearOperand input = layer.fp8.keys_values.input.read(x.kv, "quantized compression");
  if (own.with_values()) return linear_weight_gradient(context, up.keys_values, input, dweights.keys_values);
  linear_weight_gradient(context, LinearOperand(own.keys()), input, keys_of(shape, dweights.keys_values));
  linear_weight_gradient(context, LinearOperand(from.v), input, values_of(shape, dweights.keys_values));
}

/// From that of the compressed form; every tensor rank has the whole matrix and computes all of it.
void add_compression_gradient(const TrainingContext& context, const LatentMatrices& dweights,
                              const LinearOperand& norm, const LinearOperand& gradient) {
  const LinearOperand x = gather_rows(context, norm);
  const LinearOperand dy = gather_rows(context, gradient);
  linear_weight_gradient(context, dy, x, dweights.down);
}

LinearOperand gradient_of_compression(const Layer& layer, const Matrix& gradient) {
  return layer.fp8.qkv.gradient.read(gradient, "quantized gradient of compression");
}

void up_projection(Pass& pass, const Layer& layer, Slot latent, Slot qkv) {
  const TrainingContext& context = pass.context;
  const SharedBuffers& shared = pass.rank.shared;
  const LatentWeights& weights = pass.weights().latent;
  const LayerWidths& shape = context.shape;
  Operators& ops = context.operators;
  const AllRows all = context.gather_rows(pass[latent]);
  const Compressed x(shape, all);
  // Repeated, they are rotated already unless they were gathered.
  if (pass.repeats != Repeats::module || all.held)
    rotate_heads(context, shared, x.rotated, shape.rotated, false);
  const QueryKeyValue to(shape, pass.make(qkv, shape.tokens, shape.qkv));
  {
    const LinearOperand input = layer.fp8.queries.input.read(x.query, "quantized compression");
    linear(context, input, weights.queries, {}, to.q);
  }
  rotate_heads(context, shared, to.q, shape.attention.head_dim, false);
  {
    const OwnKeys own(context, layer);
    if (own.with_values()) {
      const LinearOperand input = layer.fp8.keys_values.input.read(x.kv, "quantized compression");
      linear(context, input, weights.keys_values, {}, own.all());
      ops.copy(own.values(), to.v);
    } else {
      ops.gemm({.a = x.kv,
                .b = keys_of(shape, weights.keys_values.values),
                .c = own.keys(),
                .b_transposed = true});
    }
    ops.join_heads(x.rotated, own.keys(), shape.attention.heads, to.k);
    if (own.with_values()) return;
  }
  ops.gemm({.a = x.kv, .b = values_of(shape, weights.keys_values.values), .c = to.v, .b_transposed = true});
}

void up_gradients(Pass& pass, const Layer& layer, Slot latent, Slot dqkv, Slot dlatent) {
  const TrainingContext& context = pass.context;
  const LatentMatrices dweights = pass.open(layer).latent;
  const Matrix gradient = pass.make(dlatent, context.shape.rows, context.shape.compressed);
  const OwnKeys own(context, layer);
  const QueryKeyValue from(context.shape, pass[dqkv]);
  const UpGradients up =
      sum_gradients(context, pass.rank.shared, layer, pass.weights().latent, from, own, gradient);
  const AllRows all = context.gather_rows(pass[latent]);
  add_weight_gradients(context, layer, dweights, all, from, own, up);
}

void up_input_gradient(Pass& pass, const Layer& layer, Slot dqkv, Slot dlatent) {
  const TrainingContext& context = pass.context;
  const Matrix gradient = pass.make(dlatent, context.shape.rows, context.shape.compressed);
  const OwnKeys own(context, layer);
  sum_gradients(context, pass.rank.shared, layer, pass.weights().latent,
                QueryKeyValue(context.shape, pass[dqkv]), own, gradient);
}

void up_weight_gradient(Pass& pass, const Layer& layer, Slot latent, Slot dqkv) {
  const TrainingContext& context = pass.context;
  const LatentMatrices dweights = pass.open(layer).latent;
  const AllRows all = context.gather_rows(pass[latent]);
  const OwnKeys own(context, layer);
  const QueryKeyValue from(context.shape, pass[dqkv]);
  context.operators.split_heads(from.k, context.shape.attention.heads, {}, own.keys());
  UpGradients up{gradient_of_queries(layer, from), {}};
  up.keys_values = gradient_of_keys_values(context, layer, from, own);
  add_weight_gradients(context, layer, dweights, all, from, own, up);
}

/// Queries, keys and values (T, qkv) of the rank's heads from the normed compression.
Slot project_up(Tape& tape, const Layer& layer, Slot latent) {
  const Slot qkv = tape.slot("layer qkv");
  const Layer* const of = &layer;
  const auto backward = [=](Reverse& reverse) {
    const Slot dy = reverse.gradient(qkv);
    const Slot dx = reverse.make(latent, "gradient of compression");
    reverse.product(dy, latent, dx,
                    {[=](Pass& pass) { up_gradients(pass, *of, latent, dy, dx); },
                     [=](Pass& pass) { up_input_gradient(pass, *of, dy, dx); },
                     [=](Pass& pass) { up_weight_gradient(pass, *of, latent, dy); }});
  };
  tape.add({.forward = {.reads = {latent},
                        .makes = {qkv},
                        .run = [=](Pass& pass) { up_projection(pass, *of, latent, qkv); }},
            .backward = backward,
            .repeats = tape.context.config.recompute.selected().mla_up_proj});
  return qkv;
}

void compress(Pass& pass, const Layer& layer, Slot norm, Slot compressed, Slot latent, Slot statistics) {
  const LayerWidths& shape = pass.context.shape;
  const Matrix product = pass.make(compressed, shape.rows, shape.compressed);
  linear(pass.context, pass.operand(norm), pass.weights().latent.down, {}, product);
  const Matrix normed = pass.make(latent, shape.rows, shape.compressed);
  norms_forward(pass.context, layer.values, product, normed, pass.make(statistics, shape.rows, 2));
}

void compression_input_gradient(const Pass& pass, const LinearOperand& gradient, const Matrix& to) {
  linear_input_gradient(pass.context, gradient, pass.weights().latent.down, to);
}

}  // namespace

Slot latent_queries_keys_values(Tape& tape, const Layer& layer, Slot norm) {
  const Slot compressed = tape.slot("layer compression");
  const Slot latent = tape.slot("layer normed compression");
  const Slot statistics = tape.fp32_slot("layer compression statistics");
  const Layer* const of = &layer;
  const auto backward = [=](Reverse& reverse) {
    const Slot dy = reverse.gradient(latent);
    const Slot dc = reverse.overwrite(dy);
    reverse.step({.reads = {dy, compressed, statistics}, .makes = {dc}, .run = [=](Pass& pass) {
                    norms_backward(pass.context, *of, pass[compressed], pass[statistics], pass[dy]);
                  }});
    const Slot dx = reverse.make(norm, "gradient of norm1");
    if (reverse.joint()) {
      return reverse.step({.reads = {dc, norm}, .makes = {dx}, .run = [=](Pass& pass) {
                             const LinearOperand gradient = gradient_of_compression(*of, pass[dc]);
                             compression_input_gradient(pass, gradient, pass.make_stream(dx));
                             add_compression_gradient(pass.context, pass.open(*of).latent, pass.operand(norm),
                                                      gradient);
                           }});
    }
    reverse.step({.reads = {dc}, .makes = {dx}, .run = [=](Pass& pass) {
                    const LinearOperand gradient = gradient_of_compression(*of, pass[dc]);
                    compression_input_gradient(pass, gradient, pass.make_stream(dx));
                  }});
    reverse.weights({.reads = {dc, norm}, .run = [=](Pass& pass) {
                       add_compression_gradient(pass.context, pass.open(*of).latent, pass.operand(norm),
                                                gradient_of_compression(*of, pass[dc]));
                     }});
  };
  tape.add(
      {.forward = {.reads = {norm},
                   .makes = {compressed, latent, statistics},
                   .run = [=](Pass& pass) { compress(pass, *of, norm, compressed, latent, statistics); }},
       .backward = backward});
  return project_up(tape, layer, latent);
}

}  // namespace plumbline::training
