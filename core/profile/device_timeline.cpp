#include "core/profile/device_timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kOpen = std::numeric_limits<std::size_t>::max();

}  // namespace

DeviceTimeline::DeviceTimeline(cudaStream_t compute, std::function<Seconds()> now,
                               std::function<Seconds()> tensor_time, DeviceLanes* lanes)
    : compute_(compute), now_(std::move(now)), tensor_time_(std::move(tensor_time)), lanes_(lanes) {}

void DeviceTimeline::step_begins(int /*index*/) {
  in_use_ = 0;
  actions_.clear();
  if (lanes_ != nullptr) lanes_->clear();
  // The device passes the event somewhere between the two looks at the clock.
  const Seconds before = now_();
  check_cuda(cudaEventRecord(base_.get(), compute_), "cudaEventRecord");
  check_cuda(cudaEventSynchronize(base_.get()), "cudaEventSynchronize");
  const Seconds after = now_();
  base_time_ = (before + after) / 2.0;
  error_ = (after - before) / 2.0;
}

std::size_t DeviceTimeline::record() {
  if (in_use_ == events_.size()) events_.push_back(std::make_unique<DeviceEvent>(cudaEventDefault));
  check_cuda(cudaEventRecord(events_[in_use_]->get(), compute_), "cudaEventRecord");
  return in_use_++;
}

void DeviceTimeline::action_begins(const Action& action, Bytes /*message*/) {
  actions_.push_back({action, record(), kOpen});
}

void DeviceTimeline::action_ends(const Action& action) {
  const std::size_t end = record();
  const auto begun = std::find_if(actions_.rbegin(), actions_.rend(), [&](const Ends& ends) {
    return ends.action == action && ends.end == kOpen;
  });
  if (begun != actions_.rend()) begun->end = end;
}

void DeviceTimeline::step_ends(Seconds origin, std::vector<Event>& events, Seconds& tensor_communication) {
  const auto ended =
      std::count_if(actions_.begin(), actions_.end(), [](const Ends& ends) { return ends.end != kOpen; });
  if (actions_.size() != events.size() || ended != std::ssize(events)) {
    throw Error(fmt::format("{} beginnings and {} ends of actions were recorded on the device, expected {}",
                            actions_.size(), ended, events.size()));
  }
  const auto time_of = [&](std::size_t index) {
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, base_.get(), events_[index]->get()),
               "cudaEventElapsedTime");
    return base_time_ + Seconds{static_cast<double>(milliseconds) * 1e-3} - origin;
  };
  for (std::size_t i = 0; i < events.size(); ++i) {
    events[i].start = time_of(actions_[i].begin);
    events[i].end = time_of(actions_[i].end);
  }
  if (tensor_time_) tensor_communication = tensor_time_();
}

void DeviceTimeline::add_lanes(Seconds origin, std::vector<LaneSpan>& lanes) {
  if (lanes_ == nullptr) return;
  const Seconds base = base_time_ - origin;
  for (const LaneSpan& span : lanes_->since(base_))
    lanes.push_back({span.group, span.start + base, span.end + base, span.waited});
}

}  // namespace plumbline
