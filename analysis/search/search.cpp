#include "analysis/search/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <queue>
#include <tuple>

#include "analysis/search/search_space.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "core/base/error.hpp"
#include "core/base/run_parallel.hpp"

namespace plumbline {
namespace {

/// A family before any of its candidates is looked at.
struct OpenFamily {
  SearchFamily family;
  Evaluator::FamilyBounds bounds;
  Seconds at_least;
  Bytes peak;
  std::size_t order = 0;  // place of the first candidate in the order of the search
  int region = 0;
};

/// A candidate before its time is known.
struct Point {
  SearchKeys keys;
  Seconds at_least;
  Bytes peak;
  std::size_t order = 0;
  int region = 0;
};

/// Smaller bounds first.
template <class Bounded>
bool before(const Bounded& a, const Bounded& b) {
  return std::tie(a.at_least, a.peak, a.order) < std::tie(b.at_least, b.peak, b.order);
}

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

/// The best and the front of the candidates predicted so far.
class Selection {
 public:
  /// `limit`: no candidate whose tensors exceed it fits; 0: unknown.
  Selection(int best, Bytes limit) : most_(static_cast<std::size_t>(best)), limit_(limit) {}

  /// True if something with these lower bounds can still be among the best or on the front.
  bool open(Bytes peak, Seconds at_least, bool may_fit) const {
    const bool for_best = may_fit && (limit_.value == 0 || peak <= limit_) &&
                          (best_.size() < most_ || at_least <= best_.back().candidate.time.step);
    return for_best || !front_.beats(peak, at_least);
  }
  void add(const Found& found, bool fits) {
    front_.offer(found);
    if (!fits || (best_.size() == most_ && !faster(found, best_.back()))) return;
    best_.insert(std::upper_bound(best_.begin(), best_.end(), found, faster), found);
    if (best_.size() > most_) best_.pop_back();
  }
  bool has_fitting() const { return !best_.empty(); }
  void finish(SearchResult& result) const {
    for (const Found& found : best_) result.best.push_back(found.candidate);
    for (const Found& found : front_.list()) result.front.push_back(found.candidate);
  }

 private:
  std::size_t most_;
  Bytes limit_;
  std::vector<Found> best_;
  Front front_;
};

/// A region's families.
struct Explored {
  std::vector<OpenFamily> families;
  std::size_t candidates = 0;
  std::size_t places = 0;  // of candidates that are not wanted, too
  std::string refused;
};

std::size_t wanted_in(const SearchRequest& request, const SearchFamily& family) {
  if (!request.wanted) return family.size();
  std::size_t count = 0;
  for_each_candidate(family, [&](const SearchKeys& keys) { count += request.wanted(keys) ? 1 : 0; });
  return count;
}

[[noreturn]] void refuse_sizes(const RunConfig& config) {
  throw InputError(
      fmt::format("search: no layout of {} accelerators fits global_batch_size {}, {} heads and {} layers; "
                  "expected a number of accelerators that is a product of a divisor of the heads, at most {} "
                  "stages and a divisor of the batch; change --gpus or --gbs",
                  config.parallel.world_size, config.batch.global_batch_size, config.model.heads,
                  config.model.layers, config.model.layers));
}

/// Fused attention recomputes the scores itself: nothing is selected unless the request names other modules.
bool selection_differs(const RunConfig& config) {
  const Software& software = software_of(config);
  const bool named = config.numerics.attention_backend == AttentionBackend::unfused ||
                     config.recompute.modules != kCoreAttention;
  return !software.kernels.flash_attention || software.recomputation.selective_operators ||
         (named && traits_of(software).selects_modules);
}

/// One search, on some threads until all families are known.
class Search {
 public:
  Search(const SearchRequest& request, const HardwareProfile& hardware, const StepFor& make)
      : request_(request),
        schedules_(make),
        selection_(request.top, bound_of_tensors(request.config, hardware)) {
    const int threads = std::max(1, request.threads);
    evaluators_.reserve(static_cast<std::size_t>(threads));
    for (int i = 0; i < threads; ++i) evaluators_.emplace_back(request.config, hardware, schedules_);
  }

  SearchResult run(const std::function<void(int, int)>& progress) {
    SearchResult result;
    const std::vector<OpenFamily> families = gather(explore(progress), result);
    for (std::size_t next = 0; next < families.size() || !points_.empty();) {
      look();
      if (stopped_ && selection_.has_fitting()) break;
      if (next < families.size() && (points_.empty() || families[next].at_least <= points_.top().at_least)) {
        open(families[next++]);
      } else {
        const Point point = points_.top();
        points_.pop();
        result.simulated += predict(point) ? 1 : 0;
      }
    }
    result.complete = !stopped_;
    selection_.finish(result);
    for (std::vector<Candidate>* list : {&result.best, &result.front}) complete(*list);
    return result;
  }

 private:
  void look() {
    if (!stopped_ && request_.stopped && request_.stopped()) stopped_ = true;
  }

  /// Families of every region, in the order of the search.
  std::vector<Explored> explore(const std::function<void(int, int)>& progress) {
    const std::vector<SearchRegion> regions = search_regions(request_.config, request_.limits);
    if (regions.empty()) refuse_sizes(request_.config);
    const bool selective = selection_differs(request_.config);
    const int all = static_cast<int>(regions.size());
    std::vector<Explored> explored(regions.size());
    std::atomic<int> done{0};
    in_parallel(static_cast<int>(evaluators_.size()), all, [&](std::size_t worker, int i) {
      if (stopped_) return;
      const auto region = static_cast<std::size_t>(i);
      Explored& found = explored[region];
      evaluators_[worker].begin_region();
      found.refused =
          visit_region(request_.config, regions[region], selective, [&](const SearchFamily& family) {
            if (worker == 0) look();
            if (!stopped_) add(family, i, evaluators_[worker], found);
          });
      ++done;
      if (worker == 0 && progress) progress(done, all);
    });
    return explored;
  }

  void add(const SearchFamily& family, int region, Evaluator& evaluator, Explored& found) const {
    const std::size_t wanted = wanted_in(request_, family);
    if (wanted == 0) return;
    auto bounds = evaluator.bounds(family);
    if (!bounds) return;
    const Seconds at_least = bounds->at_least();
    const Bytes peak = bounds->peak();
    found.families.push_back({family, std::move(*bounds), at_least, peak, found.places, region});
    found.places += family.size();
    found.candidates += wanted;
  }

  /// The families of all regions, smallest bounds first.
  std::vector<OpenFamily> gather(std::vector<Explored> explored, SearchResult& result) const {
    std::vector<OpenFamily> families;
    std::size_t places = 0;
    for (Explored& part : explored) {
      for (OpenFamily& family : part.families) {
        family.order += places;
        families.push_back(std::move(family));
      }
      places += part.places;
      result.configurations += part.candidates;
      if (result.refused.empty()) result.refused = part.refused;
      part.families = {};
    }
    if (result.refused.empty()) result.refused = schedules_.refused();
    std::sort(families.begin(), families.end(), before<OpenFamily>);
    return families;
  }

  Evaluator& evaluator_for(int region) {
    if (region != region_) evaluators_.front().begin_region();
    region_ = region;
    return evaluators_.front();
  }

  /// Looks at a family's candidates, unless none can be among the best or on the front.
  void open(const OpenFamily& of) {
    if (!selection_.open(of.peak, of.at_least, true)) return;
    const auto may_matter = [&](const SearchKeys& keys, Bytes peak, Seconds at_least) {
      return (!request_.wanted || request_.wanted(keys)) && selection_.open(peak, at_least, true);
    };
    evaluator_for(of.region).visit_open(
        of.family, of.bounds, may_matter,
        [&](std::size_t place, const SearchKeys& keys, Bytes peak, Seconds at_least) {
          points_.push({keys, at_least, peak, of.order + place, of.region});
        });
  }

  /// Predicts a candidate, unless it cannot matter; true if it did.
  bool predict(const Point& point) {
    if (!selection_.open(point.peak, point.at_least, true)) return false;
    Evaluator& evaluator = evaluator_for(point.region);
    const auto bounds = evaluator.bounds(point.keys);
    if (!bounds || (stopped_ && !bounds->fits) ||
        !selection_.open(bounds->peak, bounds->at_least, bounds->fits) ||
        !selection_.open(bounds->peak, evaluator.longest_chain(), bounds->fits))
      return false;
    selection_.add({evaluator.predicted(point.keys, false), point.order}, bounds->fits);
    return true;
  }

  /// Adds what was left out of predictions.
  void complete(std::vector<Candidate>& list) {
    for (Candidate& each : list)
      if (each.keys.vocabulary != VocabPasses::none) each = evaluators_.front().predicted(each.keys);
  }

  struct Later {
    bool operator()(const Point& a, const Point& b) const { return before(b, a); }
  };
  const SearchRequest& request_;
  SearchSchedules schedules_;
  std::vector<Evaluator> evaluators_;
  Selection selection_;
  std::priority_queue<Point, std::vector<Point>, Later> points_;
  int region_ = -1;  // of the first evaluator
  std::atomic<bool> stopped_{false};
};

}  // namespace

SearchResult search(const SearchRequest& request, const HardwareProfile& hardware, const StepFor& make,
                    const std::function<void(int, int)>& progress) {
  return Search(request, hardware, make).run(progress);
}

}  // namespace plumbline
