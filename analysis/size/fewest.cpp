#include "analysis/size/fewest.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

namespace plumbline {
namespace {

constexpr int kSingleNodes = 8;  // counts up to this many nodes are all tried
constexpr int kFactors[] = {8, 9, 10, 12, 14, 15};

/// A power of two, or three times one: divides most batches.
bool is_round(int gpus) {
  while (gpus % 2 == 0 && gpus > 0) gpus /= 2;
  return gpus == 1 || gpus == 3;
}

/// Places in the list of counts: what is known of them.
class Bracket {
 public:
  explicit Bracket(const FewestQuestion& question)
      : question_(question), size_(static_cast<int>(question.counts.size())), high_(size_) {}

  int fewest() {
    if (size_ == 0) return 0;
    rise();
    if (high_ == size_) fall();
    if (high_ == size_) return 0;
    close();
    revisit();
    return count(high_);
  }

 private:
  int count(int place) const { return question_.counts[static_cast<std::size_t>(place)]; }

  int first_from(double gpus) const {
    const auto at = std::lower_bound(question_.counts.begin(), question_.counts.end(), gpus,
                                     [](int each, double least) { return each < least; });
    return static_cast<int>(at - question_.counts.begin());
  }

  /// Days of a place; keeps it as the fewest so far if that is in time.
  double look(int place) {
    const double days = question_.days_of(count(place));
    gpu_days_[place] = count(place) * days;
    if (days <= question_.days) high_ = std::min(high_, place);
    return days;
  }

  /// More GPUs until a count is in time.
  void rise() {
    int place = std::min(first_from(question_.guess), size_ - 1);
    while (true) {
      const double days = look(place);
      if (days <= question_.days) return;
      low_ = std::max(low_, place);
      if (place == size_ - 1) return;
      const double growth = std::isfinite(days) ? days / question_.days : 2;
      place = std::clamp(first_from(count(place) * growth), place + 1, size_ - 1);
    }
  }

  /// Fewer than the guess, where more have no layout.
  void fall() {
    for (int place = size_ - 1; place >= 0 && high_ == size_; --place) {
      if (!gpu_days_.contains(place) && possible(place)) look(place);
    }
    low_ = -1;  // those between were left out
  }

  /// Between a count that is too few and one that is enough.
  void close() {
    while (high_ - low_ > 1) {
      const double days = question_.days_of(count(high_));
      const int expected = first_from(count(high_) * days / question_.days);
      const int place = std::clamp(expected, low_ + 1, high_ - 1);
      if (look(place) > question_.days) low_ = place;
    }
  }

  /// Counts below one that was too few, while the best rate would do.
  void revisit() {
    for (int place = high_ - 1; place >= 0; --place) {
      if (!gpu_days_.contains(place) && possible(place)) look(place);
    }
  }

  /// True unless the GPU-days of larger counts say that this one is too few.
  bool possible(int place) const {
    double least = std::numeric_limits<double>::infinity();
    for (auto larger = gpu_days_.upper_bound(place); larger != gpu_days_.end(); ++larger)
      least = std::min(least, larger->second);
    const double saved = is_round(count(place)) ? question_.round_slack : question_.slack;
    return !std::isfinite(least) || count(place) * question_.days * (1 + saved) >= least;
  }

  const FewestQuestion& question_;
  int size_;
  int low_ = -1;                    // too few
  int high_;                        // enough; size_: none known
  std::map<int, double> gpu_days_;  // by place
};

}  // namespace

std::vector<int> count_ladder(int gpus_per_node, int most) {
  std::set<int> counts;
  for (int gpus = 1; gpus < gpus_per_node; gpus *= 2) counts.insert(gpus);
  for (int nodes = 1; nodes <= kSingleNodes; ++nodes) counts.insert(nodes * gpus_per_node);
  for (long long scale = 1; scale * kSingleNodes * gpus_per_node <= most; scale *= 2) {
    for (const int factor : kFactors) {
      const long long gpus = scale * factor * gpus_per_node;
      if (gpus <= most) counts.insert(static_cast<int>(gpus));
    }
  }
  std::vector<int> list;
  for (const int gpus : counts) {
    if (gpus <= most) list.push_back(gpus);
  }
  return list;
}

int fewest_in_time(const FewestQuestion& question) {
  return Bracket(question).fewest();
}

}  // namespace plumbline
