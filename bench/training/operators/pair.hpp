// The input of an MTP module: embedded tokens and hidden states, normed side by side, and their product.
#pragma once

#include "bench/training/layer/layer.hpp"
#include "bench/training/tape/tape.hpp"

namespace plumbline::training {

/// Vectors of both norms, and the matrix (h/t, 2h) of the product, in the layer's unit.
struct PairInput {
  const Layer* layer = nullptr;
  const Parameter* join = nullptr;
  Matrix embedding_norm, hidden_norm;
  Matrix embedding_norm_gradient, hidden_norm_gradient;
};

/// Both through their norms, (R, 2h). In B the gradient of the embedded tokens takes the memory of that of
/// `x`, the layer's input.
Slot norm_pair(Tape& tape, const PairInput& of, Slot embedded, Slot hidden, Slot x);
/// The layer's input x (R, h): products of columns, of which every tensor rank has its own.
void join_pair(Tape& tape, const PairInput& of, Slot pair, Slot x);

}  // namespace plumbline::training
