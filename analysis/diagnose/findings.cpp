#include "analysis/diagnose/findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/base/statistics.hpp"

namespace plumbline {
namespace {

constexpr TimeShare kOperators[] = {TimeShare::product, TimeShare::attention, TimeShare::other,
                                    TimeShare::optimizer};

double operators_of(const SharedTime& time) {
  double sum = 0;
  for (const TimeShare share : kOperators) sum += time[share];
  return sum;
}

/// Median over all ranks but one.
template <class Value>
double usual_of(const std::vector<RankBreakdown>& ranks, std::size_t but, const Value& value) {
  std::vector<double> others;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (rank != but) others.push_back(value(ranks[rank]));
  }
  return median(others);
}

double seconds_of_operator(const RankBreakdown& rank, const std::string& name) {
  double sum = 0;
  for (const TracedOperator& each : rank.operators) {
    if (each.name == name && each.share != TimeShare::host) sum += each.seconds;
  }
  return sum;
}

bool copies(const TracedOperator& time) {
  return time.name == "aten::copy_" || time.name == "aten::clone" || time.name == "aten::contiguous" ||
         time.name == "aten::_to_copy" || time.name.starts_with("Memcpy DtoD");
}

struct Advice {
  TimeShare share;
  const char* cause;
  const char* change;
};
constexpr Advice kAdvice[] = {
    {TimeShare::loading, "the step waits for the data loader",
     "raise num_workers and prefetch_factor, pin memory"},
    {TimeShare::garbage, "Python's garbage collector runs within the step",
     "switch it off (gc.disable) and collect between steps"},
    {TimeShare::host, "waits for the host",
     "remove synchronisations and Python between operators; use CUDA graphs or torch.compile"},
    {TimeShare::tensor, "exposed TP/CP/EP communication", "tp_comm_overlap, a smaller group within a node"},
    {TimeShare::pipeline, "exposed PP communication", "overlap_p2p_comm, fewer virtual chunks"},
    {TimeShare::data, "exposed DP communication",
     "overlap_grad_reduce, overlap_param_gather, larger buckets, more micro-batches"},
    {TimeShare::bubble, "pipeline bubble", "more micro-batches, virtual chunks, an even split of layers"},
};
constexpr Advice kOperatorAdvice[] = {
    {TimeShare::product, "",
     "compare their rates with plumbline operator gemm; pad sizes to multiples of 128"},
    {TimeShare::attention, "",
     "a fused attention kernel for these sizes; compare with plumbline operator attention"},
    {TimeShare::other, "",
     "fuse elementwise operators (torch.compile, fused norms and losses), remove copies"},
    {TimeShare::optimizer, "", "a fused or foreach optimizer; the distributed optimizer (ZeRO 1)"},
};

const Advice* advice_of(TimeShare share) {
  const auto* const found = std::find_if(std::begin(kAdvice), std::end(kAdvice),
                                         [share](const Advice& each) { return each.share == share; });
  return found == std::end(kAdvice) ? nullptr : found;
}

/// Text of the rank's longest gap, of the one that is longest beyond the other ranks' where there are some.
std::string gap_text(const std::vector<RankBreakdown>& ranks, std::size_t place) {
  const RankBreakdown& rank = ranks[place];
  const HostGap* longest = nullptr;
  double most = 0;
  for (const HostGap& gap : rank.gaps) {
    const auto same = [&gap](const RankBreakdown& each) {
      const auto found = std::find_if(each.gaps.begin(), each.gaps.end(),
                                      [&gap](const HostGap& other) { return other.after == gap.after; });
      return found == each.gaps.end() ? 0.0 : found->seconds;
    };
    const double more = gap.seconds - (ranks.size() > 1 ? usual_of(ranks, place, same) : 0);
    if (more <= most) continue;
    most = more;
    longest = &gap;
  }
  return longest == nullptr ? "" : fmt::format(", {:.3g} s of it after {}", most, longest->after);
}

std::string host_text(const std::vector<RankBreakdown>& ranks, std::size_t place) {
  const RankBreakdown& rank = ranks[place];
  const double half = rank.time[TimeShare::host] / 2;
  if (rank.synchronisation_s > half)
    return fmt::format("the host waits for the device in {} synchronisations", rank.synchronisations);
  if (rank.launching_s > half) return "the device waits for the host to launch operators";
  return fmt::format("the host runs no operator{}", gap_text(ranks, place));
}

/// Operators that one rank executes for longer than the others, relative to all of its operators: an extra
/// copy, an operator that fell back to a slow kernel.
std::vector<StepFinding> longer_operators(const std::vector<RankBreakdown>& ranks, std::size_t late,
                                          double least) {
  const RankBreakdown& rank = ranks[late];
  const double all = operators_of(rank.time);
  const double usual_all =
      usual_of(ranks, late, [](const RankBreakdown& each) { return operators_of(each.time); });
  std::vector<StepFinding> found;
  std::set<std::string> seen;
  for (const TracedOperator& each : rank.operators) {
    const bool executed =
        std::find(std::begin(kOperators), std::end(kOperators), each.share) != std::end(kOperators);
    if (!executed || !seen.insert(each.name).second) continue;
    const double seconds = seconds_of_operator(rank, each.name);
    const double usual = usual_of(
        ranks, late, [&](const RankBreakdown& other) { return seconds_of_operator(other, each.name); });
    const double slower = std::max(1.0, (all - seconds) / std::max(1e-12, usual_all - usual));
    const double more = seconds - usual * slower;
    if (more < least || seconds < 2 * slower * usual) continue;
    found.push_back({each.share, rank.rank, more,
                     fmt::format("{} takes {:.3g} s more than on other ranks", each.name, more),
                     "compare what this rank executes with the others"});
  }
  return found;
}

/// Excess of one rank over the others, by cause.
std::vector<StepFinding> excesses_of(const std::vector<RankBreakdown>& ranks, std::size_t late,
                                     double least) {
  const RankBreakdown& rank = ranks[late];
  const auto excess = [&](TimeShare share) {
    return rank.time[share] -
           usual_of(ranks, late, [share](const RankBreakdown& each) { return each.time[share]; });
  };
  std::vector<StepFinding> found = longer_operators(ranks, late, least);
  const double usual =
      usual_of(ranks, late, [](const RankBreakdown& each) { return operators_of(each.time); });
  double rest = operators_of(rank.time) - usual;
  for (const StepFinding& each : found) rest -= each.seconds;
  if (rest >= least) {
    TimeShare share = TimeShare::product;
    for (const TimeShare each : kOperators) {
      if (excess(each) > excess(share)) share = each;
    }
    found.push_back({share, rank.rank, rest,
                     fmt::format("its operators take {:.2f} times those of other ranks",
                                 (usual + rest) / std::max(1e-12, usual)),
                     "check clocks, temperature and other processes of this device; replace it"});
  }
  for (const TimeShare share : {TimeShare::host, TimeShare::loading, TimeShare::garbage}) {
    if (excess(share) < least) continue;
    const Advice* advice = advice_of(share);
    found.push_back({share, rank.rank, excess(share),
                     share == TimeShare::host ? host_text(ranks, late) : advice->cause, advice->change});
  }
  return found;
}

}  // namespace

std::string_view advice_for(TimeShare share) {
  if (const Advice* advice = advice_of(share)) return advice->change;
  const auto* const found = std::find_if(std::begin(kOperatorAdvice), std::end(kOperatorAdvice),
                                         [share](const Advice& each) { return each.share == share; });
  return found == std::end(kOperatorAdvice) ? "" : found->change;
}

std::vector<StepFinding> findings_of(const std::vector<RankBreakdown>& ranks, const AlignedClocks& clocks,
                                     double step_s) {
  const double least = kLeastFinding * step_s;
  std::vector<StepFinding> findings;
  std::map<int, double> waits_for;              // the longest wait of any rank, by late rank
  std::vector<double> waited(ranks.size(), 0);  // by waiting rank
  for (const RankWait& wait : clocks.waits) {
    waits_for[wait.late] = std::max(waits_for[wait.late], wait.seconds);
    waited[static_cast<std::size_t>(wait.waiting)] += wait.seconds;
  }
  for (const auto& [late, seconds] : waits_for) {
    if (seconds < least) continue;
    for (StepFinding& found : excesses_of(ranks, static_cast<std::size_t>(late), least)) {
      found.cause = fmt::format("rank {}: {}; other ranks wait up to {:.3g} s for it", found.rank,
                                found.cause, seconds);
      findings.push_back(std::move(found));
    }
  }
  for (const Advice& advice : kAdvice) {
    const TimeShare share = advice.share;
    const bool message = share >= TimeShare::tensor && share <= TimeShare::data;
    double common = step_s;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      common = std::min(common, ranks[rank].time[share] - (message ? waited[rank] : 0));
    if (common < least) continue;
    findings.push_back(
        {share, -1, common,
         share == TimeShare::host ? fmt::format("{}: {}", advice.cause, host_text(ranks, 0)) : advice.cause,
         advice.change});
  }
  double copied = step_s;
  std::string copier;
  for (const RankBreakdown& rank : ranks) {
    double sum = 0;
    for (const TracedOperator& each : rank.operators) {
      if (!copies(each) || each.share != TimeShare::other) continue;
      if (copier.empty()) copier = each.name;
      sum += each.seconds;
    }
    copied = std::min(copied, sum);
  }
  if (copied >= least) {
    findings.push_back({TimeShare::other, -1, copied, fmt::format("copies ({})", copier),
                        "remove .clone(), .contiguous() and casts that nothing needs"});
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const StepFinding& a, const StepFinding& b) { return a.seconds > b.seconds; });
  return findings;
}

}  // namespace plumbline
