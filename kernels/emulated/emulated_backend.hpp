// The class behind make_emulated_operators().
#pragma once

#include <initializer_list>
#include <unordered_map>
#include <utility>

#include "core/run/emulated_clock.hpp"
#include "kernels/emulated/emulated_call.hpp"

namespace plumbline::emulated {

class EmulatedOperators : public Operators {
 public:
  EmulatedOperators(EmulatedClock& clock, CallTime time) : clock_(clock), time_(std::move(time)) {}

#define PLUMBLINE_OPERATOR(type, name, parameters, arguments) type name parameters override;
#include "kernels/operator_list.inc"
  std::int64_t attention_scratch(const AttentionShape& shape, DType type) const override;

 private:
  /// Data that a memory-bound call reads and writes; empty matrices count nothing.
  void pass_over(std::string_view name, DType type, std::initializer_list<Matrix> read,
                 std::initializer_list<Matrix> written);
  void attend(std::string_view name, const AttentionShape& shape, DType type);
  void take(const EmulatedCall& call);

  struct Hash {
    std::size_t operator()(const EmulatedCall& call) const;
  };
  EmulatedClock& clock_;
  CallTime time_;
  std::unordered_map<EmulatedCall, Seconds, Hash> known_;
};

}  // namespace plumbline::emulated
