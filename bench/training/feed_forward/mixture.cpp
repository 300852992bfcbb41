#include "bench/training/feed_forward/mixture.hpp"

#include <utility>

#include "bench/training/feed_forward/activation.hpp"
#include "bench/training/feed_forward/expert_rows.hpp"
#include "bench/training/feed_forward/grouped_products.hpp"
#include "bench/training/feed_forward/router.hpp"
#include "bench/training/feed_forward/shared_expert.hpp"

namespace plumbline::training {
namespace {

/// Its matrices are not frozen.
bool trains(const TrainingContext& context) {
  return !context.frozen;
}

/// Rows that come from other ranks stay for the weight gradient of the experts' first products.
bool keeps_rows(const TrainingContext& context) {
  return spreads(context) && trains(context);
}

/// A gradient of the stream, gathered where anything but the experts reads it.
AllRows gathered_gradient(const TrainingContext& context, const Matrix& dy) {
  if (context.shape.folded && context.shape.shared == 0) return {{}, dy};
  return context.gather_rows(dy);
}

/// As the products of the experts read them and their weights' gradients, in a tensor of `category`.
LinearOperand operand_of(const TrainingContext& context, const MixtureState& state, const Fp8Slot& slot,
                         Tensor rows, Category category, const char* holder) {
  return slot.keep_rows(std::move(rows), counts_of(context, state), category, holder);
}

/// Scales activations by their rows' weights.
void weigh(const TrainingContext& context, const MixtureState& state, const Matrix& rows) {
  if (rows.rows == 0) return;
  context.operators.scale_rows(rows, weights_of(context, state).matrix().reshaped(1, rows.rows), rows);
}

/// The weight of every expert row is part of the activation, so its gradient is a product of rows with the
/// activation's gradient. Leaves the activation without weights in state.activation unless it is quantized,
/// and the gradient of the unweighted activation in `dact`. Returns the weights' gradient, (2, N), of which
/// the first row counts.
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

/// As activation_backward; there may be no rows.
Tensor gated_backward(const TrainingContext& context, Tensor dact, const Matrix& fc1, Category category) {
  if (fc1.rows > 0) return activation_backward(context, std::move(dact), fc1, category);
  return context.make(category, "gradient of fc1", 0, fc1.cols);
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
    const Category category = keeps_rows(context) ? context.kept : kPassing;
    Tensor wide =
        sent_to_experts(context, state, senders(context, norm, x), slot.category_of_wide(category), shared);
    LinearOperand rows = operand_of(context, state, slot, std::move(wide), category, "layer rows of experts");
    state.fc1 = context.make(context.kept, "layer fc1", rows_of(context, state), shape.expert_fc1);
    GroupedProducts(context, counts_of(context, state)).forward(rows, weights.fc1(), state.fc1);
    if (!hides_shared_expert(context)) shared_expert_forward(context, weights, x, state.shared);
    if (keeps_rows(context)) state.rows = std::move(rows);
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
  const bool trained = trains(context);
  Tensor dact;
  Tensor dshared;
  MixtureMatrices dweights;
  {
    const AllRows all = gathered_gradient(context, dy);
    const auto of_shared = [&] {
      const LinearOperand shared_dy = shared_output_gradient(context, fp8, all);
      dshared = shared_activation_gradient(context, weights, shared_dy);
      if (trained) shared_output_weight(context, dweights, shared_dy, state.shared);
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
    if (trained) experts.weight_gradient(rows, state.activation, dweights.fc2);
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
    const AllRows x = trained ? context.gather_rows(norm) : AllRows{{}, norm};
    {
      Tensor rows;
      if (trained) {
        LinearOperand input =
            spreads(context) ? std::move(state.rows)
                             : operand_of(context, state, fp8.fc1.input, sent_to_experts(context, state, x),
                                          kPassing, "rows of experts");
        experts.weight_gradient(dfc1, input, dweights.fc1);
        rows = input.release();  // whose gradient takes its place, unless it is quantized
      }
      if (!rows) rows = context.make(kPassing, "rows of experts", rows_of(context, state), shape.hidden);
      experts.input_gradient(dfc1, weights.fc1(), rows);
      add_up_choices(
          context, std::move(rows), state, dnorm,
          [&](const Matrix& to, bool accumulate) {
            shared_input_gradient(context, weights, state.shared, to, accumulate);
          },
          if_hidden(context, [&] {
            if (trained) shared_input_weight(context, fp8, dweights, x, state.shared);
          }));
    }
    dfc1.reset();
    products = weights_at_tokens(context, state, std::move(products));
    const Tensor dlogits = context.make(kPassing, "gradient of router logits", shape.tokens, shape.experts);
    logits_backward(context, routing, products, dlogits);
    if (trained) router_weight_gradient(context, dlogits, x, dweights.router);
    add_router_input_gradient(context, dlogits, weights.values.router, dnorm);
    if (trained && !hides_shared_expert(context))
      shared_input_weight(context, fp8, dweights, x, state.shared);
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
    const Category category = keeps_rows(context) ? kUntilW : kPassing;
    Tensor wide = sent_to_experts(context, state, senders(context, dy, all), slot.category_of_wide(category),
                                  meanwhile);
    LinearOperand rows = operand_of(context, state, slot, std::move(wide), category, "rows of experts");
    dact = context.make(kPassing, "gradient of activation", rows_of(context, state), shape.expert_ffn);
    experts.input_gradient(rows, weights.fc2(), dact);
    if (!meanwhile) of_shared();
    if (keeps_rows(context)) state.gradient_of_rows = std::move(rows);
  }
  Tensor products = weights_backward(context, state, dact);
  // The weights' gradients read it unweighted.
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
  if (trains(context)) {
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
  if (trains(context)) {
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
