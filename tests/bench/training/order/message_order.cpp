#include "tests/bench/training/order/message_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "bench/training/stage/rank_stages.hpp"
#include "core/base/error.hpp"
#include "core/run/emulated_clock.hpp"
#include "kernels/emulated/emulated_operators.hpp"

namespace plumbline::training {
namespace {

/// Records the requests; everything is done at once.
class WritingCommunicator final : public Communicator {
 public:
  WritingCommunicator(const Layout& layout, int rank) : Communicator(layout, rank) {}
  void barrier(Group group) override {
    OrderedCall call{OrderedCall::Kind::collective, fmt::format("barrier over {}", name_of(group)),
                     members(group)};
    call.on_host = true;
    Ticket ticket = note(std::move(call));
    finish(ticket);
  }
  Seconds now() const override { return {}; }
  RankCalls calls;

 private:
  Ticket note(OrderedCall call) {
    call.ticket = ++tickets_;
    calls.push_back(std::move(call));
    return {tickets_};
  }
  OrderedCall written(const Collective& call) const {
    const bool rooted = call.kind == CollectiveKind::broadcast || call.kind == CollectiveKind::reduce;
    OrderedCall result{
        OrderedCall::Kind::collective,
        fmt::format("{} over {}", plumbline::name_of(call.kind), plumbline::name_of(call.group)) +
            (rooted ? fmt::format(", root {}", call.root) : ""),
        members(call.group), 0, call.uneven() ? 0 : call.whole().bytes().value};
    if (call.group >= Group::vocab_hidden || call.group == Group::between_instances)
      result.own_order = plumbline::name_of(call.group);
    result.on_host = is_on_host(call.input);
    return result;
  }
  Ticket begin(const Collective& call) override { return note(written(call)); }
  Ticket begin(const PointToPoint& message) override {
    const bool sends = message.kind == PointToPoint::Kind::send;
    OrderedCall call{sends ? OrderedCall::Kind::send : OrderedCall::Kind::receive,
                     sends ? "send" : "receive",
                     {message.peer},
                     message.tag,
                     message.buffer.bytes().value};
    call.on_host = is_on_host(message.buffer);
    return note(std::move(call));
  }
  Ticket begin(Follower follower) override {
    OrderedCall call = written(follower.call);
    if (follower.before) call.after = follower.before.id;
    if (follower.prepare) follower.prepare();  // computes nothing here
    return note(std::move(call));
  }
  /// untouched_memory() begins at the lowest addresses.
  static bool is_on_host(const Matrix& buffer) {
    return reinterpret_cast<std::uintptr_t>(buffer.data) >= (std::uintptr_t{1} << 40);
  }
  void finish(Ticket& ticket) override {
    calls.push_back({OrderedCall::Kind::wait, "", {}, 0, 0, ticket.id});
    ticket = {};
  }
  void copy(const Collective& /*call*/) override {}

  std::int64_t tickets_ = 0;
};

/// Runs the lists as far as they go.
class Meetings {
 public:
  explicit Meetings(const std::vector<RankCalls>& ranks)
      : ranks_(ranks), next_(ranks.size(), 0), followers_(ranks.size()), places_(ranks.size()) {}

  std::string find() {
    for (bool moved = true; moved && fault_.empty();) {
      moved = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        moved = post_followers(rank) || moved;
        moved = advance(rank) || moved;
      }
    }
    if (!fault_.empty()) return fault_;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (next_[rank] < ranks_[rank].size()) return chain(rank);
    }
    for (const auto& [key, place] : meetings_) {
      if (place.there.size() < place.wanted)
        return fmt::format("{} has no counterpart", describe(*place.first));
    }
    return "";
  }

 private:
  /// Identity of a meeting: for a message (from, to, tag), for a collective its members and -1; and its
  /// number among these.
  struct Key {
    std::vector<int> who;
    int tag;
    std::string own_order;
    std::size_t number;
    bool operator<(const Key& o) const {
      return std::tie(who, tag, own_order, number) < std::tie(o.who, o.tag, o.own_order, o.number);
    }
  };
  struct Meeting {
    std::set<int> there;
    std::size_t wanted = 0;
    const OrderedCall* first = nullptr;
    std::vector<int> all;
  };

  static std::string describe(const OrderedCall& call) {
    if (call.kind == OrderedCall::Kind::collective) return call.name;
    return fmt::format("{} {} {}, tag {}", call.name, call.kind == OrderedCall::Kind::send ? "to" : "from",
                       call.peers.front(), call.tag);
  }

  /// Up to the first wait that does not end.
  bool advance(std::size_t rank) {
    bool moved = false;
    const RankCalls& calls = ranks_[rank];
    while (next_[rank] < calls.size() && fault_.empty()) {
      const OrderedCall& call = calls[next_[rank]];
      if (call.kind == OrderedCall::Kind::wait) {
        if (!places_[rank].contains(call.ticket) && !follows(rank, call.ticket)) {
          fault_ = fmt::format("rank {} waits for what it has not started", rank);
          return true;
        }
        if (!is_done(rank, call.ticket)) return moved;
      } else if (call.after != 0) {
        followers_[rank].push_back(&call);
      } else {
        post(static_cast<int>(rank), call);
      }
      ++next_[rank];
      moved = true;
    }
    return moved;
  }

  bool is_done(std::size_t rank, std::int64_t ticket) const {
    const auto place = places_[rank].find(ticket);
    if (place == places_[rank].end()) return false;
    const Meeting& meeting = meetings_.at(place->second);
    return meeting.there.size() >= meeting.wanted;
  }

  bool follows(std::size_t rank, std::int64_t ticket) const {
    return std::any_of(followers_[rank].begin(), followers_[rank].end(),
                       [&](const OrderedCall* call) { return call->ticket == ticket; });
  }

  /// Those whose predecessors are done; of one group in the order of the calls.
  bool post_followers(std::size_t rank) {
    std::set<std::string> held_up;
    return std::erase_if(followers_[rank], [&](const OrderedCall* call) {
             if (held_up.contains(call->name) || !is_done(rank, call->after)) {
               held_up.insert(call->name);
               return false;
             }
             post(static_cast<int>(rank), *call);
             return true;
           }) > 0;
  }

  void post(int rank, const OrderedCall& call) {
    Key key{call.peers, -1, call.own_order, 0};
    if (call.kind != OrderedCall::Kind::collective) {
      const bool sends = call.kind == OrderedCall::Kind::send;
      key = {{sends ? rank : call.peers.front(), sends ? call.peers.front() : rank}, call.tag, "", 0};
    }
    key.number = counts_[{rank, static_cast<int>(call.kind), key.who, key.tag, key.own_order}]++;
    Meeting& meeting = meetings_[key];
    if (meeting.first == nullptr) {
      meeting.first = &call;
      meeting.all = key.who;
      meeting.wanted = key.who.size();
    }
    const bool alike = call.kind != OrderedCall::Kind::collective || call.name == meeting.first->name;
    if (!alike || call.bytes != meeting.first->bytes) {
      fault_ = fmt::format("rank {}: {} of {} bytes meets {} of {} bytes", rank, describe(call), call.bytes,
                           describe(*meeting.first), meeting.first->bytes);
      return;
    }
    meeting.there.insert(rank);
    places_[static_cast<std::size_t>(rank)][call.ticket] = key;
  }

  /// Who waits for whom, from a rank that hangs on.
  std::string chain(std::size_t rank) const {
    std::string text;
    std::set<std::size_t> seen;
    while (seen.insert(rank).second) {
      if (next_[rank] >= ranks_[rank].size()) return text + fmt::format("; rank {} is done", rank);
      const OrderedCall& wait = ranks_[rank][next_[rank]];
      if (!places_[rank].contains(wait.ticket))
        return text + fmt::format("; rank {} waits in call {} for what a call before it holds up", rank,
                                  next_[rank] + 1);
      const Meeting& meeting = meetings_.at(places_[rank].at(wait.ticket));
      const auto absent = std::find_if(meeting.all.begin(), meeting.all.end(),
                                       [&](int member) { return !meeting.there.contains(member); });
      const auto own = std::find_if(ranks_[rank].begin(), ranks_[rank].end(), [&](const OrderedCall& call) {
        return call.kind != OrderedCall::Kind::wait && call.ticket == wait.ticket;
      });
      text += fmt::format("{}rank {} waits in call {} for rank {} in {}", text.empty() ? "" : "; ", rank,
                          next_[rank] + 1, *absent, describe(*own));
      rank = static_cast<std::size_t>(*absent);
    }
    return text;
  }

  const std::vector<RankCalls>& ranks_;
  std::vector<std::size_t> next_;
  std::vector<std::vector<const OrderedCall*>> followers_;  // of every rank, not posted yet
  std::vector<std::map<std::int64_t, Key>> places_;         // of every rank, by ticket
  std::map<Key, Meeting> meetings_;
  std::map<std::tuple<int, int, std::vector<int>, int, std::string>, std::size_t> counts_;
  std::string fault_;
};

}  // namespace

std::vector<RankCalls> calls_of_step(const RunConfig& config, const Schedule& schedule) {
  const Layout layout = config.layout();
  EmulatedClock clock{0};
  const auto operators = make_emulated_operators(clock, {});
  std::vector<RankCalls> ranks;
  ranks.reserve(static_cast<std::size_t>(layout.world()));
  for (int rank = 0; rank < layout.world(); ++rank) {
    WritingCommunicator communicator(layout, rank);
    Arena arena({}, untouched_memory());
    RankStages stages(config, schedule, *operators, communicator, arena);
    stages.start_step(nullptr, nullptr);
    execute(schedule, stages, communicator, {},
            config.parallel.effective_overlap_p2p_comm() ? Receives::ahead : Receives::in_their_turn);
    ranks.push_back(std::move(communicator.calls));
  }
  return ranks;
}

std::string find_hang(const std::vector<RankCalls>& ranks) {
  return Meetings(ranks).find();
}

}  // namespace plumbline::training
