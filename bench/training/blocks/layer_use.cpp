#include "bench/training/blocks/layer_use.hpp"

#include <utility>

#include "bench/training/tape/pass.hpp"
#include "bench/training/tape/reverse.hpp"

namespace plumbline::training {
namespace {

/// Lets overlapped collectives of a vocabulary that all ranks share progress.
void progress(const Pass& pass) {
  if (pass.context.config.parallel.splits_vocabulary()) pass.context.communicator.progress();
}

}  // namespace

Step begin_use(const Layer& layer) {
  Step step{.run = [of = &layer](Pass& pass) { pass.begin_use(*of); }, .units = {layer.unit}};
  if (layer.expert_unit >= 0) step.expert_units = {layer.expert_unit};
  return step;
}

Step end_use(const Layer& layer) {
  return {.run = [of = &layer](Pass& pass) { pass.end_use(*of); }};
}

Plan end_backward(const Layer& layer) {
  return [of = &layer](Reverse& reverse) {
    const bool joint = reverse.joint();
    const auto done = [of](Pass& pass) {
      of->done(pass.rank.gradients);
      progress(pass);
    };
    reverse.step({.run = [=](Pass& pass) {
      pass.end_use(*of);
      joint ? done(pass) : progress(pass);
    }});
    if (!joint) reverse.weights({.run = done});
  };
}

void end_layer(Tape& tape, const Layer& layer, const LayerEnd& besides) {
  const Layer* const of = &layer;
  Entry mark;
  mark.forward.run = [=](Pass& pass) {
    pass.end_use(*of);
    if (besides.forward) besides.forward(pass);
    progress(pass);
  };
  mark.backward = [=](Reverse& reverse) {
    Step begin = begin_use(*of);
    begin.run = [=](Pass& pass) {
      pass.begin_use(*of);
      if (besides.backward) besides.backward(pass);
    };
    reverse.step(std::move(begin));
  };
  tape.end_layer(end_use(layer), std::move(mark));
}

}  // namespace plumbline::training
