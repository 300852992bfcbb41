#include "bench/training/feed_forward/mixture.hpp"

#include <utility>

#include "bench/training/feed_forward/activation.hpp"
#include "bench/training/feed_forward/gathered_dispatch.hpp"
#include "bench/training/feed_forward/grouped_products.hpp"
#include "bench/training/feed_forward/router.hpp"
#include "bench/training/feed_forward/shared_expert.hpp"

namespace plumbline::training {
namespace {

/// Rows of the stream and what they are gathered to over the tensor ranks: whose tokens this rank sends.
const Matrix& senders(const TrainingContext& context, const Matrix& own, const Matrix& all) {
  return context.shape.folded ? own : all;
}

/// A gradient of the stream, gathered where anything but the experts reads it.
AllRows gathered_gradient(const TrainingContext& context, const Matrix& dy) {
  if (context.shape.folded && context.shape.shared == 0) return {{}, dy};
  return context.gather_rows(dy);
}

/// `compute` if the shared expert's products run alongside the exchanges of rows (bench/training/overlap.md), else nothing.
Meanwhile if_hidden(const TrainingContext& context, Meanwhile compute) {
  return hides_shared_expert(context) ? std::move(compute) : Meanwhile();
}

/// The rows of this rank's experts, (N, h) or (N', h), from those of the tokens that it sends. `category`: of the latter;
/// `meanwhile`: while they are under way.
Tensor sent_to_experts(const TrainingContext& context, const MixtureState& state, const Matrix& x,
                       Category category = kPassing, const Meanwhile& meanwhile = {}) {
  constexpr const char* kHolder = "layer rows of experts";
  const LayerWidths& shape = context.shape;
  if (gathers_tokens(context))
    return by_expert(context, state.dispatch, gathered_tokens(context, x), category, kHolder);
  Tensor rows = context.make(kPassing, "rows of experts", shape.slices * state.routing.rows(), shape.hidden);
  for_each_slice(context, state.routing.counts, [&](std::int64_t first, std::int64_t to, std::int64_t count) {
    if (count == 0) return;
    context.operators.embedding_forward(state.routing.tokens.matrix().columns(first, count), x, 0,
                                        rows.matrix().row_range(to, count));
  });
  if (!spreads(context)) return rows;
  Tensor received = exchanged(context, state.dispatch, rows, Exchange::hidden, meanwhile);
  rows.reset();
  return by_expert(context, state.dispatch, std::move(received), category, kHolder);
}

/// Of the experts on this rank.
const std::vector<std::int64_t>& counts_of(const TrainingContext& context, const MixtureState& state) {
  return spreads(context) ? state.dispatch.counts : state.routing.counts;
}
std::int64_t rows_of(const TrainingContext& context, const MixtureState& state) {
  return spreads(context) ? state.dispatch.rows : state.routing.rows();
}
const Tensor& weights_of(const TrainingContext& context, const MixtureState& state) {
  return spreads(context) ? state.dispatch.weights : state.routing.weights;
}

/// Tells the ranks of a layer's experts what goes where.
void open_exchange(const TrainingContext& context, MixtureState& state) {
  if (gathers_tokens(context)) return open_gathered_dispatch(context, state.routing, state.dispatch);
  if (!spreads(context)) return;
  open_dispatch(context, state.routing.counts, state.routing.places, state.routing.weights, state.dispatch);
}

/// Rows of the experts where their tokens are; where these were gathered, sums are what goes back.
Tensor back_at_tokens(const TrainingContext& context, const MixtureState& state, Tensor rows,
                      const Meanwhile& meanwhile = {}) {
  if (!spreads(context) || gathers_tokens(context)) return rows;
  Tensor leaving = by_rank(context, state.dispatch, rows);
  rows.reset();
  return returned(context, state.dispatch, std::move(leaving), Exchange::hidden, meanwhile);
}

/// As the products of the experts read them and their weights' gradients, in a tensor of `category`.
LinearOperand operand_of(const TrainingContext& context, const MixtureState& state, const Fp8Slot& slot,
                         Tensor rows, Category category, const char* holder) {
  return slot.keep_rows(std::move(rows), counts_of(context, state), category, holder);
}

/// Of activations, each with its row's weight.
void weigh(const TrainingContext& context, const MixtureState& state, const Matrix& rows) {
  if (rows.rows == 0) return;
  context.operators.scale_rows(rows, weights_of(context, state).matrix().reshaped(1, rows.rows), rows);
}

/// What every row of the experts counts is part of the activation, so that its gradient is a product of rows with the
/// gradient of that. Leaves the activation without weights in state.activation unless it is quantized, and the gradient of what
/// is without in `dact`. Returns the weights' gradient, (2, N) of which the first row counts.
Tensor weights_backward(const TrainingContext& context, const MixtureState& state, const Matrix& dact) {
  Operators& ops = context.operators;
  const std::int64_t elements = dact.elements();
  Tensor products = context.make_fp32(kPassing, "gradient of expert weights", 2, dact.rows);
  if (elements == 0) return products;
  Tensor wide;
  if (state.activation.quantized())
    wide = context.make(kPassing, "activation without weights", dact.rows, dact.cols);
  const Matrix activation = wide ? wide.matrix() : state.activation.values();
  activation_forward(context, state.fc1, activation);
  ops.row_products(dact.reshaped(1, elements), activation.reshaped(1, elements), 0, dact.cols, products);
  weigh(context, state, dact);
  return products;
}

/// Of every choice of the tokens that this rank sends, in order, the places of its rows where these have come back.
const Matrix returns_of(const MixtureState& state) {
  return state.dispatch.returns ? state.dispatch.returns : state.routing.places;
}

/// The weights' gradient where their tokens are, from `products`, of which the first row counts: by row, or, where experts are
/// cut on their own, of every choice of the micro-batch.
Tensor weights_at_tokens(const TrainingContext& context, const MixtureState& state, Tensor products) {
  if (!spreads(context)) return products;
  const LayerWidths& shape = context.shape;
  Tensor numbers;
  if (gathers_tokens(context)) {
    numbers = numbers_of_choices(context, state.dispatch, std::move(products));
  } else {
    const Matrix row = products.matrix().row_range(0, 1);
    Tensor leaving = by_rank(context, state.dispatch, row.reshaped(row.cols, 1));
    products.reset();
    numbers = returned(context, state.dispatch, std::move(leaving), Exchange::awaited);
  }
  if (!shape.folded) return numbers;
  Tensor own = context.make_fp32(kPassing, "gradient of expert weights", shape.sent, 1);
  context.operators.combine_rows(
      numbers, gathers_tokens(context) ? state.routing.places.matrix() : returns_of(state), false, own);
  numbers.reset();
  if (shape.sent == shape.choices) return own;
  Tensor all = context.make_fp32(kPassing, "gradient of expert weights", shape.choices, 1);
  context.over_context_ranks(
      [&](Communicator& communicator) { communicator.all_gather(Group::tensor, own, all); });
  return all;
}

/// As activation_backward; there may be no rows.
Tensor gated_backward(const TrainingContext& context, Tensor dact, const Matrix& fc1, Category category) {
  if (fc1.rows > 0) return activation_backward(context, std::move(dact), fc1, category);
  return context.make(category, "gradient of fc1", 0, fc1.cols);
}

/// Overwrites `sums` with what the rows of every token add up to.
void add_up_rows(const TrainingContext& context, const Matrix& rows, const MixtureState& state,
                 const Matrix& sums) {
  if (gathers_tokens(context)) return sum_gathered_choices(context, state.dispatch, rows, sums);
  context.operators.combine_rows(rows, returns_of(state), false, sums);
}

/// A product of the shared expert into a matrix, or onto it.
using SharedProduct = std::function<void(const Matrix& to, bool accumulate)>;

/// Where experts are cut regardless of tensor ranks: a shared expert's product alone is summed over these, by itself.
void add_up_apart(const TrainingContext& context, Tensor rows, const MixtureState& state, const Matrix& sums,
                  const SharedProduct& shared_product, const Meanwhile& after) {
  Tensor shared;
  const Meanwhile sum_shared = [&] {
    if (context.shape.shared == 0) return;
    shared = context.make_stream(kPassing, "results of the shared expert");
    context.sum_over_tensor_ranks(shared, [&](const Matrix& to) { shared_product(to, false); });
    if (after) after();
  };
  const Meanwhile meanwhile = if_hidden(context, sum_shared);
  rows = back_at_tokens(context, state, std::move(rows), meanwhile);
  add_up_rows(context, rows, state, sums);
  if (!meanwhile) sum_shared();
  if (shared) context.operators.add(shared, sums, {}, sums);
}

/// Overwrites `sums` with what becomes of the experts' rows, which come back for that, and with the product of the shared
/// expert, over the tensor ranks too. `after` the product whatever else of that expert is to be computed while rows are under way.
void add_up_choices(const TrainingContext& context, Tensor rows, const MixtureState& state,
                    const Matrix& sums, const SharedProduct& shared_product, const Meanwhile& after = {}) {
  if (context.shape.folded && context.tensor_size() > 1)
    return add_up_apart(context, std::move(rows), state, sums, shared_product, after);
  const bool hidden = hides_shared_expert(context);
  if (!hidden) rows = back_at_tokens(context, state, std::move(rows));
  context.sum_over_tensor_ranks(sums, [&](const Matrix& to) {
    if (gathers_tokens(context)) {
      sum_gathered_choices(context, state.dispatch, rows, to);
      return shared_product(to, true);
    }
    // The shared expert's first: that its product can be made before rows are back.
    const auto first = [&] {
      shared_product(to, false);
      if (after) after();
    };
    if (hidden) {
      rows = back_at_tokens(context, state, std::move(rows), first);
    } else {
      first();
    }
    context.operators.combine_rows(rows, returns_of(state), context.shape.shared > 0, to);
  });
}

}  // namespace

void mixture_forward(const TrainingContext& context, const MixtureWeights& weights, const Matrix& bias,
                     const Matrix& norm, MixtureState& state) {
  const LayerWidths& shape = context.shape;
  Routing& routing = state.routing;
  {
    const AllRows x = context.gather_rows(norm);
    make_routing(context, x, weights.values.router, bias, weights.layer, routing);
    open_exchange(context, state);
    const Fp8Slot& slot = weights.fp8.fc1.input;
    const Meanwhile shared = if_hidden(context, [&] {
      shared_expert_forward(context, weights, x, state.shared);
      shared_expert_activation(context, weights.fp8, state.shared);
    });
    Tensor wide = sent_to_experts(context, state, senders(context, norm, x),
                                  slot.category_of_wide(context.kept), shared);
    LinearOperand rows = operand_of(context, state, slot, std::move(wide),
                                    spreads(context) ? context.kept : kPassing, "layer rows of experts");
    state.fc1 = context.make(context.kept, "layer fc1", rows_of(context, state), shape.expert_fc1);
    GroupedProducts(context, counts_of(context, state)).forward(rows, weights.fc1(), state.fc1);
    if (!hides_shared_expert(context)) shared_expert_forward(context, weights, x, state.shared);
    if (spreads(context)) state.rows = std::move(rows);
  }
  experts_activation(context, weights.fp8, state);
  if (!hides_shared_expert(context)) shared_expert_activation(context, weights.fp8, state.shared);
}

void experts_activation(const TrainingContext& context, const Fp8Mixture& fp8, MixtureState& state) {
  constexpr const char* kHolder = "layer activation";
  const std::int64_t rows = rows_of(context, state);
  const Fp8Slot& slot = fp8.fc2.input;
  Tensor wide = context.make(slot.category_of_wide(context.kept), kHolder, rows, context.shape.expert_ffn);
  if (rows > 0) activation_forward(context, state.fc1, wide);
  weigh(context, state, wide);
  state.activation = operand_of(context, state, slot, std::move(wide), context.kept, kHolder);
}

void mixture_output(const TrainingContext& context, const MixtureWeights& weights, const MixtureState& state,
                    const Matrix& output) {
  Tensor rows = context.make(kPassing, "rows of experts", rows_of(context, state), context.shape.hidden);
  GroupedProducts(context, counts_of(context, state)).forward(state.activation, weights.fc2(), rows);
  add_up_choices(context, std::move(rows), state, output, [&](const Matrix& to, bool accumulate) {
    shared_output(context, weights, state.shared, to, accumulate);
  });
}

Tensor mixture_backward(const TrainingContext& context, const MixtureWeights& weights,
                        const std::function<MixtureMatrices()>& open, const Matrix& norm, MixtureState& state,
                        Tensor dropped, const Matrix& dy) {
  const LayerWidths& shape = context.shape;
  Routing& routing = state.routing;
  const GroupedProducts experts(context, counts_of(context, state));
  const Fp8Mixture& fp8 = weights.fp8;
  Tensor dact;
  Tensor dshared;
  MixtureMatrices dweights;
  {
    const AllRows all = gathered_gradient(context, dy);
    const auto of_shared = [&] {
      const LinearOperand shared_dy = shared_output_gradient(context, fp8, all);
      dshared = shared_activation_gradient(context, weights, shared_dy);
      shared_output_weight(context, dweights, shared_dy, state.shared);
    };
    const Meanwhile meanwhile = if_hidden(context, [&] {
      dweights = open();
      of_shared();
      shared_gradients(context, fp8, std::move(dshared), kPassing, false, state.shared);
    });
    const LinearOperand rows =
        operand_of(context, state, fp8.fc2.gradient,
                   sent_to_experts(context, state, senders(context, dy, all), kPassing, meanwhile), kPassing,
                   "rows of experts");
    dact = context.make(kPassing, "gradient of activation", rows_of(context, state), shape.expert_ffn);
    experts.input_gradient(rows, weights.fc2(), dact);
    if (!meanwhile) dweights = open();
    experts.weight_gradient(rows, state.activation, dweights.fc2);
    if (!meanwhile) of_shared();
  }
  dropped.reset();
  Tensor products = weights_backward(context, state, dact);
  state.activation.reset();
  LinearOperand dfc1 =
      operand_of(context, state, fp8.fc1.gradient,
                 gated_backward(context, std::move(dact), state.fc1, kPassing), kPassing, "gradient of fc1");
  state.fc1.reset();
  if (!hides_shared_expert(context))
    shared_gradients(context, fp8, std::move(dshared), kPassing, false, state.shared);
  Tensor dnorm = context.make_stream(kPassing, "gradient of norm2");
  {
    const AllRows x = context.gather_rows(norm);
    {
      LinearOperand input = spreads(context)
                                ? std::move(state.rows)
                                : operand_of(context, state, fp8.fc1.input,
                                             sent_to_experts(context, state, x), kPassing, "rows of experts");
      experts.weight_gradient(dfc1, input, dweights.fc1);
      // The rows' gradient takes the place of the rows, unless these are quantized.
      Tensor rows = input.release();
      if (input.quantized()) {
        input.reset();
        rows = context.make(kPassing, "rows of experts", rows_of(context, state), shape.hidden);
      }
      experts.input_gradient(dfc1, weights.fc1(), rows);
      add_up_choices(
          context, std::move(rows), state, dnorm,
          [&](const Matrix& to, bool accumulate) {
            shared_input_gradient(context, weights, state.shared, to, accumulate);
          },
          if_hidden(context, [&] { shared_input_weight(context, fp8, dweights, x, state.shared); }));
    }
    dfc1.reset();
    products = weights_at_tokens(context, state, std::move(products));
    const Tensor dlogits = context.make(kPassing, "gradient of router logits", shape.tokens, shape.experts);
    logits_backward(context, routing, products, dlogits);
    router_weight_gradient(context, dlogits, x, dweights.router);
    add_router_input_gradient(context, dlogits, weights.values.router, dnorm);
    if (!hides_shared_expert(context)) shared_input_weight(context, fp8, dweights, x, state.shared);
    add_gate_input_gradient(context, weights, state.shared, dnorm);
  }
  products.reset();
  state = MixtureState();
  return dnorm;
}

Tensor mixture_backward_input(const TrainingContext& context, const MixtureWeights& weights,
                              MixtureState& state, const Matrix& dy) {
  const LayerWidths& shape = context.shape;
  Routing& routing = state.routing;
  const GroupedProducts experts(context, counts_of(context, state));
  const Fp8Mixture& fp8 = weights.fp8;
  const bool quantized = state.activation.quantized();
  constexpr Category kUntilW = Category::activations;
  Tensor dact;
  Tensor dshared;
  {
    const AllRows all = gathered_gradient(context, dy);
    const Fp8Slot& slot = fp8.fc2.gradient;
    const auto of_shared = [&] {
      dshared = shared_activation_gradient(context, weights, shared_output_gradient(context, fp8, all));
    };
    const Meanwhile meanwhile = if_hidden(context, [&] {
      of_shared();
      shared_gradients(context, fp8, std::move(dshared), kUntilW, true, state.shared);
    });
    Tensor wide =
        sent_to_experts(context, state, senders(context, dy, all), slot.category_of_wide(kUntilW), meanwhile);
    LinearOperand rows = operand_of(context, state, slot, std::move(wide),
                                    spreads(context) ? kUntilW : kPassing, "rows of experts");
    dact = context.make(kPassing, "gradient of activation", rows_of(context, state), shape.expert_ffn);
    experts.input_gradient(rows, weights.fc2(), dact);
    if (!meanwhile) of_shared();
    if (spreads(context)) state.gradient_of_rows = std::move(rows);
  }
  Tensor products = weights_backward(context, state, dact);
  // The weights' gradients read it as it was.
  if (!quantized) weigh(context, state, state.activation.values());
  Tensor wide =
      gated_backward(context, std::move(dact), state.fc1, fp8.fc1.gradient.category_of_wide(kUntilW));
  state.fc1_gradient =
      operand_of(context, state, fp8.fc1.gradient, std::move(wide), kUntilW, "gradient of fc1");
  state.fc1.reset();
  if (!hides_shared_expert(context))
    shared_gradients(context, fp8, std::move(dshared), kUntilW, true, state.shared);
  Tensor dnorm = context.make_stream(kPassing, "gradient of norm2");
  {
    Tensor rows = context.make(kPassing, "rows of experts", rows_of(context, state), shape.hidden);
    experts.input_gradient(state.fc1_gradient, weights.fc1(), rows);
    add_up_choices(context, std::move(rows), state, dnorm, [&](const Matrix& to, bool accumulate) {
      shared_input_gradient(context, weights, state.shared, to, accumulate);
    });
  }
  products = weights_at_tokens(context, state, std::move(products));
  state.router_gradient =
      context.make(Category::activations, "gradient of router logits", shape.tokens, shape.experts);
  logits_backward(context, routing, products, state.router_gradient);
  products.reset();
  add_router_input_gradient(context, state.router_gradient, weights.values.router, dnorm);
  add_gate_input_gradient(context, weights, state.shared, dnorm);
  routing.drop_choices();
  if (spreads(context)) {
    routing.tokens.reset();
    state.dispatch.drop_orders();
  }
  return dnorm;
}

void mixture_output_weight(const TrainingContext& context, const Fp8Mixture& fp8,
                           const MixtureMatrices& dweights, MixtureState& state, const Matrix& dy) {
  {
    const AllRows all = gathered_gradient(context, dy);
    const LinearOperand rows =
        spreads(context) ? std::move(state.gradient_of_rows)
                         : operand_of(context, state, fp8.fc2.gradient, sent_to_experts(context, state, all),
                                      kPassing, "rows of experts");
    GroupedProducts(context, counts_of(context, state)).weight_gradient(rows, state.activation, dweights.fc2);
    shared_output_weight(context, dweights, shared_output_gradient(context, fp8, all), state.shared);
  }
  state.activation.reset();
  state.shared.activation.reset();
}

void mixture_input_weight(const TrainingContext& context, const Fp8Mixture& fp8,
                          const MixtureMatrices& dweights, const Matrix& norm, MixtureState& state) {
  {
    const AllRows x = context.gather_rows(norm);
    router_weight_gradient(context, state.router_gradient, x, dweights.router);
    shared_input_weight(context, fp8, dweights, x, state.shared);
    const LinearOperand rows =
        spreads(context) ? std::move(state.rows)
                         : operand_of(context, state, fp8.fc1.input, sent_to_experts(context, state, x),
                                      kPassing, "rows of experts");
    GroupedProducts(context, counts_of(context, state))
        .weight_gradient(state.fc1_gradient, rows, dweights.fc1);
  }
  state = MixtureState();
}

}  // namespace plumbline::training
