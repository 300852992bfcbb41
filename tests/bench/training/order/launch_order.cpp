#include "tests/bench/training/order/launch_order.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>

namespace plumbline::training {
namespace {

using Kind = OrderedCall::Kind;

std::string lane_of(std::size_t rank, const OrderedCall& call) {
  if (call.kind == Kind::collective)
    return fmt::format("{} {}{}", fmt::join(call.peers, " "), call.own_order, call.on_host ? " host" : "");
  const auto own = static_cast<int>(rank);
  const bool sends = call.kind == Kind::send;
  return fmt::format("{} to {}{}", sends ? own : call.peers.front(), sends ? call.peers.front() : own,
                     call.on_host ? fmt::format(" host, tag {}", call.tag) : "");
}

/// A call that meets its counterparts on other ranks.
struct Met {
  const OrderedCall* first = nullptr;
  std::size_t started = 0;
  std::size_t wanted = 0;
  bool done() const { return started == wanted; }
};

struct Kernel {
  const OrderedCall* call = nullptr;
  Met* met = nullptr;
  bool started = false;
};

/// Work submitted to a rank's device.
struct Device {
  std::size_t next = 0;                              // where the compute stream stands
  std::map<std::int64_t, Kernel> kernels;            // by ticket
  std::map<std::string, std::deque<Kernel*>> lanes;  // not done, in the order of the stream
  std::vector<Kernel*> launches;                     // not started, in the order of the calls
  std::map<std::string, std::size_t> numbers;        // of calls in a lane
};

class Devices {
 public:
  Devices(const std::vector<RankCalls>& ranks, Launches launches)
      : ranks_(ranks), in_order_(launches == Launches::in_order_of_calls), devices_(ranks.size()) {}

  std::string find() {
    for (bool moved = true; moved && fault_.empty();) {
      moved = false;
      for (std::size_t rank = 0; rank < ranks_.size() && fault_.empty(); ++rank)
        moved = advance(rank) + start(rank) > 0 || moved;
    }
    if (!fault_.empty()) return fault_;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (devices_[rank].next < ranks_[rank].size()) return describe(rank);
    }
    for (const Device& device : devices_) {
      for (const auto& [ticket, kernel] : device.kernels) {
        if (!kernel.met->done()) return kernel.call->name + " has no counterpart";
      }
    }
    return "";
  }

 private:
  bool is_done(const Device& device, std::int64_t ticket) const {
    const auto found = device.kernels.find(ticket);
    return found != device.kernels.end() && found->second.met->done();
  }

  void ask(std::size_t rank, const OrderedCall& call) {
    Device& device = devices_[rank];
    const std::string lane = lane_of(rank, call);
    Met& met = meetings_[{lane, device.numbers[lane]++}];
    if (met.first == nullptr) {
      met.first = &call;
      met.wanted = call.kind == Kind::collective ? call.peers.size() : 2;
    }
    const bool alike =
        call.kind == Kind::collective
            ? call.name == met.first->name
            : call.tag == met.first->tag && (met.first == &call || call.kind != met.first->kind);
    if (!alike || call.bytes != met.first->bytes) {
      fault_ =
          fmt::format("rank {}: {} with tag {} of {} bytes meets {} with tag {} of {} bytes", rank, call.name,
                      call.tag, call.bytes, met.first->name, met.first->tag, met.first->bytes);
    }
    Kernel& kernel = device.kernels[call.ticket] = {&call, &met};
    device.lanes[lane].push_back(&kernel);
    device.launches.push_back(&kernel);
  }

  /// The compute stream, up to the first wait that does not end.
  int advance(std::size_t rank) {
    Device& device = devices_[rank];
    int moved = 0;
    for (; device.next < ranks_[rank].size() && fault_.empty(); ++device.next, ++moved) {
      const OrderedCall& call = ranks_[rank][device.next];
      if (call.kind == Kind::wait) {
        if (!is_done(device, call.ticket)) break;
      } else {
        ask(rank, call);
      }
    }
    return moved;
  }

  int start(std::size_t rank) {
    Device& device = devices_[rank];
    int started = 0;
    bool held_up = false;
    std::erase_if(device.launches, [&](Kernel* kernel) {
      const bool launched = !kernel->call->on_host;
      std::deque<Kernel*>& lane = device.lanes[lane_of(rank, *kernel->call)];
      while (lane.front() != kernel && lane.front()->met->done()) lane.pop_front();
      const std::int64_t after = kernel->call->after;
      const bool reached = lane.front() == kernel && (after == 0 || is_done(device, after));
      if (!reached || (launched && held_up)) {
        held_up = held_up || (launched && in_order_);
        return false;
      }
      kernel->started = true;
      ++kernel->met->started;
      ++started;
      return true;
    });
    return started;
  }

  std::string describe(std::size_t rank) const {
    const Device& device = devices_[rank];
    std::string text =
        fmt::format("rank {} waits in call {} of {}", rank, device.next + 1, ranks_[rank].size());
    if (!device.launches.empty()) {
      const OrderedCall& call = *device.launches.front()->call;
      text += fmt::format("; its {} ({}) is behind another in its stream", call.name, lane_of(rank, call));
    }
    return text;
  }

  const std::vector<RankCalls>& ranks_;
  const bool in_order_;
  std::vector<Device> devices_;
  std::map<std::pair<std::string, std::size_t>, Met> meetings_;
  std::string fault_;
};

}  // namespace

std::set<std::string> lanes_of(std::size_t rank, const RankCalls& calls) {
  std::set<std::string> lanes;
  for (const OrderedCall& call : calls) {
    if (call.kind != Kind::wait && !call.on_host) lanes.insert(lane_of(rank, call));
  }
  return lanes;
}

RankCalls held_back(const RankCalls& calls) {
  struct Held {
    OrderedCall call;
    std::int64_t predecessor;
  };
  RankCalls passed;
  std::vector<Held> held;
  std::map<std::pair<int, Kind>, std::int64_t> newest;  // of a channel, by ticket; 0: it has been waited for
  const auto pass = [&](const auto& leaves) {
    std::erase_if(held, [&](const Held& one) {
      if (!leaves(one)) return false;
      passed.push_back(one.call);
      return true;
    });
  };
  const auto sends = [](const Held& one) { return one.call.kind == Kind::send; };
  for (const OrderedCall& call : calls) {
    if (!call.on_host && (call.kind == Kind::send || call.kind == Kind::receive)) {
      const std::int64_t predecessor = std::exchange(newest[{call.peers.front(), call.kind}], call.ticket);
      if (predecessor != 0) {
        held.push_back({call, predecessor});
        continue;
      }
    }
    const bool waits = call.kind == Kind::wait;
    if (waits || call.after != 0)
      pass([&](const Held& one) { return sends(one) || (waits && one.call.ticket == call.ticket); });
    passed.push_back(call);
    if (!call.on_host && call.kind == Kind::receive) pass(sends);
    if (!waits) continue;
    for (auto& [channel, ticket] : newest) ticket = ticket == call.ticket ? 0 : ticket;
    pass([&](const Held& one) { return one.predecessor == call.ticket; });
  }
  pass([](const Held&) { return true; });
  return passed;
}

std::string find_hang_on_device(const std::vector<RankCalls>& ranks, Launches launches) {
  return Devices(ranks, launches).find();
}

}  // namespace plumbline::training
