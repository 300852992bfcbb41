#include "analysis/time/action_time.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "analysis/time/host_lane.hpp"

namespace plumbline {
namespace {

/// The larger of the times of a device and of the host that launches its work. If they are equal a tenth
/// more, since neither is ahead all the time.
double with_host(double device, double host) {
  const double large = std::max(device, host);
  if (large <= 0) return 0;
  const double ratio = std::min(device, host) / large;
  if (ratio < 0.25) return large;  // less than a part in ten thousand
  const double cube = ratio * ratio * ratio;
  return large * std::cbrt(std::sqrt(1 + cube * cube));
}

/// Seconds of one part of the action.
struct Part {
  double calls = 0;
  double tensor = 0;
  double host = 0;    // waits for launches
  double python = 0;  // waits longer because of modules' Python
  std::vector<Alongside> alongside;
  std::vector<LaneSpan> lanes;
  double all = 0;  // of the calls as `lanes` have them
  double gather = 0;
  double expert_gather = 0;
  double scatter = 0;
  double between = 0;
  double accumulate = 0;
};

/// Stretches the parts by the launches that their calls wait for: all layers of the action together, every
/// other part by itself.
void add_host(const ActionWork& work, const HardwareProfile& hardware, std::vector<Part>& parts) {
  const double slowdown = host_slowdown(hardware);
  const auto launches = [&](const UnitWork& unit) {
    return unit.host.value * slowdown + unit.host_products.value;
  };
  double device = 0;
  double host = work.host.value * slowdown;
  double python = 0;
  for (const ActionWork::Run& run : work.runs) {
    if (work.parts[run.part].apart) continue;
    device += static_cast<double>(run.repeat) * parts[run.part].calls;
    host += static_cast<double>(run.repeat) * launches(work.parts[run.part]);
    python +=
        static_cast<double>(run.repeat) * work.parts[run.part].host_python.value * python_slowdown(hardware);
  }
  const double launched = device > 0 ? with_host(device, host) / device : 1;
  const double stretch = device > 0 ? with_host(device, host + python) / device : 1;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const UnitWork& unit = work.parts[i];
    const double calls = parts[i].calls;
    const double behind = unit.apart ? with_host(calls, launches(unit)) : calls * launched;
    parts[i].calls = unit.apart ? behind : calls * stretch;
    parts[i].host += behind - calls;
    parts[i].python += parts[i].calls - behind;
  }
}

class Timeline {
 public:
  /// `slowdown`: of kernels alongside a collective of the data group.
  Timeline(std::vector<Part> parts, bool overlapped, double slowdown, const HostCopies& copies,
           std::vector<LaneSpan>* lanes)
      : parts_(std::move(parts)),
        overlapped_(overlapped),
        slowdown_(slowdown),
        copies_(copies),
        lanes_(lanes) {}

  ActionTime run(const ActionWork& work) {
    // The first unit's gather starts the action, then that of the first experts.
    for (Gathers& gathers : gathers_)
      if (work.gathers_ahead) next_gather(gathers, work, 0, 0);
    for (std::size_t i = 0; i < work.runs.size(); ++i) {
      const ActionWork::Run& run = work.runs[i];
      for (std::int64_t k = 0; k < run.repeat; ++k) step(work, i, k);
      add_alongside(parts_[run.part].alongside, static_cast<double>(run.repeat), time_.alongside);
    }
    finish_scatter();
    copy_states();
    time_.all.value = now_ + work.fixed.value;
    return std::move(time_);
  }

 private:
  void step(const ActionWork& work, std::size_t i, std::int64_t k) {
    const UnitWork& unit = work.parts[work.runs[i].part];
    const Part& part = parts_[work.runs[i].part];
    for (Gathers& gathers : gathers_) {
      if ((unit.*gathers.call).elements() == 0) continue;
      time_.gathered.value += part.*gathers.seconds;
      if (!work.gathers_ahead) begin(gathers, work, i);
      wait(gathers.done_at, time_.gathers, gathers.span);
      if (work.gathers_ahead) next_gather(gathers, work, i, k + 1);
    }
    const std::int64_t layer = work.runs[i].layer;
    if (copies_.back) copy(layer, layer - 1);
    add_lanes(part);
    const double slower = slower_by(part.calls);
    time_.slower.value += slower;
    now_ += part.calls + slower;
    time_.tensor.value += part.tensor;
    time_.host.value += part.host;
    time_.python.value += part.python;
    if (unit.final_gradient) time_.finals.push_back({now_});
    if (unit.scatter.elements() > 0) {
      finish_scatter();
      scattered_at_ = start(part.scatter, unit.scatter.collective()->group, time_.scatters, scatter_span_);
      if (part.between > 0)
        scattered_at_ = start(part.between, unit.between.collective()->group, time_.scatters, scatter_span_,
                              scattered_at_);
      accumulate_ = part.accumulate;
      time_.scattered.value += part.scatter + part.between;
      if (!work.scatters_go_on) finish_scatter();
    }
    if (!copies_.back) copy(layer, layer);
  }

  /// Seconds by which kernels of `calls` seconds take longer while the lanes of the data group are busy.
  double slower_by(double calls) const {
    const double busy = std::max({lane_, near_lane_, between_lane_}) - now_;
    if (!overlapped_ || busy <= 0) return 0;
    return (slowdown_ - 1) * std::min(calls, busy / slowdown_);
  }

  /// In `layer`: the copy in progress is waited for, and `next` starts.
  void copy(std::int64_t layer, std::int64_t next) {
    if (layer < 0) return;
    wait(copied_at_, time_.copies, copy_span_);
    if (next < 0 || next >= std::ssize(copies_.of_layer)) return;
    const Seconds seconds = copies_.of_layer[static_cast<std::size_t>(next)];
    copied_at_ = start(seconds.value, copy_lane_, time_.copies);
    note(std::nullopt, seconds.value, copied_at_, copy_span_);
    time_.copied += seconds;
  }

  void copy_states() {
    if (copies_.states.value <= 0) return;
    time_.copied += copies_.states;
    std::size_t span = 0;
    note(std::nullopt, copies_.states.value, copies_.states.value, span);
    wait(copies_.states.value, time_.copies, span);
  }

  /// Gathers of one kind of units, one at a time.
  struct Gathers {
    OperatorCall UnitWork::*call;
    double Part::*seconds;
    double done_at = 0;    // of the last one that was started
    std::size_t span = 0;  // of the same
  };

  /// Starts the gather of the first use from repetition `k` of run `i` on.
  void next_gather(Gathers& gathers, const ActionWork& work, std::size_t i, std::int64_t k) {
    for (; i < work.runs.size(); ++i, k = 0) {
      const ActionWork::Run& run = work.runs[i];
      if (k < run.repeat && (work.parts[run.part].*gathers.call).elements() > 0)
        return begin(gathers, work, i);
    }
  }

  void begin(Gathers& gathers, const ActionWork& work, std::size_t i) {
    const std::size_t part = work.runs[i].part;
    gathers.done_at =
        start(parts_[part].*gathers.seconds, (work.parts[part].*gathers.call).collective()->group,
              time_.gathers, gathers.span);
  }

  /// Lanes of a part that begins now. Where the host is behind, its calls are further apart, each as long as
  /// before.
  void add_lanes(const Part& part) {
    if (lanes_ == nullptr || part.all <= 0) return;
    const double stretch = part.calls / part.all;
    for (const LaneSpan& span : part.lanes) {
      const Seconds end = Seconds{now_} + span.end * stretch;
      lanes_->push_back({span.group, end - (span.end - span.start), end, span.waited});
    }
  }

  /// Returns the end of a collective started now, or once it can be `ready`, after the earlier ones on its
  /// lane.
  double start(double seconds, double& lane, Seconds& exposed, double ready = 0) {
    if (overlapped_) return lane = std::max({lane, now_, ready}) + seconds;
    now_ += seconds;
    exposed.value += seconds;
    return now_;
  }

  double& lane_of(Group group) {
    if (group == Group::zero_param) return near_lane_;
    if (group == Group::expert_data) return expert_lane_;
    return group == Group::between_instances ? between_lane_ : lane_;
  }

  /// The same for a collective, on its group's lane.
  double start(double seconds, Group group, Seconds& exposed, std::size_t& span, double ready = 0) {
    const double end = start(seconds, lane_of(group), exposed, ready);
    note(group, seconds, end, span);
    return end;
  }

  /// Records a started collective or copy.
  void note(LaneGroup group, double seconds, double end, std::size_t& span) {
    if (lanes_ == nullptr) return;
    span = lanes_->size();
    lanes_->push_back({group, {end - seconds}, {end}, {overlapped_ ? 0 : seconds}});
  }

  /// Returns how long that took.
  double wait(double moment, Seconds& exposed) {
    const double waited = std::max(0.0, moment - now_);
    exposed.value += waited;
    now_ = std::max(now_, moment);
    return waited;
  }

  void wait(double moment, Seconds& exposed, std::size_t span) {
    const double waited = wait(moment, exposed);
    if (lanes_ != nullptr && waited > 0) (*lanes_)[span].waited.value += waited;
  }

  void finish_scatter() {
    if (scattered_at_ < 0) return;
    wait(scattered_at_, time_.scatters, scatter_span_);
    now_ += accumulate_;
    scattered_at_ = -1;
  }

  std::vector<Part> parts_;
  bool overlapped_;
  double slowdown_;
  const HostCopies& copies_;
  std::vector<LaneSpan>* lanes_;
  std::array<Gathers, 2> gathers_{
      {{&UnitWork::gather, &Part::gather}, {&UnitWork::expert_gather, &Part::expert_gather}}};
  std::size_t scatter_span_ = 0;
  std::size_t copy_span_ = 0;
  double now_ = 0;
  double lane_ = 0;         // when the last collective of the data group, or of an instance, is done
  double near_lane_ = 0;    // the same for ranks that gather secondary shards
  double expert_lane_ = 0;  // the same for ranks with the same experts
  double between_lane_ = 0;
  double copy_lane_ = 0;
  double copied_at_ = 0;
  double scattered_at_ = -1;
  double accumulate_ = 0;
  ActionTime time_;
};

/// The largest slowdown by the action's collectives of the data group.
double slowdown_of(const ActionWork& work, const HardwareProfile& hardware, const Layout& layout) {
  double slowdown = 1;
  if (!work.slower_alongside) return slowdown;
  for (const UnitWork& unit : work.parts) {
    for (const OperatorCall* call : {&unit.gather, &unit.scatter}) {
      if (call->elements() > 0)
        slowdown = std::max(slowdown, slowdown_alongside_replicas(*call->collective(), hardware, layout));
    }
  }
  return slowdown;
}

}  // namespace

ActionTime time_action(const ActionWork& work, const HardwareProfile& hardware, const Load& load,
                       const HostCopies& copies, std::vector<LaneSpan>* lanes) {
  std::vector<Part> parts;
  parts.reserve(work.parts.size());
  for (const UnitWork& unit : work.parts) {
    Part part;
    PartTime time = time_calls(unit.calls, hardware, load);
    part.calls = part.all = time.all;
    part.tensor = time.tensor;
    part.host = time.host;
    part.alongside = std::move(time.alongside);
    part.lanes = std::move(time.lanes);
    if (unit.gather.elements() > 0) part.gather = time_of(unit.gather, hardware, load).value;
    if (unit.expert_gather.elements() > 0)
      part.expert_gather = time_of(unit.expert_gather, hardware, load).value;
    if (unit.scatter.elements() > 0) {
      part.scatter = time_of(unit.scatter, hardware, load).value;
      if (unit.between.elements() > 0) {
        // Other software uses the data group's lane.
        double& lane = unit.between.among(Group::data) ? part.scatter : part.between;
        lane += time_of(unit.between, hardware, load).value;
      }
      if (unit.accumulate.elements() > 0) part.accumulate = time_of(unit.accumulate, hardware, load).value;
    }
    parts.push_back(std::move(part));
  }
  add_host(work, hardware, parts);
  return Timeline(std::move(parts), hardware.processors() == 0, slowdown_of(work, hardware, load.layout),
                  copies, lanes)
      .run(work);
}

}  // namespace plumbline
