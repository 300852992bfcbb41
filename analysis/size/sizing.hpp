// Sizes of a training: the fewest GPUs that end it in time, and more and fewer of them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analysis/size/sized_job.hpp"

namespace plumbline {

/// Called after every count, from the thread that sizes.
using SizeProgress = std::function<void(int gpus, const std::optional<SizedJob>& job)>;

/// A training on one kind of accelerator.
struct Sizing {
  std::vector<SizedJob> jobs;  // all counts that were tried and have a layout; ascending GPUs
  int fewest = 0;              // GPUs that end in time; 0: no count does
  /// Fewest where every step is as short or as long as the interval of comparable runs; 0: unknown.
  int fewest_if_short = 0;
  int fewest_if_long = 0;
  std::string why;  // reason for the last count without a layout
};

/// Finds the fewest GPUs for `days`, up to `most`, then sizes others from half to four times as many. Stops
/// early when question.stopped says so.
Sizing size_for_days(const SizeQuestion& question, double days, int most, const SizeProgress& progress = {});

/// The job on so many GPUs alone.
Sizing size_of_gpus(const SizeQuestion& question, int gpus, const SizeProgress& progress = {});

/// The jobs that no other beats in both GPUs and days: ascending GPUs, each faster than those before.
std::vector<SizedJob> frontier_of(const std::vector<SizedJob>& jobs);

}  // namespace plumbline
