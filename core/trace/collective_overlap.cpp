#include "core/trace/collective_overlap.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace plumbline {
namespace {

struct Span {
  double from = 0;
  double to = 0;
};
/// In order, none touching another.
using Spans = std::vector<Span>;

double common(const Span& a, const Span& b) {
  return std::max(0.0, std::min(a.to, b.to) - std::max(a.from, b.from));
}

double common(const Span& span, const Spans& spans) {
  double sum = 0;
  auto each = std::lower_bound(spans.begin(), spans.end(), span.from,
                               [](const Span& s, double moment) { return s.to <= moment; });
  for (; each != spans.end() && each->from < span.to; ++each) sum += common(span, *each);
  return sum;
}

Spans merged(Spans spans) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.from < b.from; });
  Spans result;
  for (const Span& span : spans) {
    if (span.to <= span.from) continue;
    if (!result.empty() && span.from <= result.back().to) {
      result.back().to = std::max(result.back().to, span.to);
    } else {
      result.push_back(span);
    }
  }
  return result;
}

Spans without(const Spans& spans, const Spans& holes) {
  Spans result;
  auto hole = holes.begin();
  for (Span span : spans) {
    while (hole != holes.end() && hole->to <= span.from) ++hole;
    for (auto next = hole; next != holes.end() && next->from < span.to; ++next) {
      if (next->from > span.from) result.push_back({span.from, next->from});
      span.from = next->to;
    }
    if (span.from < span.to) result.push_back(span);
  }
  return result;
}

Span waiting(const CollectiveEvent& event) {
  return {event.waited_from.value, (event.waited_from + event.waited).value};
}

/// When a rank computes.
Spans computing(const std::vector<Event>& events, const std::vector<CollectiveEvent>& collectives) {
  Spans compute;
  for (const Event& event : events) {
    if (is_compute(event.action.type)) compute.push_back({event.start.value, event.end.value});
  }
  Spans waits;
  for (const CollectiveEvent& event : collectives) waits.push_back(waiting(event));
  return without(merged(std::move(compute)), merged(std::move(waits)));
}

using Key = std::pair<VocabularyCall, std::uint32_t>;

}  // namespace

SteadyState steady_state(const Trace& trace) {
  if (trace.ranks.empty()) return {};
  constexpr double kNever = std::numeric_limits<double>::infinity();
  SteadyState steady{{0}, {kNever}};
  for (const auto& events : trace.ranks) {
    double first_backward = kNever;
    double last_forward = 0;
    for (const Event& event : events) {
      const ActionType type = event.action.type;
      if (type == ActionType::backward || type == ActionType::backward_input)
        first_backward = std::min(first_backward, event.start.value);
      if (type == ActionType::forward) last_forward = std::max(last_forward, event.end.value);
    }
    steady.start = std::max(steady.start, Seconds{first_backward});
    steady.end = std::min(steady.end, Seconds{last_forward});
  }
  return steady;
}

VocabularyOverlap vocabulary_overlap(const Trace& trace) {
  VocabularyOverlap overlap{};
  if (trace.collectives.empty()) return overlap;
  std::map<Key, double> all_there;
  for (const auto& events : trace.collectives) {
    for (const CollectiveEvent& event : events) {
      double& moment = all_there.try_emplace({event.call, event.microbatch}, 0).first->second;
      moment = std::max(moment, event.start.value);
    }
  }
  const SteadyState steady = steady_state(trace);
  const Span window{steady.start.value, steady.end.value};
  const double share = 1 / static_cast<double>(trace.collectives.size());
  VocabularySeconds in_window{};
  VocabularySeconds overlapped_time{};
  for (std::size_t rank = 0; rank < trace.collectives.size(); ++rank) {
    const std::vector<CollectiveEvent>& events = trace.collectives[rank];
    const Spans busy = rank < trace.ranks.size() ? computing(trace.ranks[rank], events) : Spans{};
    std::map<std::uint32_t, Span> gradient_waits;
    for (const CollectiveEvent& event : events) {
      if (event.call == VocabularyCall::hidden_gradient) gradient_waits[event.microbatch] = waiting(event);
    }
    std::array<double, kVocabularyCalls> done{};  // the last of its kind
    for (const CollectiveEvent& event : events) {
      const auto call = static_cast<std::size_t>(event.call);
      const double begun = std::max(all_there[{event.call, event.microbatch}], done[call]);
      done[call] = std::max(done[call], event.end.value);
      Span running{begun, event.end.value};
      running.to = std::max(running.from, running.to);
      CollectiveOverlap& sum = overlap[call];
      sum.time.value += (running.to - running.from) * share;
      sum.waited += event.waited * share;
      double exposed = common(running, waiting(event));
      if (event.call == VocabularyCall::statistics && gradient_waits.contains(event.microbatch))
        exposed += common(running, gradient_waits[event.microbatch]);
      sum.exposed.value += std::min(exposed, running.to - running.from) * share;
      const Span steadily{std::max(running.from, window.from), std::min(running.to, window.to)};
      if (steadily.to <= steadily.from) continue;
      in_window[call].value += steadily.to - steadily.from;
      overlapped_time[call].value += common(steadily, busy);
    }
  }
  for (std::size_t call = 0; call < kVocabularyCalls; ++call) {
    if (in_window[call].value > 0) overlap[call].overlapped = overlapped_time[call] / in_window[call];
  }
  return overlap;
}

Seconds total_of(const VocabularyOverlap& overlap, Seconds CollectiveOverlap::*member) {
  Seconds sum;
  for (const CollectiveOverlap& each : overlap) sum += each.*member;
  return sum;
}

}  // namespace plumbline
