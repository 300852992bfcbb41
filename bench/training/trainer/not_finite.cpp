#include "bench/training/trainer/not_finite.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "bench/training/trainer/host_values.hpp"
#include "core/base/error.hpp"
#include "core/schedule/hop.hpp"

namespace plumbline::training {
namespace {

/// First place where one rank met a value that is not finite; travels between ranks.
struct FirstSeen {
  double when_s = std::numeric_limits<double>::infinity();  // on the common clock; infinite: nowhere
  Action action{};
};

/// Looks at everything that leaves a stage.
class FiniteCheck final : public StageProgram {
 public:
  explicit FiniteCheck(RankStages& stages) : stages_(stages) {}

  void run(const Action& action) override {
    stages_.run(action);
    if (!std::isfinite(loss())) note(action);
  }
  bool runs_pairs() const override { return stages_.runs_pairs(); }
  void run_pair(const Action& first, const Action& second,
                const std::function<void(const Action&)>& goes_on) override {
    stages_.run_pair(first, second, goes_on);
    if (!std::isfinite(loss())) note(first.type == ActionType::forward ? first : second);
  }
  Matrix send_buffer(const Action& action) override {
    const Matrix buffer = stages_.send_buffer(action);
    Operators& operators = stages_.context().operators;
    const Number norm = operators.squared_norm(buffer);
    operators.synchronize();
    if (!std::isfinite(norm.value())) note(action);
    return buffer;
  }
  Matrix receive_buffer(const Action& action) override { return stages_.receive_buffer(action); }
  void finished(const Action& action) override { stages_.finished(action); }

  const FirstSeen& first() const { return first_; }

 private:
  double loss() const {
    stages_.context().operators.synchronize();
    return stages_.loss();
  }
  void note(const Action& action) {
    if (std::isfinite(first_.when_s)) return;
    first_ = {stages_.context().communicator.now().value, action};
  }

  RankStages& stages_;
  FirstSeen first_;
};

/// `norm` of the step's gradients: values that only they or only the loss show were in no message.
std::string place_of(const FirstSeen& seen, int rank, double norm) {
  if (!std::isfinite(seen.when_s)) return std::isfinite(norm) ? "the loss" : "the gradients";
  const char* const what = is_send(seen.action.type) ? "the message" : "the loss of a micro-batch, action";
  return fmt::format("{} {} of rank {}", what, to_string(seen.action), rank);
}

}  // namespace

void explain_not_finite(RankStages& stages, Communicator& control, double loss, int step, int steps,
                        const StepRunner& run) {
  const double norm = std::abs(stages.gradient_norm());  // no "-nan"
  FiniteCheck check(stages);
  run(check);
  const std::vector<FirstSeen> seen = from_every_rank(control, check.first());
  const auto first = std::min_element(
      seen.begin(), seen.end(), [](const FirstSeen& a, const FirstSeen& b) { return a.when_s < b.when_s; });
  throw Error(fmt::format(
      "not finite: step {} of {} has loss {} and gradient norm {}, first seen in {}; expected finite "
      "numbers: look at weights, learning_rate and precision",
      step, steps, loss, norm, place_of(*first, static_cast<int>(first - seen.begin()), norm)));
}

}  // namespace plumbline::training
