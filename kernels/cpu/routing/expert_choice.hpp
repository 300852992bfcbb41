// Which experts the tokens choose, and which of these drop them.
#pragma once

#include "kernels/operators.hpp"

namespace plumbline::cpu {

/// As of the operator route, all tokens; nobody is dropped.
void choose_experts(const Router& router, const Matrix& logits, const Matrix& chosen);
/// Marks what is over the capacity of each expert.
void drop_what_is_over(const Router& router, const Matrix& logits, const Matrix& chosen);

}  // namespace plumbline::cpu
