// Operators that remember how long each of them took: where the time of a step goes.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/base/units.hpp"
#include "kernels/operators.hpp"

namespace plumbline::training {

struct OperatorTime {
  Seconds seconds;
  std::int64_t calls = 0;
};

/// Passes every call on and adds its wall time under the operator's name. GEMMs are told apart as
/// gemm_forward (B transposed), gemm_input_gradient and gemm_weight_gradient (A transposed). For operators
/// that are done when they return.
class TimedOperators final : public Operators {
 public:
  explicit TimedOperators(Operators& inner) : inner_(inner) {}
  const std::map<std::string, OperatorTime>& times() const { return times_; }
  void clear() { times_.clear(); }

#define PLUMBLINE_OPERATOR(type, name, parameters, arguments) type name parameters override;
#include "kernels/operator_list.inc"
  std::int64_t attention_scratch(const AttentionShape& shape, DType type) const override;

 private:
  Operators& inner_;
  std::map<std::string, OperatorTime> times_;
};

}  // namespace plumbline::training
