// Common part of every transport: arguments are checked, traffic is counted, groups of one are done here.
#include "core/run/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

Bytes GroupTraffic::*counter_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return &GroupTraffic::all_reduced;
    case CollectiveKind::all_gather:
      return &GroupTraffic::all_gathered;
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::reduce:  // a piece of one
      return &GroupTraffic::reduce_scattered;
    case CollectiveKind::all_to_all:
      return &GroupTraffic::exchanged;
    case CollectiveKind::broadcast:
      break;
  }
  return &GroupTraffic::broadcast;
}

bool fills(const Matrix& whole, std::span<const std::int64_t> pieces, std::size_t members) {
  return pieces.size() == members &&
         std::all_of(pieces.begin(), pieces.end(), [](auto n) { return n >= 0; }) &&
         std::accumulate(pieces.begin(), pieces.end(), std::int64_t{0}) == whole.elements();
}

/// Error in a collective over `ranks`, or nullptr.
const char* complaint_about(const Collective& call, const std::vector<int>& ranks) {
  const bool rooted = call.kind == CollectiveKind::broadcast || call.kind == CollectiveKind::reduce;
  if (rooted && std::find(ranks.begin(), ranks.end(), call.root) == ranks.end()) {
    return "the root must be in the group";
  }
  if (call.output.data == call.input.data &&
      (call.kind == CollectiveKind::all_reduce || call.kind == CollectiveKind::broadcast)) {
    return call.input.contiguous() ? nullptr : "the matrix must be contiguous";
  }
  if (call.kind == CollectiveKind::broadcast) return "input and output must be the same matrix";
  if (!call.input.contiguous() || !call.output.contiguous()) return "the matrices must be contiguous";
  if (call.input.dtype != call.output.dtype) return "input and output must have one element type";
  if (call.uneven()) {
    return fills(call.input, call.sent, ranks.size()) && fills(call.output, call.received, ranks.size())
               ? nullptr
               : "the pieces must be as many as members and add up to the matrices";
  }
  if (call.kind == CollectiveKind::all_to_all &&
      call.input.elements() % static_cast<std::int64_t>(ranks.size()) != 0) {
    return "the matrices must have a multiple of members elements";
  }
  if (rooted || call.kind == CollectiveKind::all_to_all || call.kind == CollectiveKind::all_reduce) {
    return call.input.elements() == call.output.elements() ? nullptr
                                                           : "the matrices must have equally many elements";
  }
  if (call.whole().elements() != call.part().elements() * static_cast<std::int64_t>(ranks.size())) {
    return "the larger matrix must have members x the elements of the smaller one";
  }
  return nullptr;
}

}  // namespace

std::string_view name_of(CollectiveKind kind) {
  static constexpr std::array<std::string_view, 6> kNames = {"all_reduce", "all_gather", "reduce_scatter",
                                                             "broadcast",  "reduce",     "all_to_all"};
  return kNames[static_cast<std::size_t>(kind)];
}

Communicator::Communicator(const Layout& layout, int rank) : layout_(layout), rank_(rank) {
  for (int i = 0; i < kGroups; ++i) {
    members_[static_cast<std::size_t>(i)] = layout.members(static_cast<Group>(i), rank);
  }
}

const std::vector<int>& Communicator::members(Group group) const {
  const std::vector<int>& ranks = members_[static_cast<std::size_t>(group)];
  if (ranks.empty()) throw Error(fmt::format("rank {} is not in the {} group", rank_, name_of(group)));
  return ranks;
}

int Communicator::place_in(Group group, int world_rank) const {
  const std::vector<int>& ranks = members(group);
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), world_rank) - ranks.begin());
}

bool Communicator::admit(const Collective& call, std::string_view before_name, std::string_view after_name) {
  const std::vector<int>& ranks = members(call.group);
  if (const char* complaint = complaint_about(call, ranks)) {
    throw Error(fmt::format("{}{}{}: {}", before_name, name_of(call.kind), after_name, complaint));
  }
  if (call.whole().empty() && !call.uneven()) return false;
  if (ranks.size() == 1) {
    if (call.output.data != call.input.data) copy(call);
    return false;
  }
  traffic_.of(call.group).add(counter_of(call.kind), call.whole().bytes());
  return true;
}

void Communicator::run(Collective call) {
  call.awaited = true;
  Ticket ticket = start(call);
  wait(ticket);
}

Ticket Communicator::start(const Collective& call) {
  return admit(call, call.awaited ? "" : "start_", "") ? begin(call) : Ticket{};
}

Ticket Communicator::start_all_reduce_after(Ticket before, std::function<void()> prepare, Group group,
                                            const Matrix& buffer, ReduceOp op) {
  const Collective call{CollectiveKind::all_reduce, group, buffer, buffer, op};
  if (admit(call, "start_", "_after")) return begin(Follower{before, std::move(prepare), call});
  wait(before);
  if (prepare) prepare();
  return {};
}

Ticket Communicator::start(const PointToPoint& message) {
  const bool sends = message.kind == PointToPoint::Kind::send;
  const std::string_view name = sends ? "send" : "receive";
  expect_argument(message.buffer.contiguous(), name, "the matrix must be contiguous");
  expect_argument(message.peer != rank() && message.peer >= 0 && message.peer < layout().world(), name,
                  sends ? "the receiver must be another rank of the world"
                        : "the sender must be another rank of the world");
  if (sends) {
    traffic_.messages_sent += 1;
    traffic_.point_to_point_sent += message.buffer.bytes();
  }
  return begin(message);
}

}  // namespace plumbline
