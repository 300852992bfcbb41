#include "bench/training/operators/feed_forward.hpp"

#include <utility>

#include "bench/training/feed_forward/activation.hpp"
#include "bench/training/feed_forward/mixture.hpp"
#include "bench/training/feed_forward/shared_expert.hpp"
#include "bench/training/tape/pass.hpp"
#include "bench/training/tape/reverse.hpp"

namespace plumbline::training {

Slot activation(Tape& tape, const Layer& layer, Slot fc1) {
  const Slot y = tape.slot("layer activation");
  const Fp8Slot quantizer = layer.fp8.fc2.input;
  const auto forward = [=](Pass& pass) {
    const TrainingContext& context = pass.context;
    const Category category = pass.category(y);
    Tensor wide = context.make(quantizer.category_of_wide(category), "layer activation", context.shape.tokens,
                               context.shape.ffn);
    activation_forward(context, pass[fc1], wide);
    multiply_residual(context, wide);
    pass.put(y, quantizer.keep(std::move(wide), category, "layer activation"));
  };
  const auto backward = [=](Reverse& reverse) {
    const Slot dy = reverse.gradient(y);
    const bool gated = is_gated(reverse.context().model().activation);
    Slot dx;
    if (gated) {
      dx = reverse.make(fc1, "gradient of fc1");
    } else {
      dx = reverse.overwrite(dy);
      reverse.pass_on(fc1, dx);
    }
    reverse.step(
        {.reads = {dy, fc1}, .makes = {dx}, .run = [=](Pass& pass) {
           Tensor gradient = pass.take(dy);
           multiply_residual(pass.context, gradient);
           pass.put(dx, activation_backward(pass.context, std::move(gradient), pass[fc1], pass.category(dx)));
         }});
  };
  tape.add({.forward = {.reads = {fc1}, .makes = {y}, .run = forward},
            .backward = backward,
            .repeats = tape.context.config.recompute.selected().mlp});
  return y;
}

void MixtureOperator::record_experts(Tape& tape) const {
  const RecomputeModules modules = tape.context.config.recompute.selected();
  const Layer* const layer = layer_;
  const Slot norm = norm_;
  const int number = number_;
  tape.add({.forward = {.reads = {norm},
                        .run =
                            [=](Pass& pass) {
                              MixtureState& state = pass.mixture(number);
                              mixture_forward(pass.context, pass.weights().mixture, layer->expert_bias,
                                              pass[norm], state);
                              if (pass.repeats == Repeats::nothing && !pass.context.inference)
                                pass.rank.note_expert_load(pass.microbatch, layer->index, state.routing);
                            }},
            .repeats = modules.moe});
  if (modules.moe) return;
  const auto repeat = [&](std::function<void(Pass&)> run) {
    tape.add({.repeats = true, .repeat = {.reads = {norm}, .run = std::move(run)}});
  };
  if (modules.shared_experts) {
    repeat([=](Pass& pass) {
      SharedExpert& shared = pass.mixture(number).shared;
      shared_expert_forward(pass.context, pass.weights().mixture, pass.context.gather_rows(pass[norm]),
                            shared);
      shared_expert_activation(pass.context, layer->fp8.mixture, shared);
    });
  }
  if (modules.moe_act)
    repeat([=](Pass& pass) { experts_activation(pass.context, layer->fp8.mixture, pass.mixture(number)); });
}

Slot MixtureOperator::record_output(Tape& tape, Slot place, bool beside, bool owns_gradient) const {
  const Slot y = beside ? tape.slot("layer result") : tape.overwritten(place);
  const Layer* const layer = layer_;
  const Slot norm = norm_;
  const int number = number_;
  const auto forward = [=](Pass& pass) {
    mixture_output(pass.context, pass.weights().mixture, pass.mixture(number),
                   beside ? pass.make_stream(y) : pass[place]);
  };
  const auto backward = [=](Reverse& reverse) {
    const Slot dy = reverse.gradient(y);
    const Slot dx = reverse.make_fixed(norm, "gradient of norm2", kPassing);
    if (reverse.joint()) {
      return reverse.step({.reads = {dy, norm}, .makes = {dx}, .run = [=](Pass& pass) {
                             const Matrix gradient = pass[dy];
                             Tensor dropped;
                             if (owns_gradient) dropped = pass.take(dy);
                             const auto open = [&] { return pass.open(*layer).mixture; };
                             pass.put(dx,
                                      mixture_backward(pass.context, pass.weights().mixture, open, pass[norm],
                                                       pass.mixture(number), std::move(dropped), gradient));
                           }});
    }
    reverse.step({.reads = {dy}, .makes = {dx}, .run = [=](Pass& pass) {
                    pass.put(dx, mixture_backward_input(pass.context, pass.weights().mixture,
                                                        pass.mixture(number), pass[dy]));
                  }});
    reverse.weights({.reads = {dy}, .run = [=](Pass& pass) {
                       mixture_output_weight(pass.context, layer->fp8.mixture, pass.open(*layer).mixture,
                                             pass.mixture(number), pass[dy]);
                     }});
    reverse.weights({.reads = {norm}, .run = [=](Pass& pass) {
                       mixture_input_weight(pass.context, layer->fp8.mixture, pass.open(*layer).mixture,
                                            pass[norm], pass.mixture(number));
                     }});
  };
  tape.add({.forward = {.reads = {norm, place}, .makes = {y}, .run = forward}, .backward = backward});
  return y;
}

void MixtureOperator::record_end(Tape& tape) const {
  const RecomputeModules modules = tape.context.config.recompute.selected();
  const bool inference = tape.inference();
  const bool all = tape.recomputes_all() || modules.moe;
  const int number = number_;
  tape.add({.forward = {.run =
                            [=](Pass& pass) {
                              MixtureState& state = pass.mixture(number);
                              if (inference) state = MixtureState();
                              if (all) state.forget();
                              if (modules.moe_act) state.activation.reset();
                              if (modules.shared_experts) state.shared = SharedExpert();
                            }},
            .between = true});
}

}  // namespace plumbline::training
