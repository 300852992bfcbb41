#include "analysis/search/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "analysis/search/search_space.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "core/base/error.hpp"
#include "core/base/run_parallel.hpp"

namespace plumbline {
namespace {

/// A candidate before its time is known.
struct Point {
  SearchKeys keys;
  Evaluator::Bounds bounds;
};

/// Runs `work(worker, i)` for i in [0, count) on some threads; an exception ends all.
void in_parallel(int threads, int count, const std::function<void(std::size_t, int)>& work) {
  std::atomic<int> next{0};
  run_parallel(static_cast<std::size_t>(threads), [&](std::size_t worker) {
    try {
      for (int i = next++; i < count; i = next++) work(worker, i);
    } catch (...) {
      next = count;
      throw;
    }
  });
}

/// A candidate with its prediction and its place in the order of the search.
struct Found {
  Candidate candidate;
  std::size_t order = 0;
};

bool faster(const Found& a, const Found& b) {
  if (a.candidate.time.step != b.candidate.time.step) return a.candidate.time.step < b.candidate.time.step;
  if (a.candidate.peak != b.candidate.peak) return a.candidate.peak < b.candidate.peak;
  return a.order < b.order;
}

/// Candidates that no other beats in both time and memory: ascending memory, descending time.
class Front {
 public:
  void offer(const Found& found) {
    const Candidate& c = found.candidate;
    auto at = std::lower_bound(list_.begin(), list_.end(), c.peak,
                               [](const Found& a, Bytes peak) { return a.candidate.peak < peak; });
    if (at != list_.begin() && std::prev(at)->candidate.time.step <= c.time.step) return;
    if (at != list_.end() && at->candidate.peak == c.peak) {
      if (at->candidate.time.step < c.time.step) return;
      if (at->candidate.time.step == c.time.step && at->order < found.order) return;
    }
    auto end = at;
    while (end != list_.end() && end->candidate.time.step >= c.time.step) ++end;
    at = list_.erase(at, end);
    list_.insert(at, found);
  }
  /// True if a candidate of at most this peak is faster than `at_least`, so that the exact time does not
  /// matter.
  bool beats(Bytes peak, Seconds at_least) const {
    auto at = std::upper_bound(list_.begin(), list_.end(), peak,
                               [](Bytes bytes, const Found& a) { return bytes < a.candidate.peak; });
    return at != list_.begin() && std::prev(at)->candidate.time.step < at_least;
  }
  const std::vector<Found>& list() const { return list_; }

 private:
  std::vector<Found> list_;
};

/// Predicts candidates in the order of their bounds until none can be among the best or on the front.
class Selection {
 public:
  Selection(const SearchRequest& request, Evaluator& evaluator)
      : limit_(static_cast<std::size_t>(request.top)), evaluator_(evaluator) {}

  void consider(const Point& point, std::size_t order) {
    const Evaluator::Bounds& b = point.bounds;
    const bool full = best_.size() == limit_;
    const bool for_best = b.fits && (!full || b.at_least <= best_.back().candidate.time.step);
    if (!for_best && front_.beats(b.peak, b.at_least)) return;
    ++simulated;
    const Found found{evaluator_.predicted(point.keys), order};
    front_.offer(found);
    if (!b.fits || (full && !faster(found, best_.back()))) return;
    best_.insert(std::upper_bound(best_.begin(), best_.end(), found, faster), found);
    if (best_.size() > limit_) best_.pop_back();
  }
  bool has_fitting() const { return !best_.empty(); }
  void finish(SearchResult& result) const {
    for (const Found& found : best_) result.best.push_back(found.candidate);
    for (const Found& found : front_.list()) result.front.push_back(found.candidate);
    result.simulated = simulated;
  }

 private:
  std::size_t limit_;
  Evaluator& evaluator_;
  std::vector<Found> best_;
  Front front_;
  std::uint64_t simulated = 0;
};

[[noreturn]] void refuse_sizes(const RunConfig& config) {
  throw InputError(
      fmt::format("search: no layout of {} accelerators fits global_batch_size {}, {} heads and {} layers; "
                  "expected a number of accelerators that is a product of a divisor of the heads, at most {} "
                  "stages and a divisor of the batch; change --gpus or --gbs",
                  config.parallel.world_size, config.batch.global_batch_size, config.model.heads,
                  config.model.layers, config.model.layers));
}

}  // namespace

SearchResult search(const SearchRequest& request, const HardwareProfile& hardware, const StepFor& make,
                    const std::function<void(int, int)>& progress) {
  const std::vector<SearchRegion> regions = search_regions(request.config, request.limits);
  if (regions.empty()) refuse_sizes(request.config);
  SearchSchedules schedules(make);
  const int threads = std::max(1, request.threads);
  std::vector<Evaluator> evaluators;
  evaluators.reserve(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i) evaluators.emplace_back(request.config, hardware, schedules);
  // Fused attention recomputes the scores itself: nothing is selected unless the request names other modules.
  const Software& software = software_of(request.config);
  const bool named = request.config.numerics.attention_backend == AttentionBackend::unfused ||
                     request.config.recompute.modules != kCoreAttention;
  const bool selective = !software.kernels.flash_attention || software.recomputation.selective_operators ||
                         (named && traits_of(software).selects_modules);
  std::vector<std::vector<Point>> points(regions.size());
  std::vector<std::string> refused(regions.size());
  const int all = static_cast<int>(regions.size());
  std::atomic<int> done{0};
  std::atomic<bool> stopped{false};
  const auto look = [&] {
    if (!stopped && request.stopped && request.stopped()) stopped = true;
  };
  in_parallel(threads, all, [&](std::size_t worker, int i) {
    if (stopped) return;
    const auto region = static_cast<std::size_t>(i);
    evaluators[worker].begin_region();
    refused[region] = visit_region(request.config, regions[region], selective, [&](const SearchKeys& keys) {
      if (worker == 0) look();
      if (stopped || (request.wanted && !request.wanted(keys))) return;
      if (const auto bounds = evaluators[worker].bounds(keys)) {
        points[region].push_back({keys, *bounds});
      }
    });
    ++done;
    if (worker == 0 && progress) progress(done, all);
  });

  SearchResult result;
  std::vector<Point> order;
  for (std::vector<Point>& part : points) {
    order.insert(order.end(), part.begin(), part.end());
    part = {};
  }
  for (const std::string& reason : refused) {
    if (result.refused.empty()) result.refused = reason;
  }
  if (result.refused.empty()) result.refused = schedules.refused();
  result.configurations = order.size();
  result.fitting = static_cast<std::uint64_t>(
      std::count_if(order.begin(), order.end(), [](const Point& p) { return p.bounds.fits; }));
  std::vector<std::size_t> by_bound(order.size());
  for (std::size_t i = 0; i < by_bound.size(); ++i) by_bound[i] = i;
  std::sort(by_bound.begin(), by_bound.end(), [&](std::size_t a, std::size_t b) {
    const Evaluator::Bounds& x = order[a].bounds;
    const Evaluator::Bounds& y = order[b].bounds;
    if (x.at_least != y.at_least) return x.at_least < y.at_least;
    if (x.peak != y.peak) return x.peak < y.peak;
    return a < b;
  });
  Selection selection(request, evaluators.front());
  for (const std::size_t i : by_bound) {
    look();
    if (stopped && selection.has_fitting()) break;
    if (!stopped || order[i].bounds.fits) selection.consider(order[i], i);
  }
  result.complete = !stopped;
  selection.finish(result);
  return result;
}

}  // namespace plumbline
