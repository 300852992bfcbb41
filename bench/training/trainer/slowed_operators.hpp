// Operators of a rank that is slow on purpose.
#pragma once

#include <cstdint>

#include "kernels/operators.hpp"

namespace plumbline::training {

/// Passes every call on and keeps the processor busy until it has taken `factor` times as long. For operators
/// that are done when they return.
class SlowedOperators final : public Operators {
 public:
  SlowedOperators(Operators& inner, double factor) : inner_(inner), factor_(factor) {}

#define PLUMBLINE_OPERATOR(type, name, parameters, arguments) type name parameters override;
#include "kernels/operator_list.inc"
  std::int64_t attention_scratch(const AttentionShape& shape, DType type) const override;

 private:
  Operators& inner_;
  double factor_;
};

}  // namespace plumbline::training
