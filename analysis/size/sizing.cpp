#include "analysis/size/sizing.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "analysis/size/fewest.hpp"

namespace plumbline {
namespace {

constexpr double kUsualShare = 0.4;  // of the peak, for a first guess
constexpr double kSecondsOfDay = 86400;
constexpr int kHostGpus = 8;

/// A layout that resembles the best of another count: others are seldom the fastest.
bool resembles(const SearchKeys& keys, const SearchKeys& best) {
  const auto near = [](int size, int known) { return 2 * size >= known && size <= 2 * known; };
  return near(keys.tensor, best.tensor) && near(keys.context, best.context) &&
         near(keys.expert, best.expert) && near(keys.pipeline, best.pipeline) &&
         near(keys.micro_batch, best.micro_batch) && keys.dispatcher == best.dispatcher &&
         (keys.expert_tensor == best.expert_tensor || keys.expert_tensor == 1) &&
         (keys.context == 1 || best.context == 1 || keys.cp_comm_type == best.cp_comm_type) &&
         (keys.schedule == best.schedule || keys.schedule == 0) && keys.vocabulary == best.vocabulary &&
         keys.half_gradients == best.half_gradients &&
         (keys.sequence_parallel || keys.tensor == 1 || !best.sequence_parallel);
}

/// Sizes each count once: the first among all layouts, others among those that resemble the best so far,
/// unless all are asked for.
class Sizer {
 public:
  Sizer(const SizeQuestion& question, const SizeProgress& progress)
      : question_(question), progress_(progress) {}

  const std::optional<SizedJob>& job(int gpus) {
    const auto known = jobs_.find(gpus);
    if (known != jobs_.end()) return known->second;
    std::optional<SizedJob> job;
    if (!best_.empty()) job = sized(gpus, among_similar());
    return job ? keep(gpus, job) : of_all_layouts(gpus);
  }

  /// Among all layouts.
  const std::optional<SizedJob>& of_all_layouts(int gpus) {
    if (all_.empty()) tell_at_once(gpus);
    if (!all_.insert(gpus).second) return jobs_.at(gpus);
    std::optional<SizedJob> job = sized(gpus, question_);
    if (job) best_.push_back(job->layout.keys);
    const auto known = jobs_.find(gpus);
    const bool slower = known != jobs_.end() && known->second && (!job || job->days > known->second->days);
    return slower ? known->second : keep(gpus, job);
  }

  /// Days with every step `times` as long.
  double days(int gpus, double ErrorInterval::*end = nullptr) {
    const std::optional<SizedJob>& sized = job(gpus);
    if (!sized) return std::numeric_limits<double>::infinity();
    return sized->days * (end != nullptr && sized->interval ? (*sized->interval).*end : 1);
  }

  bool knows(int gpus) const { return jobs_.contains(gpus); }
  bool stopped() const { return question_.stopped && question_.stopped(); }
  const std::string& why() const { return why_; }

  std::vector<SizedJob> jobs() const {
    std::vector<SizedJob> list;
    for (const auto& [gpus, job] : jobs_) {
      if (job) list.push_back(*job);
    }
    return list;
  }

 private:
  /// The best layout of the first count that half a second finds.
  void tell_at_once(int gpus) {
    using Clock = std::chrono::steady_clock;
    if (!progress_) return;
    static constexpr std::chrono::milliseconds kSoon{500};
    const Clock::time_point begin = Clock::now();
    SizeQuestion soon = question_;
    soon.stopped = [this, begin] { return stopped() || Clock::now() - begin > kSoon; };
    const std::optional<SizedJob> job = sized(gpus, soon);
    if (job && !job->complete) progress_(gpus, job);
  }

  SizeQuestion among_similar() const {
    SizeQuestion similar = question_;
    similar.wanted = [wanted = question_.wanted, best = best_](const SearchKeys& keys) {
      return (!wanted || wanted(keys)) && std::any_of(best.begin(), best.end(), [&](const SearchKeys& each) {
               return resembles(keys, each);
             });
    };
    return similar;
  }

  std::optional<SizedJob> sized(int gpus, const SizeQuestion& question) {
    if (stopped()) return {};
    return size_job(question, gpus, why_);
  }

  const std::optional<SizedJob>& keep(int gpus, const std::optional<SizedJob>& job) {
    if (progress_ && (job || !stopped())) progress_(gpus, job);
    return jobs_[gpus] = job;
  }

  const SizeQuestion& question_;
  const SizeProgress& progress_;
  std::map<int, std::optional<SizedJob>> jobs_;
  std::set<int> all_;             // counts whose layouts were all searched
  std::vector<SearchKeys> best_;  // of those
  std::string why_;
};

/// The fewest among all layouts, given those among similar ones: counts that missed by little are searched.
int checked_fewest(Sizer& sizer, const std::vector<int>& counts, int fewest, double days) {
  constexpr double kLittle = 1.05;
  for (auto at = std::lower_bound(counts.begin(), counts.end(), fewest); at != counts.begin();) {
    const int gpus = *--at;
    if (sizer.knows(gpus) && sizer.days(gpus) <= kLittle * days) {
      const auto& job = sizer.of_all_layouts(gpus);
      if (job && job->days <= days) fewest = gpus;
    }
  }
  sizer.of_all_layouts(fewest);
  return fewest;
}

int hosts_gpus(const HardwareProfile& hardware) {
  if (hardware.accelerator() == nullptr) return kHostGpus;
  const Network& network = hardware.accelerator()->constants.network;
  return network.gpus_per_host > 0 ? network.gpus_per_host : network.gpus_per_node;
}

/// GPUs that reach a usual share of their peak.
int guessed_gpus(const SizeQuestion& question, double days) {
  const double flops = 6.0 * static_cast<double>(question.config.model.active_parameters()) * question.tokens;
  const double rate = kUsualShare * question.hardware.peak_16bit.value * kSecondsOfDay * days;
  return rate > 0 ? static_cast<int>(std::clamp(std::ceil(flops / rate), 1.0, 1e9)) : 1;
}

}  // namespace

Sizing size_for_days(const SizeQuestion& question, double days, int most, const SizeProgress& progress) {
  Sizer sizer(question, progress);
  FewestQuestion fewest{count_ladder(hosts_gpus(question.hardware), most), days,
                        [&](int gpus) { return sizer.days(gpus); }, guessed_gpus(question, days)};
  Sizing sizing;
  sizing.fewest = fewest_in_time(fewest);
  if (sizing.fewest > 0) {
    sizing.fewest = checked_fewest(sizer, fewest.counts, sizing.fewest, days);
    // Counts around it, for the frontier.
    constexpr double kAround[] = {2, 0.5, 4, 1.5};
    for (const double times : kAround) {
      const auto at = std::lower_bound(fewest.counts.begin(), fewest.counts.end(),
                                       static_cast<int>(sizing.fewest * times));
      if (at != fewest.counts.end() && !sizer.stopped()) sizer.job(*at);
    }
    if (const auto& interval = sizer.job(sizing.fewest)->interval; interval && !sizer.stopped()) {
      fewest.slack = fewest.round_slack = 0;
      const auto with = [&](double ErrorInterval::*end) {
        fewest.guess = static_cast<int>(sizing.fewest * (*interval).*end);
        fewest.days_of = [&sizer, end](int gpus) { return sizer.days(gpus, end); };
        return fewest_in_time(fewest);
      };
      sizing.fewest_if_short = with(&ErrorInterval::low);
      sizing.fewest_if_long = with(&ErrorInterval::high);
    }
  }
  sizing.jobs = sizer.jobs();
  sizing.why = sizer.why();
  return sizing;
}

Sizing size_of_gpus(const SizeQuestion& question, int gpus, const SizeProgress& progress) {
  Sizer sizer(question, progress);
  sizer.job(gpus);
  return {sizer.jobs(), 0, 0, 0, sizer.why()};
}

std::vector<SizedJob> frontier_of(const std::vector<SizedJob>& jobs) {
  std::vector<SizedJob> frontier;
  for (const SizedJob& job : jobs) {
    if (frontier.empty() || job.days < frontier.back().days) frontier.push_back(job);
  }
  return frontier;
}

}  // namespace plumbline
