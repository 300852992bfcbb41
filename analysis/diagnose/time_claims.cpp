#include "analysis/diagnose/time_claims.hpp"

#include <algorithm>

namespace plumbline {
namespace {

struct ClaimEdge {
  std::int64_t time;
  std::int32_t change;
  ClaimKind kind;
};

}  // namespace

void sweep_claims(
    const std::vector<TimeClaim>& claims, const StepWindow& window,
    const std::function<void(std::int64_t begin, std::int64_t end, const ClaimCounts& counts)>& take) {
  std::vector<ClaimEdge> edges;
  edges.reserve(2 * claims.size());
  for (const TimeClaim& claim : claims) {
    const std::int64_t begin = std::max(claim.begin, window.begin);
    const std::int64_t end = std::min(claim.end, window.end);
    if (begin >= end) continue;
    edges.push_back({begin, 1, claim.kind});
    edges.push_back({end, -1, claim.kind});
  }
  std::sort(edges.begin(), edges.end(),
            [](const ClaimEdge& a, const ClaimEdge& b) { return a.time < b.time; });
  ClaimCounts counts{};
  std::int64_t at = window.begin;
  for (const ClaimEdge& edge : edges) {
    if (edge.time > at) {
      take(at, edge.time, counts);
      at = edge.time;
    }
    counts[static_cast<std::size_t>(edge.kind)] += edge.change;
  }
  if (at < window.end) take(at, window.end, counts);
}

}  // namespace plumbline
