// The feed-forward part of a decoder layer between its norm and the residual stream.
#pragma once

#include "bench/training/layer/layer.hpp"
#include "bench/training/tape/tape.hpp"

namespace plumbline::training {

/// The activation (T, F) of fc1's output, times the residual's multiplier.
Slot activation(Tape& tape, const Layer& layer, Slot fc1);

/// A mixture of experts: router, experts, shared expert; its state is in the frame.
class MixtureOperator {
 public:
  MixtureOperator(Tape& tape, const Layer& layer, Slot norm)
      : layer_(&layer), norm_(norm), number_(tape.mixture()) {}

  /// From the norm's output to the activations of the experts.
  void record_experts(Tape& tape) const;
  /// The summed results (R, h) of the experts, into `place` or beside it. `owns_gradient`: nothing else reads
  /// the gradient of the sum.
  Slot record_output(Tape& tape, Slot place, bool beside, bool owns_gradient) const;
  /// The end of the layer's forward: frees what its backward recomputes.
  void record_end(Tape& tape) const;
  int number() const { return number_; }

 private:
  const Layer* layer_;
  Slot norm_;
  int number_;
};

}  // namespace plumbline::training
