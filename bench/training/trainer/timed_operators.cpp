#include "bench/training/trainer/timed_operators.hpp"

#include <chrono>
#include <tuple>

namespace plumbline::training {
namespace {

/// Adds the time from its making to its end.
class Timer {
 public:
  Timer(std::map<std::string, OperatorTime>& times, const char* name) : time_(times[name]) {}
  ~Timer() {
    time_.seconds += {std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count()};
    ++time_.calls;
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  OperatorTime& time_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// The name a call's time goes under.
template <class... Arguments>
const char* name_of(const char* name, const std::tuple<Arguments...>&) {
  return name;
}
const char* name_of(const char*, const std::tuple<const Gemm&>& arguments) {
  const Gemm& gemm = std::get<0>(arguments);
  if (gemm.a_transposed) return "gemm_weight_gradient";
  return gemm.b_transposed ? "gemm_forward" : "gemm_input_gradient";
}

}  // namespace

#define PLUMBLINE_OPERATOR(type, name, parameters, arguments)      \
  type TimedOperators::name parameters {                           \
    const Timer timer(times_, name_of(#name, std::tie arguments)); \
    return inner_.name arguments;                                  \
  }
#include "kernels/operator_list.inc"

std::int64_t TimedOperators::attention_scratch(const AttentionShape& shape, DType type) const {
  return inner_.attention_scratch(shape, type);
}

}  // namespace plumbline::training
