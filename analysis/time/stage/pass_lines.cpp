#include "analysis/time/stage/pass_lines.hpp"

#include <cstdint>
#include <utility>
#include <vector>

#include "analysis/time/operator_time.hpp"
#include "analysis/work/operator_list_calls.hpp"

namespace plumbline {
namespace {

/// Lines of one action's calls.
class PassLines {
 public:
  PassLines(const ActionTime& time, const HardwareProfile& hardware, const Load& load, CostLines& lines)
      : time_(time), hardware_(hardware), load_(load), lines_(lines) {}

  /// Awaited, or started within the part.
  void add(const OperatorCall& call) {
    if (call.as<WaitCall>() != nullptr) return;
    const CollectiveCall* collective = call.collective();
    if (collective != nullptr && collective->ticket > 0) {  // its time follows from that of the whole action
      lines_.add(call.label, call.count, {});
    } else if (collective != nullptr && collective->choices > 0) {
      add_dispatch(call);
    } else if (const auto* product = call.as<GemmCall>(); product != nullptr && product->grouped) {
      add_experts(call);
    } else {
      lines_.add(call, time_of(call, hardware_, load_), is_measured(call, hardware_));
    }
  }

  /// Collective of parameters or gradients, overlapped: only the whole action's waiting is known, not
  /// each call's.
  void add_started(const OperatorCall& call) {
    if (call.elements() == 0) return;
    const bool gather = call.is(CallKind::all_gather);
    bool& counted = gather ? gathers_ : scatters_;
    const Seconds waited = gather ? time_.gathers : time_.scatters;
    const Seconds all = gather ? time_.gathered : time_.scattered;
    lines_.add(call.label, call.count, counted ? Seconds{} : waited, {}, counted ? Seconds{} : all - waited);
    counted = true;
  }

 private:
  /// Tokens to their experts or back, and what their weights and the adding of results add to it.
  void add_dispatch(const OperatorCall& call) {
    OperatorCall plain = call;
    const Seconds all = time_of(call, hardware_, load_);
    plain.get<CollectiveCall>().weights = 0;
    const Seconds tokens = time_of(plain, hardware_, load_);
    plain.get<CollectiveCall>().combines = false;
    const Seconds sent = time_of(plain, hardware_, load_);
    lines_.add(call, sent);
    if (all.value > tokens.value) lines_.add("weights of dispatched tokens", 0, all - tokens);
    if (tokens.value > sent.value) lines_.add("adding up experts' results", 0, tokens - sent);
  }

  /// A product of experts, and what one kernel each and rows that leave tiles partly empty add to it.
  void add_experts(const OperatorCall& call) {
    OperatorCall plain = call;
    auto& product = plain.get<GemmCall>();
    const Seconds all = time_of(call, hardware_, load_);
    product.spread = 0;
    const Seconds even =
        product.spread == call.as<GemmCall>()->spread ? all : time_of(plain, hardware_, load_);
    const bool apart = std::exchange(product.apart, false);
    const Seconds together = apart ? time_of(plain, hardware_, load_) : even;
    lines_.add(call, together, is_measured(call, hardware_));
    if (even.value > together.value) lines_.add("experts in kernels of their own", 0, even - together);
    if (all.value > even.value) lines_.add("partly empty tiles of experts", 0, all - even);
  }

  const ActionTime& time_;
  const HardwareProfile& hardware_;
  const Load& load_;
  CostLines& lines_;
  bool gathers_ = false;
  bool scatters_ = false;
};

}  // namespace

void add_pass_lines(const StageShape& shape, ActionType type, const ActionWork& work, const ActionTime& time,
                    const HardwareProfile& hardware, const Load& load, CostLines& lines) {
  PassLines pass(time, hardware, load, lines);
  std::vector<std::int64_t> times(work.parts.size(), 0);
  for (const ActionWork::Run& run : work.runs) times[run.part] += run.repeat;
  for (std::size_t i = 0; i < work.parts.size(); ++i) {
    if (times[i] == 0) continue;
    const auto repeated = [&](OperatorCall call) {
      call.count *= times[i];
      return call;
    };
    const UnitWork& part = work.parts[i];
    pass.add_started(repeated(part.gather));
    pass.add_started(repeated(part.expert_gather));
    for (const OperatorCall& call : part.calls) pass.add(repeated(call));
    pass.add_started(repeated(part.scatter));
    pass.add_started(repeated(part.between));
    if (part.accumulate.elements() > 0) pass.add(repeated(part.accumulate));
  }
  lines.add(time.alongside);
  if (time.slower.value > 0) lines.add("slower alongside data collectives", 1, time.slower);
  if (time.host.value > 0) lines.add("waits for the host", 1, time.host);
  if (time.python.value > 0) lines.add("waits for Python of modules", 1, time.python);
  if (time.copied.value > 0) {
    const bool to = type == ActionType::forward;
    const char* const states = to ? "parameters from the host" : "states from and to the host";
    lines.add(shape.recomputation.offloaded == 0 ? states
              : to                               ? "activations to the host"
                                                 : "activations from the host",
              shape.recomputation.offloaded, time.copies, {}, time.copied - time.copies);
  }
}

}  // namespace plumbline
