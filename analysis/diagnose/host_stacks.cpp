#include "analysis/diagnose/host_stacks.hpp"

#include <algorithm>
#include <limits>

#include "analysis/diagnose/slice_share.hpp"

namespace plumbline {
namespace {

/// The stronger of a caller's work and an operator's own: within the optimizer everything is the optimizer's.
TimeShare stronger(TimeShare outer, TimeShare inner) {
  const auto strength = [](TimeShare share) {
    switch (share) {
      case TimeShare::garbage:
        return 5;
      case TimeShare::loading:
        return 4;
      case TimeShare::optimizer:
        return 3;
      case TimeShare::attention:
        return 2;
      case TimeShare::product:
        return 1;
      default:
        return 0;
    }
  };
  return strength(inner) > strength(outer) ? inner : outer;
}

HostWork work_within(const HostWork& caller, const ProfileTrace& trace, std::uint32_t index) {
  const TracedSlice& slice = trace.slices[index];
  HostWork work = caller;
  const std::string_view name = trace.name(slice);
  if (const std::optional<TimeShare> share = share_of_host(name, slice.kind))
    work.share = work.share ? stronger(*work.share, *share) : *share;
  const bool named = slice.kind == SliceKind::op || slice.kind == SliceKind::annotation;
  if (named && is_communication(name)) work.communicates = true;
  work.synchronises = is_synchronisation(name) || (caller.synchronises && slice.kind != SliceKind::op);
  if (slice.kind == SliceKind::op || work.communicates) work.op = index;
  if (slice.message >= 0) work.message = index;
  return work;
}

struct OpenSlice {
  std::int64_t end;
  HostWork work;
};

/// Walks the slices of one thread, which mostly nest.
class ThreadWalk {
 public:
  ThreadWalk(const ProfileTrace& trace, const StepWindow& step, HostStacks& stacks)
      : trace_(trace), step_(step), stacks_(stacks) {}

  void add(std::uint32_t index) {
    const TracedSlice& slice = trace_.slices[index];
    leave_until(slice.begin);
    pass_to(slice.begin);
    const HostWork work = work_within(open_.empty() ? HostWork{} : open_.back().work, trace_, index);
    if (slice.correlation >= 0 && slice.kind == SliceKind::runtime)
      stacks_.launches.emplace(slice.correlation, work);
    open_.push_back({slice.end, work});
  }

  void finish() {
    while (!open_.empty()) {
      pass_to(open_.back().end);
      open_.pop_back();
    }
  }

 private:
  void leave_until(std::int64_t moment) {
    while (!open_.empty() && open_.back().end <= moment) {
      pass_to(open_.back().end);
      open_.pop_back();
    }
  }

  void pass_to(std::int64_t moment) {
    if (moment <= at_) return;
    const std::int64_t begin = std::max(at_, step_.begin);
    const std::int64_t end = std::min(moment, step_.end);
    if (!open_.empty() && begin < end) stacks_.pieces.push_back({begin, end, open_.back().work});
    at_ = moment;
  }

  const ProfileTrace& trace_;
  const StepWindow& step_;
  HostStacks& stacks_;
  std::vector<OpenSlice> open_;
  std::int64_t at_ = std::numeric_limits<std::int64_t>::min();
};

}  // namespace

HostStacks host_stacks(const ProfileTrace& trace, const StepWindow& step) {
  HostStacks stacks;
  std::unordered_map<std::int32_t, ThreadWalk> threads;
  for (std::size_t i = 0; i < trace.slices.size(); ++i) {
    const TracedSlice& slice = trace.slices[i];
    if (on_device(slice.kind)) continue;
    const auto thread = threads.try_emplace(slice.lane, trace, step, stacks).first;
    thread->second.add(static_cast<std::uint32_t>(i));
  }
  for (auto& [lane, thread] : threads) thread.finish();
  return stacks;
}

}  // namespace plumbline
