// The sizes of `plumbline size`, for programs as well.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analysis/reliability/goodput.hpp"
#include "bench/ask/question.hpp"
#include "bench/show/views/size/size_report.hpp"

namespace plumbline {

/// A price of a GPU-hour.
struct HardwarePrice {
  std::string hardware;  // as the question names it
  double gpu_hour = 0;
};

struct SizeAsked {
  AskedConfig config;                 // without GPUs, batch and the hardware below
  std::vector<std::string> hardware;  // empty: the configuration's
  std::vector<HardwarePrice> prices;
  std::optional<BatchRange> batch;  // nothing: the configuration's, else kUsualBatch
  double tokens = 0;
  std::optional<double> days;  // the fewest GPUs for them; nothing: `gpus` are given
  std::optional<int> gpus;
  int most = 131072;                // GPUs
  bool fixed = false;               // the configuration's own layout, without a search
  GoodputRequest job;               // fleet, checkpoint (of size 0: all states), recovery, interval
  int threads = 0;                  // 0: one per processor
  double deadline_s = 0;            // of all; 0: none
  std::function<bool()> stopped{};  // as in SearchRequest
};

/// Tokens of a step where the configuration gives no batch: those of published trainings of 2023 to 2025.
inline constexpr double kUsualBatchTokens[] = {4e6, 16e6};

/// Failures of a fleet (a name or a file), saves and recoveries with the defaults of `plumbline goodput`.
GoodputRequest usual_job(const std::string& fleet);

/// Takes `hardware` (names with commas between), `global_batch_size` (also a range) and `world_size` out of
/// the configuration's keys. Throws InputError.
void take_choices(SizeAsked& asked);

/// Called after every count, from one thread at a time.
using SizedProgress =
    std::function<void(const std::string& hardware, int gpus, const std::optional<SizedJob>& job)>;

/// Throws InputError for a question that has no answer, Error (timed_out) when it was stopped before any
/// count had a layout.
SizeAnswer answer_size(const SizeAsked& asked, const SizedProgress& progress = {});

/// Every training of trainings.json, sized. `progress` gets the name of each before it is.
std::vector<PublishedTraining> published_trainings(
    const std::function<void(const std::string& name)>& progress = {});

/// "2T", "15.6T", "300B", "5e11" or plain tokens; "1024:2048" or "2048" sequences; "h100=2.5/h,h200=3";
/// "10s", "2min" or plain seconds. Throw InputError naming `option`.
double parse_tokens(const std::string& text, const std::string& option);
BatchRange parse_batch(const std::string& text, const std::string& option);
std::vector<HardwarePrice> parse_prices(const std::string& text, const std::string& option);
double parse_duration(const std::string& text, const std::string& option);

}  // namespace plumbline
