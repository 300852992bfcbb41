// Gradients of a key/value head that several calls have made, each for some of the query heads that share it.
#pragma once

#include "core/tensor/matrix.hpp"
#include "kernels/cuda/device/queue.hpp"

namespace plumbline::cuda {

/// sum (r, c) = Σ over i of rows [i·r, (i + 1)·r) of parts (n·r, c), added in fp32 in the order of the
/// parts and rounded once. parts contiguous, both of one 16-bit type. Overwrites sum.
void sum_key_gradients(const Queue& queue, const Matrix& parts, const Matrix& sum);

}  // namespace plumbline::cuda
