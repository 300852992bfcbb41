#include "analysis/search/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <numeric>
#include <optional>
#include <queue>
#include <tuple>

#include "analysis/predict/prediction_rows.hpp"
#include "analysis/search/search_space.hpp"
#include "analysis/step/software_of.hpp"
#include "core/base/error.hpp"
#include "core/base/run_parallel.hpp"

namespace plumbline {
namespace {

/// A family before any of its candidates is looked at.
struct OpenFamily {
  SearchFamily family;
  Seconds at_least;  // Evaluator::Floor
  Bytes peak;
  std::size_t order = 0;  // place of the first candidate in the order of the search
  int region = 0;
};

/// A family whose floor rules it in.
struct BoundedFamily {
  const OpenFamily* of = nullptr;
  Evaluator::FamilyBounds bounds;
  Seconds at_least;
  Bytes peak;
  std::size_t order = 0;
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
  /// Most bytes of the tensors of a candidate that fits; 0: unknown.
  Bytes limit() const { return limit_; }
  const Candidate& fastest() const { return best_.front().candidate; }
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
  return !software.kernels.flash_attention || software.recomputation.selective_operators || named;
}

/// Modules to recompute that the software does not know would have no effect.
void check_modules(RunConfig config) {
  if (config.recompute.modules == kCoreAttention || why_unsearched(config)) return;
  config.recompute.granularity = Recompute::selective;
  if (const auto refusal = why_unsearched(config))
    throw InputError(fmt::format("recompute_modules: found {}, which selective recomputation repeats; {}",
                                 to_string(config.recompute.modules), *refusal));
}

/// Time from the start after which a first candidate is looked for.
constexpr std::chrono::milliseconds kLookAhead{400};

/// A step through `count` things that visits all of them, far from one to the next.
int stride_over(int count) {
  int stride = std::max(1, static_cast<int>(0.618 * count));
  while (std::gcd(stride, count) != 1) ++stride;
  return stride;
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
    const auto regions = static_cast<std::size_t>(regions_);
    for (std::size_t next = 0; next < families.size() || !bounded_.empty() || !points_.empty();) {
      look(1);
      if (progress && regions_ > 0)
        progress(regions_ + static_cast<int>(regions * next / (families.size() + 1)), 2 * regions_);
      if (stopped_ && selection_.has_fitting()) {
        result.at_least = least_left(families, next);
        break;
      }
      const bool family_first = next < families.size() && families[next].at_least <= least_known();
      if (family_first) {
        bound(families[next++]);
      } else if (!bounded_.empty() &&
                 (points_.empty() || bounded_.top().at_least <= points_.top().at_least)) {
        open(bounded_.top());
        bounded_.pop();
      } else {
        const Point point = points_.top();
        points_.pop();
        result.simulated += predict(point) ? 1 : 0;
      }
    }
    result.complete = !stopped_ && explored_all_;
    if (progress) progress(2 * regions_, 2 * regions_);
    selection_.finish(result);
    for (std::vector<Candidate>* list : {&result.best, &result.front}) complete(*list);
    return result;
  }

 private:
  /// Stops where the request wants it. `share` of the time until the deadline is there for what is done now.
  void look(double share) {
    if (stopped_) return;
    cancelled_ = request_.stopped && request_.stopped();
    const auto passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    stopped_ = cancelled_ || (request_.deadline_s > 0 && passed >= share * request_.deadline_s);
  }

  /// Bound of every candidate that was not predicted; 0: not all layouts were looked at.
  Seconds least_left(const std::vector<OpenFamily>& families, std::size_t next) const {
    if (!explored_all_) return {};
    Seconds least = selection_.fastest().time.step;
    if (next < families.size()) least = std::min(least, families[next].at_least);
    return std::min(least, least_known());
  }

  /// Least bound of what waits behind its floor; infinite: nothing does.
  Seconds least_known() const {
    Seconds least{std::numeric_limits<double>::infinity()};
    if (!bounded_.empty()) least = std::min(least, bounded_.top().at_least);
    if (!points_.empty()) least = std::min(least, points_.top().at_least);
    return least;
  }

  /// No time for what only the front needs.
  bool in_a_hurry() const { return stopped_ || !explored_all_; }

  bool may_fit(Bytes peak) const { return selection_.limit().value == 0 || peak <= selection_.limit(); }

  void tell(const Candidate& candidate) {
    if (!request_.found || !candidate.fit.fits) return;
    if (told_ && told_->value <= candidate.time.step.value) return;
    told_ = candidate.time.step;
    request_.found(candidate);
  }

  /// Tells of a first candidate that fits, among the families of some regions.
  void look_ahead(const std::vector<Explored>& explored, const std::vector<int>& regions) {
    std::vector<const OpenFamily*> families;
    for (const int region : regions)
      for (const OpenFamily& family : explored[static_cast<std::size_t>(region)].families)
        if (may_fit(family.peak)) families.push_back(&family);
    std::sort(families.begin(), families.end(),
              [](const OpenFamily* a, const OpenFamily* b) { return before(*a, *b); });
    constexpr std::size_t kTried = 20;
    families.resize(std::min(families.size(), kTried));
    Evaluator& evaluator = evaluators_.front();
    for (const OpenFamily* of : families) {
      evaluator.begin_region();
      std::optional<Point> best;
      evaluator.visit_open(
          of->family, *evaluator.bounds(of->family, [](Bytes) { return true; }),
          [&](const SearchKeys& keys, Bytes peak, Seconds at_least) {
            return (!request_.wanted || request_.wanted(keys)) && may_fit(peak) &&
                   (!best || at_least < best->at_least);
          },
          [&](std::size_t, const SearchKeys& keys, Bytes peak, Seconds at_least) {
            best = Point{keys, at_least, peak, 0, of->region};
          });
      if (!best) continue;
      const auto bounds = evaluator.bounds(best->keys);
      if (!bounds || !bounds->fits) continue;
      tell(evaluator.predicted(best->keys, false));
      return;
    }
  }

  /// Families of every region, in the order of the search.
  std::vector<Explored> explore(const std::function<void(int, int)>& progress) {
    const std::vector<SearchRegion> regions = search_regions(request_.config, request_.limits);
    if (regions.empty()) refuse_sizes(request_.config);
    const bool selective = selection_differs(request_.config);
    const int all = regions_ = static_cast<int>(regions.size());
    std::vector<Explored> explored(regions.size());
    std::atomic<int> done{0};
    std::vector<int> first;  // regions of the first worker until it looks ahead
    bool ahead = !request_.found;
    const int stride = stride_over(all);
    in_parallel(static_cast<int>(evaluators_.size()), all, [&](std::size_t worker, int place) {
      if (stopped_) return;
      // A search that is stopped early has seen some of everything.
      const int i = static_cast<int>(std::int64_t{place} * stride % all);
      const auto region = static_cast<std::size_t>(i);
      Explored& found = explored[region];
      evaluators_[worker].begin_region();
      found.refused =
          visit_region(request_.config, regions[region], selective, [&](const SearchFamily& family) {
            if (worker == 0) look(0.5);
            if (!stopped_) add(family, i, evaluators_[worker], found);
          });
      ++done;
      if (worker == 0 && progress) progress(done, 2 * all);
      if (worker != 0 || ahead) return;
      first.push_back(i);
      if (std::chrono::steady_clock::now() - begin_ < kLookAhead) return;
      ahead = true;
      look_ahead(explored, first);
    });
    explored_all_ = !stopped_;
    if (!cancelled_) stopped_ = false;  // time for predictions is left
    return explored;
  }

  void add(const SearchFamily& family, int region, Evaluator& evaluator, Explored& found) const {
    const std::size_t wanted = wanted_in(request_, family);
    if (wanted == 0) return;
    const auto floor = evaluator.floor(family);
    if (!floor) return;
    found.families.push_back({family, floor->at_least, floor->peak, found.places, region});
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
        families.push_back(family);
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

  /// True if a candidate with these bounds can be among the best or on the front, for which there is time.
  bool matters(Bytes peak, Seconds at_least) const {
    return selection_.open(peak, at_least, true) && (!in_a_hurry() || may_fit(peak));
  }

  /// Bounds a family's candidates, unless none can matter.
  void bound(const OpenFamily& of) {
    if (!matters(of.peak, of.at_least)) return;
    auto bounds =
        evaluator_for(of.region).bounds(of.family, [&](Bytes peak) { return matters(peak, of.at_least); });
    if (!bounds) return;
    const Seconds at_least = std::max(of.at_least, bounds->at_least());
    const Bytes peak = bounds->peak();
    if (matters(peak, at_least)) bounded_.push({&of, std::move(*bounds), at_least, peak, of.order});
  }

  /// Looks at a family's candidates, unless none can matter.
  void open(const BoundedFamily& bounded) {
    if (!matters(bounded.peak, bounded.at_least)) return;
    const OpenFamily& of = *bounded.of;
    const auto may_matter = [&](const SearchKeys& keys, Bytes peak, Seconds at_least) {
      return (!request_.wanted || request_.wanted(keys)) && selection_.open(peak, at_least, true);
    };
    evaluator_for(of.region).visit_open(
        of.family, bounded.bounds, may_matter,
        [&](std::size_t place, const SearchKeys& keys, Bytes peak, Seconds at_least) {
          points_.push({keys, at_least, peak, of.order + place, of.region});
        });
  }

  /// Predicts a candidate, unless it cannot matter; true if it did.
  bool predict(const Point& point) {
    if (!selection_.open(point.peak, point.at_least, true)) return false;
    Evaluator& evaluator = evaluator_for(point.region);
    const auto bounds = evaluator.bounds(point.keys);
    if (!bounds || (in_a_hurry() && !bounds->fits) ||
        !selection_.open(bounds->peak, bounds->at_least, bounds->fits) ||
        !selection_.open(bounds->peak, evaluator.longest_chain(), bounds->fits))
      return false;
    const Candidate candidate = evaluator.predicted(point.keys, false);
    selection_.add({candidate, point.order}, bounds->fits);
    tell(candidate);
    return true;
  }

  /// Adds what was left out of predictions.
  void complete(std::vector<Candidate>& list) {
    for (Candidate& each : list)
      if (each.keys.vocabulary != VocabPasses::none) each = evaluators_.front().predicted(each.keys);
  }

  struct Later {
    template <class Bounded>
    bool operator()(const Bounded& a, const Bounded& b) const {
      return before(b, a);
    }
  };
  const SearchRequest& request_;
  SearchSchedules schedules_;
  std::vector<Evaluator> evaluators_;
  Selection selection_;
  std::priority_queue<BoundedFamily, std::vector<BoundedFamily>, Later> bounded_;
  std::priority_queue<Point, std::vector<Point>, Later> points_;
  int region_ = -1;  // of the first evaluator
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  int regions_ = 0;
  bool explored_all_ = false;
  bool cancelled_ = false;
  std::optional<Seconds> told_;  // step of the last candidate that the request was told of
  std::atomic<bool> stopped_{false};
};

}  // namespace

SearchResult search(const SearchRequest& request, const HardwareProfile& hardware, const StepFor& make,
                    const std::function<void(int, int)>& progress) {
  check_modules(request.config);
  return Search(request, hardware, make).run(progress);
}

}  // namespace plumbline
