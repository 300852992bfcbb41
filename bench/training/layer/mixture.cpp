#include "bench/training/layer/mixture.hpp"

#include <utility>

#include "bench/training/experts/grouped_products.hpp"
#include "bench/training/layer/activation.hpp"
#include "bench/training/layer/shared_expert.hpp"

namespace plumbline::training {
namespace {

/// With the coefficients of the losses that keep the load even, as parts of the mean loss of the step.
Router router_of(const TrainingContext& context) {
  const RunConfig& config = context.config;
  const auto tokens = static_cast<double>(context.shape.tokens);
  const double parts = static_cast<double>(config.microbatches()) * config.parallel.data();
  Router router;
  router.top_k = config.model.mixture.top_k;
  router.normalized = config.model.mixture.normalized;
  router.balance = config.mixture.aux_loss_coeff * static_cast<double>(config.model.mixture.experts) /
                   (static_cast<double>(router.top_k) * tokens * tokens * parts);
  router.z = config.mixture.z_loss_coeff / (tokens * config.parallel.context * parts);
  return router;
}

/// The rows of the experts, (T·k, h), from those of the tokens.
Tensor sent_to_experts(const TrainingContext& context, const Routing& routing, const Matrix& x) {
  Tensor rows = context.make(kPassing, "rows of experts", context.shape.choices, context.shape.hidden);
  context.operators.embedding_forward(routing.tokens, x, 0, rows);
  return rows;
}

void make_routing(const TrainingContext& context, const Matrix& x, const Matrix& weight, Routing& routing) {
  const LayerWidths& shape = context.shape;
  Operators& ops = context.operators;
  const auto of_choices = [&](const char* holder, DType type) {
    return context.arena.allocate(context.kept, holder, 1, shape.choices, type);
  };
  routing.logits = context.make_fp32(context.kept, "layer router logits", shape.tokens, shape.experts);
  routing.chosen = of_choices("layer experts of tokens", DType::int32);
  routing.places = of_choices("layer places of tokens", DType::int32);
  routing.tokens = of_choices("layer tokens of experts", DType::int32);
  routing.weights = of_choices("layer weights of experts", DType::fp32);
  routing.counts.assign(static_cast<std::size_t>(shape.experts), 0);
  ops.gemm({.a = x, .b = weight, .c = routing.logits, .b_transposed = true});
  const Router router = router_of(context);
  ops.route(router, routing.logits, routing.chosen, routing.counts.data());
  ops.arrange(router, routing.logits, routing.chosen, routing.places, routing.tokens, routing.weights);
}

/// What every row of the experts counts is part of the activation, so that its gradient is a product of rows with the
/// gradient of that. Leaves the activation without weights in saved.activation, and the gradient of what is without in
/// `dact`. Returns the weights' gradient, (2, T·k) of which the first row counts.
Tensor weights_backward(const TrainingContext& context, LayerActivations& saved, const Matrix& dact) {
  Operators& ops = context.operators;
  const Matrix activation = saved.activation.values();
  const std::int64_t elements = dact.elements();
  Tensor products = context.make_fp32(kPassing, "gradient of expert weights", 2, dact.rows);
  activation_forward(context, saved.fc1, activation);
  ops.row_products(dact.reshaped(1, elements), activation.reshaped(1, elements), 0, dact.cols, products);
  ops.scale_rows(dact, saved.routing.weights, dact);
  return products;
}

/// The router's logits from the weights, of which every tensor rank has seen its columns alone.
void logits_backward(const TrainingContext& context, const Routing& routing, const Tensor& products,
                     const Matrix& dlogits) {
  const Matrix dweights = products.matrix().row_range(0, 1);
  context.reduce_over_tensor_ranks(dweights, ReduceOp::sum);
  context.operators.route_backward(router_of(context), routing.logits, routing.chosen, routing.places,
                                   dweights, dlogits);
}

/// dx += dlogits·W, of this rank's rows of the stream.
void add_router_input_gradient(const TrainingContext& context, const Matrix& dlogits, const Matrix& weight,
                               const Matrix& dx) {
  const std::int64_t first = context.sequence_parallel ? context.tensor_rank() * dx.rows : 0;
  context.operators.gemm({.a = dlogits.row_range(first, dx.rows), .b = weight, .c = dx, .accumulate = true});
}

void router_weight_gradient(const TrainingContext& context, const Matrix& dlogits, const Matrix& x,
                            const Matrix& dweight) {
  context.operators.gemm({.a = dlogits, .b = x, .c = dweight, .a_transposed = true, .accumulate = true});
}

/// Every token's rows and what `add_shared` adds, over the tensor ranks too.
template <class AddShared>
void add_up_choices(const TrainingContext& context, const Matrix& rows, const Routing& routing,
                    const Matrix& sums, const AddShared& add_shared) {
  context.sum_over_tensor_ranks(sums, [&](const Matrix& to) {
    context.operators.combine_rows(rows, routing.places, to);
    add_shared(to);
  });
}

}  // namespace

void mixture_forward(const TrainingContext& context, const LayerWeights& weights, LayerActivations& saved) {
  const LayerWidths& shape = context.shape;
  Routing& routing = saved.routing;
  {
    const AllRows x = context.gather_rows(saved.norm2.values());
    make_routing(context, x, weights.router, routing);
    const Tensor rows = sent_to_experts(context, routing, x);
    saved.fc1 = context.make(context.kept, "layer fc1", shape.choices, shape.fc1);
    GroupedProducts(context.operators, routing.counts).forward(rows, weights.fc1.values, saved.fc1);
    shared_expert_forward(context, weights, x, saved);
  }
  Tensor activation = context.make(context.kept, "layer activation", shape.choices, shape.ffn);
  activation_forward(context, saved.fc1, activation);
  context.operators.scale_rows(activation, routing.weights, activation);
  saved.activation = LinearOperand(std::move(activation));
  shared_expert_activation(context, saved);
}

void mixture_output(const TrainingContext& context, const LayerWeights& weights, LayerActivations& saved,
                    const Matrix& output) {
  const Tensor rows = context.make(kPassing, "rows of experts", context.shape.choices, context.shape.hidden);
  GroupedProducts(context.operators, saved.routing.counts)
      .forward(saved.activation.values(), weights.fc2.values, rows);
  add_up_choices(context, rows, saved.routing, output,
                 [&](const Matrix& to) { add_shared_output(context, weights, saved, to); });
}

Tensor mixture_backward(const TrainingContext& context, const Layer& layer, const LayerWeights& weights,
                        UnitGradients& gradients, LayerActivations& saved, Tensor dropped, const Matrix& dy) {
  const LayerWidths& shape = context.shape;
  Routing& routing = saved.routing;
  const GroupedProducts experts(context.operators, routing.counts);
  Tensor dact;
  Tensor dshared;
  const LayerMatrices dweights = [&] {
    const AllRows all = context.gather_rows(dy);
    const Tensor rows = sent_to_experts(context, routing, all);
    dact = context.make(kPassing, "gradient of activation", shape.choices, shape.ffn);
    experts.input_gradient(rows, weights.fc2.values, dact);
    const LayerMatrices opened = layer.matrices(gradients.open(layer.unit));
    experts.weight_gradient(rows, saved.activation.values(), opened.fc2);
    dshared = shared_activation_gradient(context, weights, all);
    shared_output_weight(context, opened, all, saved);
    return opened;
  }();
  dropped.reset();
  Tensor products = weights_backward(context, saved, dact);
  saved.activation.reset();
  Tensor dfc1 = activation_backward(context, std::move(dact), saved.fc1, kPassing);
  saved.fc1.reset();
  shared_gradients(context, std::move(dshared), kPassing, false, saved);
  Tensor dnorm = context.make_stream(kPassing, "gradient of norm2");
  {
    const AllRows x = context.gather_rows(saved.norm2.values());
    {
      // The rows' gradient takes the place of the rows.
      const Tensor rows = sent_to_experts(context, routing, x);
      experts.weight_gradient(dfc1, rows, dweights.fc1);
      experts.input_gradient(dfc1, weights.fc1.values, rows);
      add_up_choices(context, rows, routing, dnorm,
                     [&](const Matrix& to) { add_shared_input_gradient(context, weights, saved, to); });
    }
    dfc1.reset();
    const Tensor dlogits = context.make(kPassing, "gradient of router logits", shape.tokens, shape.experts);
    logits_backward(context, routing, products, dlogits);
    router_weight_gradient(context, dlogits, x, dweights.router);
    add_router_input_gradient(context, dlogits, weights.router, dnorm);
    shared_input_weight(context, dweights, x, saved);
    add_gate_input_gradient(context, weights, saved, dnorm);
  }
  products.reset();
  saved.shared = SharedExpert();
  routing = Routing();
  saved.norm2.reset();
  return dnorm;
}

Tensor mixture_backward_input(const TrainingContext& context, const LayerWeights& weights,
                              LayerActivations& saved, const Matrix& dy) {
  const LayerWidths& shape = context.shape;
  Routing& routing = saved.routing;
  const GroupedProducts experts(context.operators, routing.counts);
  Tensor dact;
  Tensor dshared;
  {
    const AllRows all = context.gather_rows(dy);
    const Tensor rows = sent_to_experts(context, routing, all);
    dact = context.make(kPassing, "gradient of activation", shape.choices, shape.ffn);
    experts.input_gradient(rows, weights.fc2.values, dact);
    dshared = shared_activation_gradient(context, weights, all);
  }
  Tensor products = weights_backward(context, saved, dact);
  // The weights' gradients read it as it was.
  context.operators.scale_rows(saved.activation.values(), routing.weights, saved.activation.values());
  saved.fc1_gradient = activation_backward(context, std::move(dact), saved.fc1, Category::activations);
  saved.fc1.reset();
  shared_gradients(context, std::move(dshared), Category::activations, true, saved);
  Tensor dnorm = context.make_stream(kPassing, "gradient of norm2");
  {
    const Tensor rows = context.make(kPassing, "rows of experts", shape.choices, shape.hidden);
    experts.input_gradient(saved.fc1_gradient, weights.fc1.values, rows);
    add_up_choices(context, rows, routing, dnorm,
                   [&](const Matrix& to) { add_shared_input_gradient(context, weights, saved, to); });
  }
  saved.router_gradient =
      context.make(Category::activations, "gradient of router logits", shape.tokens, shape.experts);
  logits_backward(context, routing, products, saved.router_gradient);
  products.reset();
  add_router_input_gradient(context, saved.router_gradient, weights.router, dnorm);
  add_gate_input_gradient(context, weights, saved, dnorm);
  routing.drop_choices();
  return dnorm;
}

void mixture_output_weight(const TrainingContext& context, const LayerMatrices& dweights,
                           LayerActivations& saved, const Matrix& dy) {
  const AllRows all = context.gather_rows(dy);
  const Tensor rows = sent_to_experts(context, saved.routing, all);
  GroupedProducts(context.operators, saved.routing.counts)
      .weight_gradient(rows, saved.activation.values(), dweights.fc2);
  shared_output_weight(context, dweights, all, saved);
  saved.activation.reset();
  saved.shared.activation.reset();
}

void mixture_input_weight(const TrainingContext& context, const LayerMatrices& dweights,
                          LayerActivations& saved) {
  {
    const AllRows x = context.gather_rows(saved.norm2.values());
    router_weight_gradient(context, saved.router_gradient, x, dweights.router);
    shared_input_weight(context, dweights, x, saved);
    const Tensor rows = sent_to_experts(context, saved.routing, x);
    GroupedProducts(context.operators, saved.routing.counts)
        .weight_gradient(saved.fc1_gradient, rows, dweights.fc1);
  }
  saved.fc1_gradient.reset();
  saved.router_gradient.reset();
  saved.shared = SharedExpert();
  saved.routing = Routing();
  saved.norm2.reset();
}

}  // namespace plumbline::training
