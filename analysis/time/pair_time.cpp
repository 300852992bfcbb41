#include "analysis/time/pair_time.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace plumbline {
namespace {

enum class StepKind : std::uint8_t { use, compute, awaited, exchange, scatter };

/// Gather of the values that a part uses; 0 seconds: none.
struct TimedGather {
  double seconds = 0;
  Group group = Group::data;
};
/// Gathers of the layer, then of its experts where these are spread over ranks.
constexpr std::size_t kGathers = 2;
using TimedGathers = std::array<TimedGather, kGathers>;

/// Part of an action between two points at which the other action of a pair can continue.
struct TimedStep {
  StepKind kind = StepKind::compute;
  double seconds = 0;
  double tensor = 0;              // compute: of it in collectives
  double slowdown = 1;            // exchange: of computation alongside
  double accumulate = 0;          // scatter: once it is there
  const char* label = "";         // awaited, exchange
  std::vector<LaneSpan> lanes{};  // compute: of its collectives
};
struct TimedPart {
  TimedGathers gathers;
  std::vector<TimedStep> steps;
};

TimedPart steps_of(const UnitWork& unit, const HardwareProfile& hardware, const Load& load) {
  TimedPart part;
  std::vector<TimedStep>& steps = part.steps;
  const OperatorCall* const gathers[kGathers] = {&unit.gather, &unit.expert_gather};
  for (std::size_t i = 0; i < kGathers; ++i) {
    if (gathers[i]->elements() == 0) continue;
    part.gathers[i] = {time_of(*gathers[i], hardware, load).value, gathers[i]->collective()->group};
    if (steps.empty()) steps.push_back({.kind = StepKind::use});
  }
  std::vector<OperatorCall> computed;
  const auto flush = [&] {
    if (computed.empty()) return;
    PartTime time = time_calls(computed, hardware, load);
    steps.push_back({StepKind::compute, time.all, time.tensor, 1, 0, "", std::move(time.lanes)});
    computed.clear();
  };
  for (const OperatorCall& call : unit.calls) {
    if (!call.among(Group::expert)) {
      computed.push_back(call);
      continue;
    }
    flush();
    steps.push_back({call.collective()->hands_over ? StepKind::exchange : StepKind::awaited,
                     time_of(call, hardware, load).value, 0, slowdown_alongside(*call.collective(), hardware),
                     0, call.label});
  }
  flush();
  if (unit.scatter.elements() > 0) {
    steps.push_back({StepKind::scatter, time_of(unit.scatter, hardware, load).value, 0, 1,
                     unit.accumulate.elements() > 0 ? time_of(unit.accumulate, hardware, load).value : 0,
                     ""});
  }
  return part;
}

/// The steps of one action, in order.
class Member {
 public:
  Member(const PairWork& of, const HardwareProfile& hardware) : work_(of.work) {
    parts_.reserve(work_.parts.size());
    for (const UnitWork& unit : work_.parts) parts_.push_back(steps_of(unit, hardware, of.load));
    skip();
  }

  bool ended() const { return run_ == work_.runs.size(); }
  const TimedStep& take() {
    current_ = work_.runs[run_].part;
    const TimedStep& step = parts_[current_].steps[step_++];
    skip();
    return step;
  }
  /// Gathers of the part whose step was taken last.
  const TimedGathers& gathers() const { return parts_[current_].gathers; }
  /// The gather of the next use from here on, by index in TimedGathers.
  TimedGather next_gather(std::size_t kind) const {
    std::int64_t repeat = repeat_ + (step_ > 0 ? 1 : 0);
    for (std::size_t run = run_; run < work_.runs.size(); ++run, repeat = 0) {
      const TimedGather& gather = parts_[work_.runs[run].part].gathers[kind];
      if (repeat < work_.runs[run].repeat && gather.seconds > 0) return gather;
    }
    return {};
  }
  bool gathers_ahead() const { return work_.gathers_ahead; }
  bool scatters() const {
    return std::any_of(work_.parts.begin(), work_.parts.end(),
                       [](const UnitWork& unit) { return unit.scatter.elements() > 0; });
  }
  bool scatters_go_on() const { return work_.scatters_go_on; }

 private:
  /// To the next part that has a step left.
  void skip() {
    while (!ended() && step_ == parts_[work_.runs[run_].part].steps.size()) {
      step_ = 0;
      if (++repeat_ < work_.runs[run_].repeat) continue;
      repeat_ = 0;
      ++run_;
    }
  }

  const ActionWork& work_;
  std::vector<TimedPart> parts_;
  std::size_t run_ = 0;
  std::int64_t repeat_ = 0;
  std::size_t step_ = 0;
  std::size_t current_ = 0;
};

class PairTimeline {
 public:
  PairTimeline(const PairWork& first, const PairWork& second, const HardwareProfile& hardware)
      : members_{{Member(first, hardware), Member(second, hardware)}}, shared_(hardware.processors() > 0) {}

  PairTime run() {
    std::array<UnderWay, 2> exchanges;
    for (std::size_t turn = 0; !done(exchanges); turn = 1 - turn) {
      finish(exchanges[turn]);
      Member& mine = members_[turn];
      const Member& other = members_[1 - turn];
      bool goes_on = !mine.ended();
      begin(turn);
      while (goes_on) {
        const TimedStep& step = mine.take();
        // An exchange that the other action still waits for ends its turn later.
        const bool alone = other.ended() && !exchanges[1 - turn].started;
        if (step.kind == StepKind::exchange && !alone && !shared_) {
          exchanges[turn] = start(step);
          goes_on = false;
        } else {
          pass(step, turn);
          goes_on = !mine.ended();
        }
        if (mine.ended() && !exchanges[turn].started && mine.scatters()) finish_scatter();
      }
    }
    finish_scatter();
    return {{now_}, {tensor_}, std::move(alongside_), std::move(lanes_)};
  }

 private:
  struct UnderWay {
    bool started = false;
    double begin = 0;
    double seconds = 0;
    double slowdown = 1;
    const char* label = "";
    std::size_t span = 0;
  };

  bool done(const std::array<UnderWay, 2>& exchanges) const {
    return members_[0].ended() && members_[1].ended() && !exchanges[0].started && !exchanges[1].started;
  }

  /// An action's first turn starts its first gathers.
  void begin(std::size_t turn) {
    if (std::exchange(begun_[turn], true) || !members_[turn].gathers_ahead()) return;
    for (std::size_t kind = 0; kind < kGathers; ++kind)
      start_gather(turn, kind, members_[turn].next_gather(kind));
  }

  double& lane_of(Group group) {
    if (group == Group::zero_param) return near_lane_;
    return group == Group::expert_data ? expert_data_lane_ : data_lane_;
  }

  void start_gather(std::size_t turn, std::size_t kind, const TimedGather& gather) {
    if (gather.seconds == 0) return;
    double& lane = lane_of(gather.group);
    lane = std::max(now_, lane) + gather.seconds;
    if (shared_) now_ = lane;
    gathered_at_[turn][kind] = lane;
    gather_span_[turn][kind] = lanes_.size();
    lanes_.push_back({gather.group, {lane - gather.seconds}, {lane}, {shared_ ? gather.seconds : 0}});
  }

  void use(std::size_t turn) {
    const Member& mine = members_[turn];
    const TimedGathers gathers = mine.gathers();
    for (std::size_t kind = 0; kind < kGathers; ++kind) {
      if (gathers[kind].seconds == 0) continue;
      if (!mine.gathers_ahead()) start_gather(turn, kind, gathers[kind]);
      lanes_[gather_span_[turn][kind]].waited.value += std::max(0.0, gathered_at_[turn][kind] - now_);
      now_ = std::max(now_, gathered_at_[turn][kind]);
      if (mine.gathers_ahead()) start_gather(turn, kind, mine.next_gather(kind));
    }
  }

  void pass(const TimedStep& step, std::size_t turn) {
    switch (step.kind) {
      case StepKind::use:
        use(turn);
        break;
      case StepKind::compute:
        for (const LaneSpan& span : step.lanes)
          lanes_.push_back({span.group, Seconds{now_} + span.start, Seconds{now_} + span.end, span.waited});
        now_ += step.seconds;
        tensor_ += step.tensor;
        break;
      case StepKind::awaited:
      case StepKind::exchange: {
        const double before = now_;
        if (lane_ > now_) add(on_lane_, 0, lane_ - now_, 0);
        add(step.label, step.seconds, step.seconds, 0);
        now_ = lane_ = std::max(now_, lane_) + step.seconds;
        on_lane_ = step.label;
        tensor_ += now_ - before;
        lanes_.push_back({Group::expert, {now_ - step.seconds}, {now_}, {now_ - before}});
        break;
      }
      case StepKind::scatter:
        finish_scatter();
        scattered_at_ = data_lane_ = std::max(now_, data_lane_) + step.seconds;
        scatter_span_ = lanes_.size();
        lanes_.push_back({Group::data, {data_lane_ - step.seconds}, {data_lane_}, {}});
        accumulate_ = step.accumulate;
        if (shared_ || !members_[turn].scatters_go_on()) finish_scatter();
        break;
    }
  }

  UnderWay start(const TimedStep& step) {
    const double begin = std::max(now_, lane_);
    lane_ = begin + step.seconds;
    on_lane_ = step.label;
    lanes_.push_back({Group::expert, {begin}, {lane_}, {}});
    return {true, begin, step.seconds, step.slowdown, step.label, lanes_.size() - 1};
  }

  void finish(UnderWay& exchange) {
    if (!exchange.started) return;
    const double before = now_;
    const double alongside = std::clamp(now_ - exchange.begin, 0.0, exchange.seconds / exchange.slowdown);
    const double slower = alongside * (exchange.slowdown - 1);
    now_ = std::max(now_ + slower, exchange.begin + exchange.seconds);
    add(exchange.label, exchange.seconds, now_ - before - slower, slower);
    lanes_[exchange.span].waited.value += now_ - before - slower;
    tensor_ += now_ - before;
    exchange = {};
  }

  void add(const char* label, double all, double exposed, double slower) {
    add_alongside({{label, {all}, {exposed}, {slower}}}, 1, alongside_);
  }

  void finish_scatter() {
    if (scattered_at_ < 0) return;
    lanes_[scatter_span_].waited.value += std::max(0.0, scattered_at_ - now_);
    now_ = std::max(now_, scattered_at_) + accumulate_;
    scattered_at_ = -1;
  }

  std::array<Member, 2> members_;
  bool shared_;
  double now_ = 0;
  double tensor_ = 0;
  double lane_ = 0;  // when the expert group's last collective is done
  const char* on_lane_ = "";
  std::vector<Alongside> alongside_;
  std::vector<LaneSpan> lanes_;
  std::size_t scatter_span_ = 0;
  double data_lane_ = 0;
  double near_lane_ = 0;         // of ranks that gather secondary shards
  double expert_data_lane_ = 0;  // of ranks with the same experts
  std::array<bool, 2> begun_{};  // by action: its first turn has come
  std::array<std::array<double, kGathers>, 2> gathered_at_{};
  std::array<std::array<std::size_t, kGathers>, 2> gather_span_{};
  double scattered_at_ = -1;
  double accumulate_ = 0;
};

}  // namespace

PairTime time_pair(const PairWork& first, const PairWork& second, const HardwareProfile& hardware) {
  return PairTimeline(first, second, hardware).run();
}

}  // namespace plumbline
