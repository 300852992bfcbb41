#include "bench/plan/mean_times.hpp"

namespace plumbline {

VocabTimes mean_times(const Costs& costs, int ranks) {
  VocabTimes times{{0}, {0}, {0}, {0}, {0}, {0}};
  const auto stages = static_cast<double>(costs.stages.size());
  for (const StageCosts& stage : costs.stages) {
    const Seconds parts = stage.backward_input + stage.backward_weight;
    times.forward += stage.forward / stages;
    times.backward += (stage.backward.value > 0 ? stage.backward : parts) / stages;
    times.backward_input += stage.backward_input / stages;
    times.backward_weight += stage.backward_weight / stages;
    times.vocab_forward += stage.vocab_forward / ranks;
    times.vocab_backward += stage.vocab_backward / ranks;
    times.input_forward += stage.input_forward / ranks;
    times.input_backward += stage.input_backward / ranks;
  }
  times.hidden = costs.vocabulary.hidden;
  times.statistics = costs.vocabulary.statistics;
  times.gradient = costs.vocabulary.gradient;
  times.embedding = costs.vocabulary.embedding;
  times.embedding_gradient = costs.vocabulary.embedding_gradient;
  return times;
}

}  // namespace plumbline
