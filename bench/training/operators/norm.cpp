#include "bench/training/operators/norm.hpp"

#include <utility>
#include <vector>

#include "bench/training/layer/norm.hpp"
#include "bench/training/tape/pass.hpp"
#include "bench/training/tape/reverse.hpp"

namespace plumbline::training {
namespace {

/// `normed(y, statistics)` computes it.
template <class Normed>
void make_norm(Pass& pass, const StreamNorm& of, Slot y, Slot statistics, const Normed& normed) {
  Tensor wide = pass.context.make_stream(of.quantizer.category_of_wide(pass.category(y)), of.holder);
  const Matrix stats = pass.make(statistics, pass.context.shape.norm_stats, pass.context.shape.rows);
  normed(wide.matrix(), stats);
  if (of.scale != 1) pass.context.operators.scale(wide, of.scale);
  pass.put(y, of.quantizer.keep(std::move(wide), pass.category(y), of.holder));
}

/// The stream's gradient is handed down: x's is the sum of what came and what the norm adds. Two blocks may
/// read y; where y is the residual, times a factor (NormConfig::residual), that part of dy is handed down.
void plan_norm(Reverse& reverse, const StreamNorm& of, Slot x, Slot y, Slot statistics) {
  std::vector<Reverse::Part> parts = reverse.parts(y);
  if (!reverse.wanted(x)) {
    reverse.hold(reverse.gradient(x));
    return reverse.step({.reads = {x, statistics}});
  }
  const Slot dy = parts.back().slot;
  parts.pop_back();
  Slot residual;
  Step step{.reads = {x, statistics, dy}};
  for (const Reverse::Part& part : parts) {
    step.reads.push_back(part.slot);
    if (part.handed_down) residual = part.slot;
  }
  const Reverse::Sum sum = reverse.accumulate(x, of.gradient, of.apart, residual);
  step.reads.push_back(sum.before);
  if (of.keeps_output) step.reads.push_back(y);
  step.makes = {sum.after};
  step.run = [=](Pass& pass) {
    Operators& operators = pass.context.operators;
    const Matrix dx = sum.in_place ? pass[sum.after] : pass.make_stream(sum.after);
    for (const Reverse::Part& part : parts) {
      if (part.factor == 1) {
        operators.add(pass[dy], pass[part.slot], {}, pass[dy]);
      } else {
        operators.add_multiple(pass[dy], pass[part.slot], part.factor, {}, pass[dy]);
      }
    }
    if (of.scale != 1) operators.scale(pass[dy], of.scale);
    if (of.values.weight.empty()) return operators.add(pass[sum.before], pass[dy], {}, dx);
    norm_backward(pass.context, pass[dy], pass[x], of.values.weight, pass[statistics], pass.view(sum.before),
                  dx, of.gradients.weight, of.gradients.bias);
  };
  reverse.step(std::move(step));
}

Slot record(Tape& tape, const StreamNorm& of, Slot x, const SumToNorm* made_of) {
  const bool norms = !of.values.weight.empty();
  const Slot y = norms || of.quantizer ? tape.slot(of.holder) : tape.view(x);
  const Slot statistics = norms ? tape.fp32_slot(of.statistics) : Slot();
  if (!tape.wanted(x)) tape.stop_gradient(y);
  Entry entry{.backward = [=](Reverse& reverse) { plan_norm(reverse, of, x, y, statistics); },
              .repeats = of.repeats && norms};
  const Step alone{.reads = {x}, .makes = {y, statistics}, .run = [=](Pass& pass) {
                     make_norm(pass, of, y, statistics, [&](const Matrix& to, const Matrix& stats) {
                       norm_forward(pass.context, pass[x], of.values.weight, of.values.bias, to, stats);
                     });
                   }};
  if (made_of != nullptr) {
    const SumToNorm from = *made_of;
    entry.repeat = alone;
    entry.forward = {
        .reads = {from.addend, from.result}, .makes = {x, y, statistics}, .run = [=](Pass& pass) {
          const ResidualSum added{
              .a = pass[from.result], .b = pass[from.addend], .bias = from.bias, .sum = pass[from.result]};
          make_norm(pass, of, y, statistics, [&](const Matrix& to, const Matrix& stats) {
            added_norm_forward(pass.context, added, of.values.weight, of.values.bias, to, stats);
          });
        }};
  } else if (norms) {
    entry.forward = alone;
  } else if (of.quantizer) {
    entry.forward = {.reads = {x}, .makes = {y}, .run = [=](Pass& pass) {
                       pass.put(y, of.quantizer.read(pass[x], of.holder, pass.category(y)));
                     }};
  }
  if (of.postponed_to > 0) tape.postpone(of.postponed_to, std::exchange(entry.backward, {}));
  tape.add(std::move(entry));
  return y;
}

}  // namespace

Slot norm(Tape& tape, const StreamNorm& of, Slot x) {
  return record(tape, of, x, nullptr);
}

Slot norm_of_sum(Tape& tape, const StreamNorm& of, Slot sum, const SumToNorm& made_of) {
  return record(tape, of, sum, &made_of);
}

Slot result_norm(Tape& tape, const NormVectors& values, const NormVectors& gradients, Slot result,
                 Slot place) {
  const Slot y = tape.overwritten(place);
  const Slot statistics = tape.fp32_slot("layer result statistics");
  tape.add({.forward = {.reads = {result, place},
                        .makes = {y, statistics},
                        .run =
                            [=](Pass& pass) {
                              const LayerWidths& shape = pass.context.shape;
                              const Matrix stats = pass.make(statistics, shape.norm_stats, shape.rows);
                              norm_forward(pass.context, pass[result], values.weight, values.bias,
                                           pass[place], stats);
                            }},
            .backward = [=](Reverse& reverse) {
              const Slot dy = reverse.gradient(y);
              const Slot dx = reverse.make_over(dy, result, "gradient of the result");
              const bool in_place = dx.memory == dy.memory;
              reverse.step({.reads = {dy, result, statistics}, .makes = {dx}, .run = [=](Pass& pass) {
                              const Matrix to = in_place ? pass[dx] : pass.make_stream(dx);
                              norm_backward(pass.context, pass[dy], pass[result], values.weight,
                                            pass[statistics], {}, to, gradients.weight, gradients.bias);
                            }});
            }});
  return y;
}

}  // namespace plumbline::training
