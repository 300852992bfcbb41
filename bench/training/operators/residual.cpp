#include "bench/training/operators/residual.hpp"

#include <utility>

#include "bench/training/tape/pass.hpp"
#include "bench/training/tape/reverse.hpp"

namespace plumbline::training {
namespace {

bool drops(const Tape& tape) {
  return tape.context.config.numerics.hidden_dropout > 0;
}

Slot mask_slot(Tape& tape) {
  return drops(tape) ? tape.slot({"dropout mask", tape.context.kept, DType::uint8}) : Slot();
}

/// dx from dy, which may be in the same memory.
void dropped_gradient(Pass& pass, Slot dy, Slot mask, const Matrix& dx) {
  pass.context.operators.dropout_backward(pass[dy], pass[mask], pass.context.config.numerics.hidden_dropout,
                                          dx);
}

}  // namespace

Slot reserve(Tape& tape, Slot stream) {
  tape.add({.forward = {.makes = {stream}, .run = [stream](Pass& pass) { pass.make_stream(stream); }}});
  return stream;
}

Slot add_residual(Tape& tape, const ResidualAddition& of, Slot addend, Slot result, bool by_norm) {
  const Slot y = tape.overwritten(result);
  const Slot mask = mask_slot(tape);
  Entry entry;
  if (!by_norm) {
    entry.forward = {.reads = {addend, result}, .makes = {y, mask}, .run = [=](Pass& pass) {
                       Tensor drawn =
                           pass.dropout.add(of.site, pass[result], of.bias, pass[addend], of.factor);
                       if (drawn) pass.put(mask, std::move(drawn));
                     }};
  }
  if (mask) {
    entry.without_output = {.makes = {mask},
                            .run = [=](Pass& pass) { pass.put(mask, pass.dropout.mask(of.site)); }};
  }
  entry.backward = [=](Reverse& reverse) {
    const Slot dy = reverse.gradient(y);
    reverse.pass_on(addend, dy, of.factor);
    if (!mask) return reverse.pass_on(result, dy);
    const Slot dx = reverse.make(result, "gradient of what was dropped");
    reverse.step({.reads = {dy, mask}, .makes = {dx}, .run = [=](Pass& pass) {
                    const Matrix to = pass.make_stream(dx);
                    dropped_gradient(pass, dy, mask, to);
                  }});
  };
  tape.add(std::move(entry));
  return y;
}

Slot drop(Tape& tape, std::int64_t site, Slot x, Plan* backward) {
  if (!drops(tape)) return x;
  const Slot y = tape.overwritten(x);
  const Slot mask = mask_slot(tape);
  if (!tape.wanted(x)) tape.stop_gradient(y);
  Entry entry{.forward = {.reads = {x}, .makes = {y, mask}, .run = [=](Pass& pass) {
                            pass.put(mask, pass.dropout.drop(site, pass[x]));
                          }}};
  Plan plan = [=](Reverse& reverse) {
    if (!reverse.wanted(x)) return;
    const Slot dy = reverse.gradient(y);
    const Slot dx = reverse.overwrite(dy);
    reverse.pass_on(x, dx);
    reverse.step({.reads = {dy, mask}, .makes = {dx}, .run = [=](Pass& pass) {
                    dropped_gradient(pass, dy, mask, pass[dy]);
                  }});
  };
  (backward != nullptr ? *backward : entry.backward) = std::move(plan);
  tape.add(std::move(entry));
  return y;
}

}  // namespace plumbline::training
