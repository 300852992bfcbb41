#include "core/backends/nccl/device_lanes.hpp"

#include <algorithm>

namespace plumbline {

void DeviceLanes::clear() {
  first_ += noted_.size();
  noted_.clear();
  in_use_ = 0;
}

std::size_t DeviceLanes::record(cudaStream_t stream) {
  if (in_use_ == events_.size()) events_.push_back(std::make_unique<DeviceEvent>(cudaEventDefault));
  check_cuda(cudaEventRecord(events_[in_use_]->get(), stream), "cudaEventRecord");
  return in_use_++;
}

DeviceLanes::Noted* DeviceLanes::find(std::size_t span) {
  return span < first_ ? nullptr : &noted_[span - first_];
}

std::size_t DeviceLanes::begin(LaneGroup group, cudaStream_t stream, bool awaited) {
  Noted noted{group, awaited};
  noted.begin = record(stream);
  noted_.push_back(noted);
  return first_ + noted_.size() - 1;
}

void DeviceLanes::end(std::size_t span, cudaStream_t stream) {
  if (Noted* noted = find(span)) noted->end = record(stream);
}

void DeviceLanes::begin_wait(std::size_t span, cudaStream_t compute) {
  if (Noted* noted = find(span)) noted->wait_begin = record(compute);
}

void DeviceLanes::end_wait(std::size_t span, cudaStream_t compute) {
  if (Noted* noted = find(span)) noted->wait_end = record(compute);
}

Seconds DeviceLanes::between(cudaEvent_t from, cudaEvent_t to) {
  float milliseconds = 0;
  check_cuda(cudaEventElapsedTime(&milliseconds, from, to), "cudaEventElapsedTime");
  return {static_cast<double>(milliseconds) * 1e-3};
}

std::vector<LaneSpan> DeviceLanes::since(const DeviceEvent& base) const {
  std::vector<LaneSpan> spans;
  for (const Noted& noted : noted_) {
    if (noted.end == kNone || (!noted.awaited && noted.wait_end == kNone)) continue;
    LaneSpan span{noted.group,
                  between(base.get(), events_[noted.begin]->get()),
                  between(base.get(), events_[noted.end]->get()),
                  {}};
    const Seconds length = std::max(Seconds{0}, span.end - span.start);
    span.waited =
        noted.awaited
            ? length
            : std::min(length, between(events_[noted.wait_begin]->get(), events_[noted.wait_end]->get()));
    spans.push_back(span);
  }
  return spans;
}

TicketTimes DeviceLanes::times_of(std::size_t span, const DeviceEvent& reached, Seconds time) const {
  const Noted& noted = noted_.at(span - first_);
  const auto at = [&](std::size_t event) {
    return event == kNone ? Seconds{} : time - between(events_[event]->get(), reached.get());
  };
  return {at(noted.begin), at(noted.end), at(noted.wait_begin), at(noted.wait_end)};
}

}  // namespace plumbline
