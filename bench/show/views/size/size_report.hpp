// Sizes of a training as text, CSV and JSON, and the frontier of GPUs and days as a picture.
#pragma once

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "analysis/size/sizing.hpp"

namespace plumbline {

/// A training on one accelerator.
struct SizedHardware {
  std::string name;
  std::optional<double> price;  // of a GPU-hour
  Sizing sizing;
  /// The `predict` command of a job.
  std::function<std::string(const SizedJob&)> command;
};

struct SizeAnswer {
  double tokens = 0;
  std::optional<double> days;  // limit; nothing: the number of GPUs was given
  int most = 0;                // GPUs that were allowed
  RunConfig config;            // of the first hardware
  BatchRange batch;
  GoodputRequest job;
  std::vector<SizedHardware> hardware;
  double seconds = 0;    // that it took
  bool complete = true;  // false: the deadline ended it
  std::vector<std::string> notes;
};

/// The job with the fewest GPUs that ends in time, and the cheapest of those; nullptr: none.
struct BestSizes {
  const SizedHardware* fewest_on = nullptr;
  const SizedJob* fewest = nullptr;
  const SizedHardware* cheapest_on = nullptr;
  const SizedJob* cheapest = nullptr;
};
BestSizes best_sizes(const SizeAnswer& answer);

/// Difference of predicted and published GPU-hours that is expected.
inline constexpr double kTrainingTolerance = 0.15;

struct PublishedTraining {
  std::string name;
  std::string source;
  double gpu_hours = 0;    // published
  std::string difference;  // its causes, as far as known
  SizeAnswer answer;       // of one hardware and one number of GPUs
  const SizedJob& job() const { return answer.hardware.front().sizing.jobs.front(); }
  double ratio() const { return job().hours.sum() / gpu_hours; }  // predicted ÷ published
  bool within() const { return std::abs(ratio() - 1) <= kTrainingTolerance; }
};

/// The fewest GPUs, the least cost, the parts of their GPU-hours, and every job on a frontier, in a
/// table of `width` columns (0: no limit).
std::string size_text(const SizeAnswer& answer, int width = 0);
/// A row for every job that was sized.
std::string size_csv(const SizeAnswer& answer);
nlohmann::ordered_json size_json(const SizeAnswer& answer);
/// Published GPU-hours next to predicted ones, with the parts of each.
std::string trainings_text(const std::vector<PublishedTraining>& trainings);
nlohmann::ordered_json trainings_json(const std::vector<PublishedTraining>& trainings);
/// Days by GPUs on logarithmic axes, a line for each accelerator with its interval, and the limit.
std::string size_svg(const SizeAnswer& answer);

}  // namespace plumbline
