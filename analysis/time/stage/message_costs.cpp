#include "analysis/time/stage/message_costs.hpp"

#include <algorithm>

#include "analysis/time/operator_time.hpp"
#include "analysis/work/operator_list_calls.hpp"

namespace plumbline {
namespace {

/// Costs of messages, from everything that they depend on.
class MessageCosts {
 public:
  MessageCosts(const RunConfig& config, const Schedule& schedule, const Software& software,
               const HardwareProfile& hardware, const StageShape& any, const Load& load)
      : config_(config),
        schedule_(schedule),
        software_(software),
        hardware_(hardware),
        any_(any),
        load_(load) {}

  /// A pipeline whose hosts wait goes at the pace of its slowest hop.
  void set(Costs& costs) const {
    if (schedule_.ranks < 2) return;
    const auto hop_of = [&](bool between_nodes) {
      return any_.traits.sends_ahead ? hop(between_nodes) : awaited_hop(between_nodes);
    };
    const int per_node = pipeline_ranks_per_node(hardware_, load_.layout);
    const bool leaves = per_node > 0 && per_node < schedule_.ranks;
    const bool waits = waits_for_messages();
    static_cast<LinkCosts&>(costs) = hop_of(leaves && waits);
    if (waits) {
      costs.receive_busy = costs.transfer;  // the receiver does nothing else meanwhile
    } else if (leaves) {
      costs.ranks_per_node = per_node;
      costs.between_nodes = hop_of(true);
    }
  }

 private:
  /// Cost of a message of the student (with `joint` also the teacher's part) on one kind of hop.
  LinkCosts hop(bool between_nodes) const {
    const int world = load_.layout.world();
    const auto message = [&](std::int64_t width) {
      return message_time(hardware_, world, {any_.stream.rows * width * any_.numerics.e()}, between_nodes);
    };
    const std::int64_t joint = schedule_.joint_teacher ? any_.distillation.teacher_hidden : 0;
    const Seconds whole = message(any_.stream.hidden + joint);
    LinkCosts hop;
    hop.latency = std::min(whole, message_time(hardware_, world, {1}, between_nodes));
    hop.transfer = whole - hop.latency;
    if (any_.distillation.teacher_hidden > 0 &&
        types_in(schedule_)[static_cast<std::size_t>(ActionType::send_teacher)]) {
      hop.teacher_transfer = std::max(message(any_.distillation.teacher_hidden) - hop.latency, Seconds{0});
    }
    return hop;
  }

  /// One message of a framework. The scatter/gather optimisation (arXiv:2104.04473 §4.1) sends each tensor
  /// rank's part, which its receivers gather.
  LinkCosts awaited_hop(bool between_nodes) const {
    const bool scatters = software_.communication.scattered_messages && !any_.sharding.sequence_parallel &&
                          any_.sharding.tensor > 1;
    const std::int64_t elements = any_.stream.rows * any_.stream.hidden;
    LinkCosts hop;
    hop.transfer =
        message_time(hardware_, load_.layout.world(),
                     {elements * any_.numerics.e() / (scatters ? any_.sharding.tensor : 1)}, between_nodes);
    if (scatters) {
      hop.transfer +=
          time_of(CallList::collective_call(CallKind::all_gather, "message all-gather", Group::tensor,
                                            any_.sharding.tensor, elements, any_.numerics.type),
                  hardware_, load_);
    }
    hop.transfer += Seconds{software_.communication.message_s};
    return hop;
  }

  /// Hosts wait for their messages.
  bool waits_for_messages() const {
    if (any_.traits.sends_ahead) return hardware_.processors() > 0;
    const bool interleaved =
        software_.communication.overlapped_interleaved && schedule_.stages > schedule_.ranks;
    return !config_.parallel.pp.overlap_p2p_comm.value_or(software_.communication.overlapped_messages ||
                                                          interleaved);
  }

  const RunConfig& config_;
  const Schedule& schedule_;
  const Software& software_;
  const HardwareProfile& hardware_;
  const StageShape& any_;
  const Load& load_;
};

}  // namespace

void set_message_costs(const RunConfig& config, const Schedule& schedule, const Software& software,
                       const HardwareProfile& hardware, const StageShape& any, const Load& load,
                       Costs& costs) {
  MessageCosts(config, schedule, software, hardware, any, load).set(costs);
}

}  // namespace plumbline
