#include "analysis/time/stage/pass_lines.hpp"

#include "analysis/time/operator_time.hpp"
#include "analysis/work/operator_list_calls.hpp"

namespace plumbline {
namespace {

/// Collectives of parameters and gradients, which overlap with computation.
bool over_replicas(Group group) {
  return group == Group::data || group == Group::zero_param || group == Group::optimizer_instance ||
         group == Group::between_instances;
}

}  // namespace

void add_pass_lines(const StageShape& shape, ActionType type, const ActionWork& work, const ActionTime& time,
                    const HardwareProfile& hardware, const Load& load, CostLines& lines) {
  bool gathers = false;
  bool scatters = false;
  for (const OperatorCall& call : calls_of(work)) {
    if (call.as<WaitCall>() != nullptr) continue;
    const CollectiveCall* collective = call.collective();
    if (collective != nullptr && collective->ticket > 0) {  // its time follows from that of the whole action
      lines.add(call.label, call.count, {});
      continue;
    }
    if (collective == nullptr || !over_replicas(collective->group)) {
      lines.add(call, time_of(call, hardware, load));
      continue;
    }
    // Overlapped with computation: only the whole action's waiting is known, not each call's.
    const bool gather = collective->kind == CallKind::all_gather;
    bool& counted = gather ? gathers : scatters;
    const Seconds waited = gather ? time.gathers : time.scatters;
    const Seconds all = gather ? time.gathered : time.scattered;
    lines.add(call.label, call.count, counted ? Seconds{} : waited, {}, counted ? Seconds{} : all - waited);
    counted = true;
  }
  lines.add(time.alongside);
  if (time.host.value > 0) lines.add("waits for the host", 1, time.host);
  if (time.copied.value > 0) {
    const bool to = type == ActionType::forward;
    lines.add(to ? "activations to the host" : "activations from the host", shape.recomputation.offloaded,
              time.copies, {}, time.copied - time.copies);
  }
}

}  // namespace plumbline
