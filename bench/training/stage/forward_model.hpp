// A whole model on one rank that is only evaluated, one sequence at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/training/stage/teacher.hpp"

namespace plumbline::training {

/// Parameters and forward of a distillation's teacher: no gradients, no optimizer, nothing kept for a
/// backward.
class ForwardModel {
 public:
  /// `config`: for one rank and one micro-batch of one sequence; parameters are undefined until loaded. All
  /// must outlive it.
  ForwardModel(const RunConfig& config, Operators& operators, Communicator& communicator, Arena& arena);
  ForwardModel(const ForwardModel&) = delete;
  ForwardModel& operator=(const ForwardModel&) = delete;

  struct Evaluation {
    double loss = 0;                 // mean of the sequence's tokens
    std::vector<float> last_logits;  // of the token behind the last, by id
  };
  /// Logits and loss are in fp32. `inputs` and `targets`: one id per position of a sequence.
  Evaluation evaluate(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets);

  const RankResources& resources() const { return rank_; }

 private:
  const RunConfig config_;
  Seconds tensor_communication_;
  RankResources rank_;
  TeacherStage stage_;
};

}  // namespace plumbline::training
