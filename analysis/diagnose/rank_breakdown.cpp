#include "analysis/diagnose/rank_breakdown.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "analysis/diagnose/host_stacks.hpp"
#include "analysis/diagnose/time_claims.hpp"
#include "analysis/diagnose/traced_operators.hpp"
#include "core/base/one_line.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMostOperators = 200;
constexpr std::size_t kMostGaps = 20;

double seconds_of(std::int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) * 1e-9;
}

ClaimKind claim_of(TimeShare share) {
  switch (share) {
    case TimeShare::product:
      return ClaimKind::product;
    case TimeShare::attention:
      return ClaimKind::attention;
    case TimeShare::optimizer:
      return ClaimKind::optimizer;
    case TimeShare::tensor:
      return ClaimKind::tensor;
    case TimeShare::pipeline:
      return ClaimKind::pipeline;
    case TimeShare::data:
      return ClaimKind::data;
    case TimeShare::bubble:
      return ClaimKind::bubble;
    case TimeShare::unknown:
      return ClaimKind::unknown;
    case TimeShare::garbage:
      return ClaimKind::garbage;
    case TimeShare::loading:
      return ClaimKind::loading;
    default:
      return ClaimKind::other;
  }
}

TimeShare share_of(ClaimKind kind) {
  switch (kind) {
    case ClaimKind::product:
      return TimeShare::product;
    case ClaimKind::attention:
      return TimeShare::attention;
    case ClaimKind::optimizer:
    case ClaimKind::action_optimizer:
      return TimeShare::optimizer;
    case ClaimKind::other:
    case ClaimKind::action:
      return TimeShare::other;
    case ClaimKind::tensor:
      return TimeShare::tensor;
    case ClaimKind::pipeline:
      return TimeShare::pipeline;
    case ClaimKind::data:
      return TimeShare::data;
    case ClaimKind::bubble:
    case ClaimKind::idle_pipeline:
      return TimeShare::bubble;
    case ClaimKind::unknown:
      return TimeShare::unknown;
    case ClaimKind::garbage:
    case ClaimKind::idle_garbage:
      return TimeShare::garbage;
    case ClaimKind::loading:
    case ClaimKind::idle_loading:
      return TimeShare::loading;
    default:
      return TimeShare::host;
  }
}

bool is_message(ClaimKind kind) {
  return kind >= ClaimKind::tensor && kind <= ClaimKind::bubble;
}

/// A collective's slice with what the trace says of it.
struct MessageSlice {
  std::int64_t begin = 0, end = 0;
  std::string_view name;
  std::string_view shapes;
  const TracedMessage* message = nullptr;
};

class RankWalk {
 public:
  RankWalk(const ProfileTrace& trace, const StepWindow& step, const GroupSizes& sizes)
      : trace_(trace), sizes_(sizes), stacks_(host_stacks(trace, step)) {
    made_.origin = trace.origin;
    made_.rank = trace.rank;
    made_.step = step;
    made_.has_device = trace.has_device();
  }

  RankBreakdown walk() {
    for (const TracedSlice& slice : trace_.slices) {
      if (on_device(slice.kind)) add_device(slice);
    }
    if (trace_.own_end > 0)
      add_actions();
    else if (made_.has_device)
      add_idle_host();
    else
      add_working_host();
    add_messages();
    sweep();
    made_.operators = times_.longest(kMostOperators);
    take_gaps();
    return std::move(made_);
  }

 private:
  const TracedMessage* message_at(std::uint32_t index) const {
    const std::int32_t place = index == kNoSlice ? -1 : trace_.slices[index].message;
    return place < 0 ? nullptr : &trace_.messages[static_cast<std::size_t>(place)];
  }

  bool in_step(std::int64_t begin, std::int64_t end) const {
    return end > made_.step.begin && begin < made_.step.end;
  }

  double seconds_in_step(std::int64_t begin, std::int64_t end) const {
    return seconds_of(
        std::max<std::int64_t>(0, std::min(end, made_.step.end) - std::max(begin, made_.step.begin)));
  }

  void add_device(const TracedSlice& slice) {
    const std::string_view name = trace_.name(slice);
    const auto launch = stacks_.launches.find(slice.correlation);
    const HostWork work = launch != stacks_.launches.end() ? launch->second : HostWork{};
    if (slice.kind == SliceKind::kernel && is_communication(name)) {
      const TracedMessage* message = slice.message >= 0
                                         ? &trace_.messages[static_cast<std::size_t>(slice.message)]
                                         : message_at(work.message);
      // SendRecv is a kernel of transfers and of all-to-alls: the launching call has the better name.
      const std::string_view called = work.op == kNoSlice ? name : trace_.name(trace_.slices[work.op]);
      messages_.push_back({slice.begin, slice.end, is_communication(called) ? called : name, "", message});
      return;
    }
    if (!in_step(slice.begin, slice.end)) return;
    const bool across =
        slice.kind == SliceKind::copy && (name.find("HtoD") != name.npos || name.find("DtoH") != name.npos ||
                                          name.find("Host") != name.npos || name.find("dma") != name.npos);
    TimeShare share = across ? TimeShare::host : TimeShare::other;
    if (slice.kind == SliceKind::kernel) share = share_of_kernel(name, work.share);
    claims_.push_back({slice.begin, slice.end, across ? ClaimKind::copy : claim_of(share)});
    const double seconds = seconds_in_step(slice.begin, slice.end);
    const bool by_operator = work.op != kNoSlice && share != TimeShare::other && !across;
    if (!by_operator) {
      times_.add(printable(short_kernel_name(name), 100), "", share, seconds);
      return;
    }
    const TracedSlice& op = trace_.slices[work.op];
    const std::string_view shapes = trace_.text(op.shapes);
    times_.add(printable(trace_.name(op), 100), printable(shapes, 200), share, seconds,
               share == TimeShare::product ? product_flops(trace_.name(op), shapes) : 0);
  }

  /// Host states, which count while the device has nothing to do.
  void add_idle_host() {
    if (stacks_.pieces.empty()) return;
    claims_.push_back({made_.step.begin, made_.step.end, ClaimKind::idle_outside});
    for (const HostPiece& piece : stacks_.pieces) {
      if (piece.work.share == TimeShare::garbage) {
        claims_.push_back({piece.begin, piece.end, ClaimKind::idle_garbage});
      } else if (piece.work.share == TimeShare::loading) {
        claims_.push_back({piece.begin, piece.end, ClaimKind::idle_loading});
      } else if (piece.work.synchronises) {
        claims_.push_back({piece.begin, piece.end, ClaimKind::idle_synchronised});
      } else if (piece.work.op != kNoSlice) {
        claims_.push_back({piece.begin, piece.end, ClaimKind::idle_in_operator});
        ends_.emplace_back(piece.end, piece.work.op);
      }
    }
    for (const TracedSlice& slice : trace_.slices) {
      const bool synchronises = slice.kind == SliceKind::runtime && is_synchronisation(trace_.name(slice)) &&
                                in_step(slice.begin, slice.end);
      if (synchronises) ++made_.synchronisations;
    }
  }

  /// Actions of an own trace: operators of one action are not parted. Names of tracks: core/trace.
  void add_actions() {
    claims_.push_back({made_.step.begin, made_.step.end, ClaimKind::idle_pipeline});
    for (const TracedSlice& slice : trace_.slices) {
      const std::string_view category = trace_.text(slice.category);
      const std::string_view track = trace_.lane(slice).title;
      const bool data = track.find("data") != track.npos || track.find("model group") != track.npos;
      if (slice.kind == SliceKind::waiting) {
        claims_.push_back({slice.begin, slice.end, data ? ClaimKind::data : ClaimKind::tensor});
      } else if (category == "OPT") {
        claims_.push_back({slice.begin, slice.end, ClaimKind::action_optimizer});
      } else if (!category.starts_with("SEND") && !category.starts_with("RECV") && category != "collective" &&
                 category != "copy") {
        claims_.push_back({slice.begin, slice.end, ClaimKind::action});
        times_.add(printable(category, 40), "", TimeShare::other, seconds_in_step(slice.begin, slice.end));
      }
    }
  }

  /// Threads of a host that computes itself.
  void add_working_host() {
    claims_.push_back({made_.step.begin, made_.step.end, ClaimKind::idle_outside});
    for (const HostPiece& piece : stacks_.pieces) {
      if (piece.work.communicates || !piece.work.share) continue;
      claims_.push_back({piece.begin, piece.end, claim_of(*piece.work.share)});
      if (piece.work.op == kNoSlice) continue;
      ends_.emplace_back(piece.end, piece.work.op);
      const TracedSlice& op = trace_.slices[piece.work.op];
      // A call has several pieces where it calls others; it counts with the first one.
      const bool first = piece.begin == std::max(op.begin, made_.step.begin);
      times_.add(printable(trace_.name(op), 100), printable(trace_.text(op.shapes), 200), *piece.work.share,
                 seconds_of(piece.end - piece.begin),
                 first ? product_flops(trace_.name(op), trace_.text(op.shapes)) : 0, 0, 0, first ? 1 : 0);
    }
    // Backends record the transfer itself; the operator that starts it is on the calling thread.
    const bool transfers = std::any_of(trace_.slices.begin(), trace_.slices.end(), [&](const TracedSlice& a) {
      return trace_.name(a).starts_with("gloo:");
    });
    const TracedMessage* last = nullptr;
    for (const TracedSlice& slice : trace_.slices) {
      const std::string_view name = trace_.name(slice);
      if (slice.message >= 0) last = &trace_.messages[static_cast<std::size_t>(slice.message)];
      const bool taken = transfers ? name.starts_with("gloo:") : name.starts_with("c10d::");
      if (taken)
        messages_.push_back(
            {slice.begin, slice.end, name, trace_.text(slice.shapes), transfers ? last : nullptr});
      if (!taken && is_communication(name))
        claims_.push_back({slice.begin, slice.end, claim_of(share_of_message(trace_, name, last, sizes_))});
    }
  }

  std::string key_of(const MessageSlice& slice) const {
    const TracedMessage* message = slice.message;
    if (message == nullptr) return fmt::format("{} {}", slice.name, slice.shapes);
    return fmt::format("{} {} {} {} {}", trace_.text(message->collective), trace_.text(message->group),
                       trace_.text(message->ranks), message->elements_in, message->elements_out);
  }

  void add_messages() {
    // A transfer takes the shortest time seen of its kind and size; a longer one waits for its peer.
    std::map<std::string, std::int64_t> shortest;
    for (const MessageSlice& slice : messages_) {
      const auto [place, added] = shortest.emplace(key_of(slice), slice.end - slice.begin);
      if (!added) place->second = std::min(place->second, slice.end - slice.begin);
    }
    for (const MessageSlice& slice : messages_) {
      const TimeShare share = share_of_message(trace_, slice.name, slice.message, sizes_);
      const std::string key = key_of(slice);
      const std::string_view kind =
          slice.message != nullptr ? trace_.text(slice.message->collective) : slice.name;
      std::int64_t waits_until = slice.begin;
      if (share == TimeShare::pipeline) {
        waits_until = slice.end - shortest.at(key);
        claims_.push_back({slice.begin, waits_until, ClaimKind::bubble});
      }
      claims_.push_back({waits_until, slice.end, claim_of(share)});
      made_.collectives.push_back({key, slice.begin, slice.end, share});
      if (!in_step(slice.begin, slice.end)) continue;
      const TracedMessage* message = slice.message;
      const double bytes = message == nullptr
                               ? 0
                               : static_cast<double>(std::max(message->elements_in, message->elements_out)) *
                                     bytes_of_dtype(trace_.text(message->dtype));
      const int members =
          message == nullptr ? 0 : static_cast<int>(std::min<std::int64_t>(message->group_size, 1 << 24));
      times_.add(printable(message == nullptr ? short_kernel_name(kind) : std::string(kind), 100),
                 message == nullptr ? printable(slice.shapes, 100) : fmt::format("{:.0f} bytes", bytes),
                 share, seconds_in_step(slice.begin, slice.end), 0, bytes, members);
    }
  }

  void sweep() {
    std::sort(ends_.begin(), ends_.end());
    sweep_claims(claims_, made_.step, [&](std::int64_t begin, std::int64_t end, const ClaimCounts& counts) {
      const double seconds = seconds_of(end - begin);
      const auto* const strongest =
          std::find_if(counts.begin(), counts.end(), [](std::int32_t count) { return count > 0; });
      bool communicates = false;
      for (std::size_t i = 0; i < counts.size(); ++i)
        communicates |= counts[i] > 0 && is_message(static_cast<ClaimKind>(i));
      if (communicates) made_.communication_s += seconds;
      if (strongest == counts.end()) {
        made_.time[TimeShare::unknown] += seconds;
        return;
      }
      const auto kind = static_cast<ClaimKind>(strongest - counts.begin());
      made_.time[share_of(kind)] += seconds;
      if (is_message(kind)) {
        if (!made_.exposed.empty() && made_.exposed.back().end == begin)
          made_.exposed.back().end = end;
        else
          made_.exposed.push_back({begin, end});
      } else if (communicates) {
        made_.hidden_communication_s += seconds;
      }
      if (kind == ClaimKind::idle_synchronised) made_.synchronisation_s += seconds;
      if (kind == ClaimKind::idle_in_operator) made_.launching_s += seconds;
      if (kind == ClaimKind::idle_outside) add_gap(begin, end);
    });
  }

  void add_gap(std::int64_t begin, std::int64_t end) {
    made_.outside_operators_s += seconds_of(end - begin);
    const auto after = std::upper_bound(ends_.begin(), ends_.end(), std::pair(begin, kNoSlice));
    const std::string name = after == ends_.begin()
                                 ? "the begin of the step"
                                 : printable(trace_.name(trace_.slices[std::prev(after)->second]), 100);
    HostGap& gap = gaps_[name];
    gap.after = name;
    ++gap.count;
    gap.seconds += seconds_of(end - begin);
  }

  void take_gaps() {
    for (auto& [name, gap] : gaps_) made_.gaps.push_back(std::move(gap));
    std::stable_sort(made_.gaps.begin(), made_.gaps.end(),
                     [](const HostGap& a, const HostGap& b) { return a.seconds > b.seconds; });
    if (made_.gaps.size() > kMostGaps) made_.gaps.resize(kMostGaps);
  }

  const ProfileTrace& trace_;
  const GroupSizes& sizes_;
  HostStacks stacks_;
  RankBreakdown made_;
  TracedOperators times_;
  std::vector<TimeClaim> claims_;
  std::vector<MessageSlice> messages_;
  std::vector<std::pair<std::int64_t, std::uint32_t>> ends_;  // of operators, with their slices
  std::map<std::string, HostGap> gaps_;
};

}  // namespace

RankBreakdown break_down(const ProfileTrace& trace, const StepWindow& step, const GroupSizes& sizes) {
  return RankWalk(trace, step, sizes).walk();
}

}  // namespace plumbline
