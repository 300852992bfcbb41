// Operands of a benchmarked operator, and the call.
#pragma once

#include <functional>

#include "bench/record/operator_row.hpp"
#include "core/tensor/arena.hpp"
#include "kernels/operators.hpp"

namespace plumbline {

/// A call that can be repeated; its operands live as long as `run`.
struct PreparedOperator {
  std::function<void()> run;
  double bytes = 0;  // operands read or written once
};

/// `operators` and `memory` must outlive the result. experts: rows gathered by expert, both products with
/// SwiGLU between them, weights, and the sum over a token's experts. Throws InputError for an unknown name,
/// Error for a type that the backend lacks.
PreparedOperator prepare(const BenchedShape& shape, Operators& operators, MemorySource& memory);

}  // namespace plumbline
