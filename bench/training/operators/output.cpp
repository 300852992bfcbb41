#include "bench/training/operators/output.hpp"

#include <utility>

#include "bench/training/tape/pass.hpp"
#include "bench/training/tape/reverse.hpp"

namespace plumbline::training {
namespace {

constexpr const char* kGradient = "gradient of final norm";

void plan_output_layer(Reverse& reverse, const OutputEnd& end, const std::vector<Slot>& norms,
                       const std::vector<Slot>& logits) {
  const OutputEnd* const of = &end;
  std::vector<Slot> dlogits;
  for (std::size_t k = 0; k < norms.size(); ++k) {
    const Slot dy = reverse.gradient(logits[k]);
    const Slot dx = reverse.make_fixed(norms[k], kGradient, Category::workspace);
    dlogits.push_back(dy);
    reverse.step({.reads = {dy},
                  .makes = {dx},
                  .run =
                      [=](Pass& pass) {
                        Tensor gradient = pass.take(dy);
                        pass.put(dx, of->norm_gradient(gradient));
                        pass.put(dy, std::move(gradient));
                      },
                  .units = end.units()});
  }
  if (reverse.context().frozen) return;
  for (std::size_t k = 0; k < norms.size(); ++k) {
    const Slot dy = dlogits[k];
    const Slot x = norms[k];
    reverse.output_weights(
        {.reads = {dy, x}, .run = [=](Pass& pass) { of->weight_gradient(pass[dy], pass[x]); }});
  }
  // The norms of several are freed at once.
  reverse.output_weights({.reads = norms.size() > 1 ? norms : std::vector<Slot>(),
                          .run = [=](Pass& pass) { pass.rank.gradients.done(of->units().front()); }});
}

}  // namespace

std::vector<Slot> output_layer(Tape& tape, const OutputEnd& end, const std::vector<Slot>& norms) {
  const DType type = tape.context.config.numerics.precision;
  const OutputEnd* const of = &end;
  std::vector<Slot> logits;
  for (const Slot norm : norms) {
    const Slot y = logits.emplace_back(tape.slot({"logits", Category::logits, type}));
    tape.add(
        {.forward = {.reads = {norm},
                     .makes = {y},
                     .run = [=](Pass& pass) { pass.put(y, of->project(pass[norm], Category::logits, type)); },
                     .units = end.units()}});
  }
  tape.add({.backward = [=](Reverse& reverse) { plan_output_layer(reverse, *of, norms, logits); }});
  return logits;
}

void record_loss(Tape& tape, Slot logits, std::function<void(Pass&, Tensor& logits)> loss) {
  const bool wide = tape.context.config.numerics.loss_in_fp32();
  const Slot gradient =
      wide ? tape.slot({"logits in fp32", Category::logits, DType::fp32}) : tape.overwritten(logits);
  tape.give_gradient(logits, gradient);
  tape.add(
      {.forward = {.reads = {logits}, .makes = {gradient}, .run = [=, loss = std::move(loss)](Pass& pass) {
                     Tensor values = pass.take(logits);
                     loss(pass, values);
                     pass.put(gradient, std::move(values));
                   }}});
}

void shared_output_layer(Tape& tape, const OutputEnd& end, Slot norm) {
  const OutputEnd* const of = &end;
  tape.add({.forward = {.reads = {norm},
                        .run = [=](Pass& pass) { of->start_hidden(pass.microbatch, pass.take(norm)); }},
            .backward = [=](Reverse& reverse) {
              const Slot dx = reverse.make_fixed(norm, kGradient, Category::workspace);
              reverse.step({.makes = {dx},
                            .run = [=](Pass& pass) { pass.put(dx, of->hidden_gradient(pass.microbatch)); }});
            }});
}

}  // namespace plumbline::training
