#include "bench/plan/collective_prediction.hpp"

#include "analysis/time/accelerator_time.hpp"
#include "analysis/time/operator_time.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kLargeMessage = std::int64_t{1} << 40;  // bytes: latency is nothing

CallKind call_kind(BenchedCall call) {
  switch (call) {
    case BenchedCall::all_gather:
      return CallKind::all_gather;
    case BenchedCall::reduce_scatter:
      return CallKind::reduce_scatter;
    case BenchedCall::all_to_all:
    case BenchedCall::all_to_all_uneven:
      return CallKind::all_to_all;
    case BenchedCall::broadcast:
      return CallKind::broadcast;
    default:
      return CallKind::all_reduce;
  }
}

DType dtype_of(const CollectiveRow& row) {
  if (row.type == "bfloat16") return DType::bf16;
  return row.type == "int32" ? DType::int32 : DType::fp32;
}

/// As time_of() of a step's calls.
bool is_started(Group group) {
  return group != Group::world && group != Group::tensor && group != Group::model &&
         group != Group::context && group != Group::context_heads && group != Group::expert;
}

double seconds_of(const CollectiveRow& row, std::int64_t bytes, Group group, const Layout& layout,
                  const HardwareProfile& hardware) {
  const Accelerator* accelerator = hardware.accelerator();
  if (kind_of(row.call).between_pairs) {
    const bool leaves = accelerator != nullptr &&
                        leaves_node(group, row.ranks, layout, accelerator->constants.network.gpus_per_node);
    return message_time(hardware, layout.world(), {bytes}, leaves).value;
  }
  const double n = row.ranks;
  double sent = static_cast<double>(bytes);
  // The busiest rank's share beside that of equal pieces.
  if (row.call == BenchedCall::all_to_all_uneven) sent *= row.bus_factor * n / (n - 1);
  const DType type = dtype_of(row);
  const CollectiveCall call{.kind = call_kind(row.call),
                            .group = group,
                            .ranks = row.ranks,
                            .elements = static_cast<std::int64_t>(sent) / size_of(type)};
  return collective_time({.work = call, .type = type}, hardware, layout, is_started(group)).value;
}

}  // namespace

std::optional<double> predicted_seconds(const CollectiveRow& row, Group group, const Layout& layout,
                                        const HardwareProfile& hardware) {
  if (row.call == BenchedCall::bandwidth || row.ranks < 2) return std::nullopt;
  const double seconds = seconds_of(row, row.size, group, layout, hardware);
  return seconds > 0 ? std::optional(seconds) : std::nullopt;
}

double seconds_at_limit(const CollectiveRow& row, Group group, const Layout& layout,
                        const HardwareProfile& hardware) {
  return seconds_of(row, kLargeMessage, group, layout, hardware) / static_cast<double>(kLargeMessage) *
         static_cast<double>(row.size);
}

}  // namespace plumbline
