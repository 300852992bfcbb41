#include "bench/training/feed_forward/mixture.hpp"

#include <utility>

#include "bench/training/feed_forward/activation.hpp"
#include "bench/training/feed_forward/grouped_products.hpp"
#include "bench/training/feed_forward/shared_expert.hpp"

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
  router.sigmoid = config.model.mixture.scores == RouterScores::sigmoid;
  router.groups = config.model.mixture.groups;
  router.chosen_groups = config.model.mixture.chosen_groups;
  router.scale = config.model.mixture.routed_scale;
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

void make_routing(const TrainingContext& context, const Matrix& x, const Matrix& weight, const Matrix& bias,
                  Routing& routing) {
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
  Router router = router_of(context);
  router.bias = bias;
  ops.route(router, routing.logits, routing.chosen, routing.counts.data());
  ops.arrange(router, routing.logits, routing.chosen, routing.places, routing.tokens, routing.weights);
}

/// What every row of the experts counts is part of the activation, so that its gradient is a product of rows with the
/// gradient of that. Leaves the activation without weights in state.activation, and the gradient of what is without in
/// `dact`. Returns the weights' gradient, (2, T·k) of which the first row counts.
Tensor weights_backward(const TrainingContext& context, const MixtureState& state, const Matrix& dact) {
  Operators& ops = context.operators;
  const Matrix activation = state.activation.matrix();
  const std::int64_t elements = dact.elements();
  Tensor products = context.make_fp32(kPassing, "gradient of expert weights", 2, dact.rows);
  activation_forward(context, state.fc1, activation);
  ops.row_products(dact.reshaped(1, elements), activation.reshaped(1, elements), 0, dact.cols, products);
  ops.scale_rows(dact, state.routing.weights, dact);
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

void mixture_forward(const TrainingContext& context, const MixtureMatrices& weights, const Matrix& bias,
                     const Matrix& norm, MixtureState& state) {
  const LayerWidths& shape = context.shape;
  Routing& routing = state.routing;
  {
    const AllRows x = context.gather_rows(norm);
    make_routing(context, x, weights.router, bias, routing);
    const Tensor rows = sent_to_experts(context, routing, x);
    state.fc1 = context.make(context.kept, "layer fc1", shape.choices, shape.expert_fc1);
    GroupedProducts(context.operators, routing.counts).forward(rows, weights.fc1, state.fc1);
    shared_expert_forward(context, weights, x, state.shared);
  }
  state.activation = context.make(context.kept, "layer activation", shape.choices, shape.expert_ffn);
  activation_forward(context, state.fc1, state.activation);
  context.operators.scale_rows(state.activation, routing.weights, state.activation);
  shared_expert_activation(context, state.shared);
}

void mixture_output(const TrainingContext& context, const MixtureMatrices& weights, const MixtureState& state,
                    const Matrix& output) {
  const Tensor rows = context.make(kPassing, "rows of experts", context.shape.choices, context.shape.hidden);
  GroupedProducts(context.operators, state.routing.counts).forward(state.activation, weights.fc2, rows);
  add_up_choices(context, rows, state.routing, output,
                 [&](const Matrix& to) { add_shared_output(context, weights, state.shared, to); });
}

Tensor mixture_backward(const TrainingContext& context, const MixtureMatrices& weights,
                        const std::function<MixtureMatrices()>& open, const Matrix& norm, MixtureState& state,
                        Tensor dropped, const Matrix& dy) {
  const LayerWidths& shape = context.shape;
  Routing& routing = state.routing;
  const GroupedProducts experts(context.operators, routing.counts);
  Tensor dact;
  Tensor dshared;
  const MixtureMatrices dweights = [&] {
    const AllRows all = context.gather_rows(dy);
    const Tensor rows = sent_to_experts(context, routing, all);
    dact = context.make(kPassing, "gradient of activation", shape.choices, shape.expert_ffn);
    experts.input_gradient(rows, weights.fc2, dact);
    const MixtureMatrices opened = open();
    experts.weight_gradient(rows, state.activation, opened.fc2);
    dshared = shared_activation_gradient(context, weights, all);
    shared_output_weight(context, opened, all, state.shared);
    return opened;
  }();
  dropped.reset();
  Tensor products = weights_backward(context, state, dact);
  state.activation.reset();
  Tensor dfc1 = activation_backward(context, std::move(dact), state.fc1, kPassing);
  state.fc1.reset();
  shared_gradients(context, std::move(dshared), kPassing, false, state.shared);
  Tensor dnorm = context.make_stream(kPassing, "gradient of norm2");
  {
    const AllRows x = context.gather_rows(norm);
    {
      // The rows' gradient takes the place of the rows.
      const Tensor rows = sent_to_experts(context, routing, x);
      experts.weight_gradient(dfc1, rows, dweights.fc1);
      experts.input_gradient(dfc1, weights.fc1, rows);
      add_up_choices(context, rows, routing, dnorm, [&](const Matrix& to) {
        add_shared_input_gradient(context, weights, state.shared, to);
      });
    }
    dfc1.reset();
    const Tensor dlogits = context.make(kPassing, "gradient of router logits", shape.tokens, shape.experts);
    logits_backward(context, routing, products, dlogits);
    router_weight_gradient(context, dlogits, x, dweights.router);
    add_router_input_gradient(context, dlogits, weights.router, dnorm);
    shared_input_weight(context, dweights, x, state.shared);
    add_gate_input_gradient(context, weights, state.shared, dnorm);
  }
  products.reset();
  state = MixtureState();
  return dnorm;
}

Tensor mixture_backward_input(const TrainingContext& context, const MixtureMatrices& weights,
                              MixtureState& state, const Matrix& dy) {
  const LayerWidths& shape = context.shape;
  Routing& routing = state.routing;
  const GroupedProducts experts(context.operators, routing.counts);
  Tensor dact;
  Tensor dshared;
  {
    const AllRows all = context.gather_rows(dy);
    const Tensor rows = sent_to_experts(context, routing, all);
    dact = context.make(kPassing, "gradient of activation", shape.choices, shape.expert_ffn);
    experts.input_gradient(rows, weights.fc2, dact);
    dshared = shared_activation_gradient(context, weights, all);
  }
  Tensor products = weights_backward(context, state, dact);
  // The weights' gradients read it as it was.
  context.operators.scale_rows(state.activation, routing.weights, state.activation);
  state.fc1_gradient = activation_backward(context, std::move(dact), state.fc1, Category::activations);
  state.fc1.reset();
  shared_gradients(context, std::move(dshared), Category::activations, true, state.shared);
  Tensor dnorm = context.make_stream(kPassing, "gradient of norm2");
  {
    const Tensor rows = context.make(kPassing, "rows of experts", shape.choices, shape.hidden);
    experts.input_gradient(state.fc1_gradient, weights.fc1, rows);
    add_up_choices(context, rows, routing, dnorm,
                   [&](const Matrix& to) { add_shared_input_gradient(context, weights, state.shared, to); });
  }
  state.router_gradient =
      context.make(Category::activations, "gradient of router logits", shape.tokens, shape.experts);
  logits_backward(context, routing, products, state.router_gradient);
  products.reset();
  add_router_input_gradient(context, state.router_gradient, weights.router, dnorm);
  add_gate_input_gradient(context, weights, state.shared, dnorm);
  routing.drop_choices();
  return dnorm;
}

void mixture_output_weight(const TrainingContext& context, const MixtureMatrices& dweights,
                           MixtureState& state, const Matrix& dy) {
  {
    const AllRows all = context.gather_rows(dy);
    const Tensor rows = sent_to_experts(context, state.routing, all);
    GroupedProducts(context.operators, state.routing.counts)
        .weight_gradient(rows, state.activation, dweights.fc2);
    shared_output_weight(context, dweights, all, state.shared);
  }
  state.activation.reset();
  state.shared.activation.reset();
}

void mixture_input_weight(const TrainingContext& context, const MixtureMatrices& dweights, const Matrix& norm,
                          MixtureState& state) {
  {
    const AllRows x = context.gather_rows(norm);
    router_weight_gradient(context, state.router_gradient, x, dweights.router);
    shared_input_weight(context, dweights, x, state.shared);
    const Tensor rows = sent_to_experts(context, state.routing, x);
    GroupedProducts(context.operators, state.routing.counts)
        .weight_gradient(state.fc1_gradient, rows, dweights.fc1);
  }
  state = MixtureState();
}

}  // namespace plumbline::training
