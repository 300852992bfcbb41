#include "bench/training/trainer/slowed_operators.hpp"

#include "bench/training/trainer/processor_time.hpp"

namespace plumbline::training {
namespace {

/// Ends when the thread has worked `factor` times as long as when the brake was started. A rank that loses
/// its processor meanwhile does not wait for less.
class Brake {
 public:
  explicit Brake(double factor) : factor_(factor) {}
  ~Brake() {
    const Seconds worked = processor_time() - start_;
    while (processor_time() - start_ < factor_ * worked) {
    }
  }
  Brake(const Brake&) = delete;
  Brake& operator=(const Brake&) = delete;

 private:
  double factor_;
  Seconds start_ = processor_time();
};

}  // namespace

#define PLUMBLINE_OPERATOR(type, name, parameters, arguments) \
  type SlowedOperators::name parameters {                     \
    const Brake brake(factor_);                               \
    return inner_.name arguments;                             \
  }
#include "kernels/operator_list.inc"

std::int64_t SlowedOperators::attention_scratch(const AttentionShape& shape, DType type) const {
  return inner_.attention_scratch(shape, type);
}

}  // namespace plumbline::training
