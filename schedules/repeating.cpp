#include "schedules/repeating.hpp"

#include <algorithm>

#include "core/schedule/schedule_traits.hpp"

namespace plumbline {
namespace {

/// Micro-batches for every rank after which all generators have left their warm-up behind.
constexpr int kFilled = 2;

std::optional<RepeatedSchedule> with_step(ScheduleRequest request, const StepCompletion& complete, int step) {
  const int microbatches = request.microbatches;
  const int least = kFilled * request.ranks;
  if (microbatches < least + 4 * step) return std::nullopt;
  const int shortest = microbatches - (microbatches - least) / step * step;
  const auto with = [&](int more) {
    request.microbatches = shortest + more * step;
    return complete(make_schedule(request));
  };
  return find_repetition(with(0), with(1), with(2), microbatches);
}

}  // namespace

std::optional<RepeatedSchedule> make_repeated(const ScheduleRequest& request,
                                              const StepCompletion& complete) {
  const ScheduleTraits* traits = find_schedule_traits(request.name);
  if (traits == nullptr || !traits->repeats || request.vocab != VocabPasses::none || request.ranks < 1)
    return std::nullopt;
  // A period is a micro-batch of every route, or a group of interleaved ones.
  if (traits->any_chunks()) return with_step(request, complete, std::max(request.group, request.ranks));
  return with_step(request, complete, traits->bidirectional() ? 2 : 1);
}

}  // namespace plumbline
