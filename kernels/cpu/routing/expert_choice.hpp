// Choice of experts by tokens, and tokens that experts drop.
#pragma once

#include "kernels/operators.hpp"

namespace plumbline::cpu {

/// As of the operator route, all tokens; none is dropped.
void choose_experts(const Router& router, const Matrix& logits, const Matrix& chosen);
/// Marks the choices beyond the capacity of each expert.
void drop_what_is_over(const Router& router, const Matrix& logits, const Matrix& chosen);

}  // namespace plumbline::cpu
