#include "analysis/time/call_lanes.hpp"

#include <algorithm>

#include "analysis/time/accelerator_time.hpp"
#include "analysis/time/host_lane.hpp"

namespace plumbline {
namespace {

// Channels of NCCL's rings between nodes, a thread block each: a ring per card of a node's eight, and every
// one twice (NVIDIA/nccl@5067397, src/graph/connect.cc, ncclTopoPostset).
constexpr double kChannelsBetweenNodes = 16;

/// Slowdown of kernels to which `taken` of a device's multiprocessors are lost.
double slowdown_without(double taken, const Device& device) {
  return device.processors / std::max(device.processors - taken, 1.0);
}

/// A collective that was started.
struct Started {
  double begin = 0;
  double seconds = 0;
  double slowdown = 1;
  const char* label = "";
  std::size_t span = 0;
};

class CallLanes {
 public:
  CallLanes(const HardwareProfile& hardware, const Load& load)
      : hardware_(hardware), load_(load), host_(hardware) {}

  void run(const OperatorCall& call) {
    if (const auto* started = call.as<WaitCall>()) return wait(started->ticket);
    const double seconds = time_of(call, hardware_, load_).value;
    if (call.collective() != nullptr && call.collective()->ticket > 0) return start(call, seconds);
    const double idle = host_.wait(call, time_.all, seconds);
    time_.host += idle;
    time_.all += idle;
    if (call.collective() != nullptr) {
      time_.tensor += seconds;
      add_awaited(call, {time_.all}, {seconds}, time_.lanes);
    }
    time_.all += seconds;
  }

  PartTime take() { return std::move(time_); }

 private:
  Alongside& under(const char* label) {
    const auto found = std::find_if(time_.alongside.begin(), time_.alongside.end(),
                                    [&](const Alongside& known) { return known.label == label; });
    return found != time_.alongside.end() ? *found
                                          : time_.alongside.emplace_back(Alongside{label, {}, {}, {}});
  }

  void start(const OperatorCall& call, double seconds) {
    const Group group = call.collective()->group;
    const auto ticket = static_cast<std::size_t>(call.collective()->ticket);
    started_.resize(std::max(started_.size(), ticket));
    Started& slot = started_[ticket - 1];
    under(call.label).all.value += seconds;
    if (hardware_.processors() > 0) {  // the processor that it needs computes
      time_.lanes.push_back({group, {time_.all}, {time_.all + seconds}, {seconds}});
      time_.all += seconds;
      time_.tensor += seconds;
      under(call.label).exposed.value += seconds;
      slot = {time_.all, 0, 1, call.label, time_.lanes.size() - 1};
      return;
    }
    slot = {std::max(lane_, time_.all), seconds, slowdown_alongside(*call.collective(), hardware_),
            call.label, time_.lanes.size()};
    lane_ = slot.begin + seconds;
    time_.lanes.push_back({group, {slot.begin}, {lane_}, {}});
  }

  void wait(int ticket) {
    const Started& slot = started_[static_cast<std::size_t>(ticket) - 1];
    Alongside& sum = under(slot.label);
    const double alongside = std::clamp(time_.all - slot.begin, 0.0, slot.seconds / slot.slowdown);
    const double slower = alongside * (slot.slowdown - 1);
    const double waited = std::max(0.0, slot.begin + slot.seconds - (time_.all + slower));
    sum.slower.value += slower;
    sum.exposed.value += waited;
    time_.lanes[slot.span].waited.value += waited;
    time_.tensor += waited + slower;
    time_.all += slower + waited;
  }

  const HardwareProfile& hardware_;
  const Load& load_;
  HostLane host_;
  PartTime time_;
  double lane_ = 0;  // when the last collective that was started is done
  std::vector<Started> started_;
};

}  // namespace

void add_alongside(const std::vector<Alongside>& more, double times, std::vector<Alongside>& sum) {
  for (const Alongside& part : more) {
    auto found = std::find_if(sum.begin(), sum.end(),
                              [&](const Alongside& known) { return known.label == part.label; });
    if (found == sum.end()) found = sum.insert(found, {part.label, {}, {}, {}});
    found->all += part.all * times;
    found->exposed += part.exposed * times;
    found->slower += part.slower * times;
  }
}

void add_awaited(const OperatorCall& call, Seconds start, Seconds seconds, std::vector<LaneSpan>& spans) {
  const Seconds each = seconds / static_cast<double>(call.count);
  for (std::int64_t i = 0; i < call.count; ++i) {
    spans.push_back({call.collective()->group, start, start + each, each});
    start += each;
  }
}

double slowdown_alongside(const CollectiveCall& collective, const HardwareProfile& hardware) {
  const bool held = collective.group == Group::tensor || collective.group == Group::expert;
  if (hardware.accelerator() == nullptr || !held) return 1;
  const Device& device = hardware.accelerator()->constants.device;
  return slowdown_without(collective.processors > 0 ? collective.processors : device.collective_processors,
                          device);
}

double slowdown_alongside_replicas(const CollectiveCall& collective, const HardwareProfile& hardware,
                                   const Layout& layout) {
  if (hardware.accelerator() == nullptr || collective.ranks < 2) return 1;
  const auto& constants = hardware.accelerator()->constants;
  const Span span = collective.stride > 0 ? Span{collective.ranks, collective.stride}
                                          : span_of(collective.group, collective.ranks, layout,
                                                    constants.network.gpus_per_node);
  const double held = constants.device.collective_processors;
  const bool leaves = ranks_per_node(constants.network, span) < span.size;
  return slowdown_without(leaves ? std::min(kChannelsBetweenNodes, held) : held, constants.device);
}

PartTime time_calls(const std::vector<OperatorCall>& calls, const HardwareProfile& hardware,
                    const Load& load) {
  CallLanes lanes(hardware, load);
  for (const OperatorCall& call : calls) lanes.run(call);
  return lanes.take();
}

}  // namespace plumbline
