#include "analysis/time/stage/vocabulary_time.hpp"

#include "analysis/time/operator_time.hpp"
#include "analysis/work/operator_list_calls.hpp"

namespace plumbline {
namespace {

VocabularyCall call_of(Group group) {
  switch (group) {
    case Group::vocab_hidden:
      return VocabularyCall::hidden;
    case Group::vocab_statistics:
      return VocabularyCall::statistics;
    case Group::vocab_gradient:
      return VocabularyCall::hidden_gradient;
    case Group::embedding_output:
      return VocabularyCall::embedding;
    default:
      return VocabularyCall::embedding_gradient;
  }
}

}  // namespace

bool waits_for_vocabulary(const HardwareProfile& hardware, const Schedule& schedule, const StageShape& any) {
  return hardware.processors() > 0 ||
         (any.traits.interlaced_in_step && schedule.vocab == VocabPasses::interlaced);
}

VocabularySeconds vocabulary_waits(const HardwareProfile& hardware, const StageShape& shape, ActionType type,
                                   const Load& load, CostLines& lines) {
  VocabularySeconds waits{};
  for (const OperatorCall& call : vocabulary_calls_of(shape, type, load.layout)) {
    const Seconds seconds = time_of(call, hardware, load);
    lines.add(call, seconds);
    waits[static_cast<std::size_t>(call_of(call.collective()->group))] += seconds;
  }
  return waits;
}

VocabularyCollectiveTimes vocabulary_times(const HardwareProfile& hardware, const StageShape& any,
                                           const Load& load) {
  const VocabularyCollectives calls = vocabulary_collectives(any, load.layout);
  const auto time = [&](const OperatorCall& call) { return time_of(call, hardware, load); };
  return {time(calls.hidden), time(calls.statistics), time(calls.gradient), time(calls.embedding),
          time(calls.embedding_gradient)};
}

}  // namespace plumbline
