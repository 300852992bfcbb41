#include "bench/calibrate/rounds.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/calibrate/calibrate_part.hpp"
#include "bench/calibrate/calibrate_progress.hpp"
#include "bench/calibrate/figures/assemble.hpp"
#include "bench/calibrate/figures/levels.hpp"
#include "bench/calibrate/figures/looks.hpp"
#include "bench/launch/run_folder.hpp"
#include "core/backends/mpi/clock.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/statistics.hpp"

namespace plumbline::calibration {
namespace {

/// Of each curve the lower time at every size, and how far apart they were.
void take_lower(Curve& curve, const Curve& other) {
  curve.spread.resize(curve.seconds.size());
  for (std::size_t i = 0; i < curve.seconds.size() && i < other.seconds.size(); ++i) {
    const auto [low, high] = std::minmax(curve.seconds[i], other.seconds[i]);
    curve.spread[i] = std::max(curve.spread[i], high / low - 1);
    curve.seconds[i] = low;
  }
}

/// The rounds of one calibration: looks at operators and messages in turns.
class Rounds {
 public:
  Rounds(HardwareProfile& profile, bool quiet) : profile_(profile), quiet_(quiet), progress_(quiet) {}

  void run() {
    append(looks_, look({"--round", "0"}));
    messages();
    look_again((kMostSeconds + passed()) / 2);
    if (passed() < kLastMessages) messages();
    look_again(kMostSeconds);
    tables();
    profile_.calibration.seconds = passed();
  }

 private:
  static constexpr double kMostSeconds = 55;
  static constexpr double kLastMessages = 48;  // seconds after which messages are not measured again

  double passed() const { return (monotonic_now() - start_).value; }

  LooksOfCells look(std::vector<std::string> options) {
    options.insert(options.begin(), "looks");
    return parse_looks(launch_part(options, profile_.processors, quiet_), "looks", cells_.size());
  }

  /// At what is not settled, until `end` seconds have passed.
  void look_again(double end) {
    const bool settled =
        std::none_of(looks_.begin(), looks_.end(), [](const Looks& looks) { return is_unsettled(looks); });
    if (end - passed() < 1 || settled) return;
    const RunFolder scratch(RunFolderUse::files);
    const std::string known = scratch.path() + "/looks.json";
    write_whole_file(known, to_json(looks_));
    append(looks_, look({"--known", known, "--seconds", fmt::format("{:.1f}", end - passed()), "--round",
                         fmt::format("{}", ++round_)}));
  }

  void messages() {
    std::vector<CollectiveTime> collectives;
    std::vector<MessageTime> messages;
    for (const int ranks : {2, 4, 8}) {
      progress_.show("messages", (ranks - 2) / 6.0);
      HardwareProfile part = parse_hardware(launch_part({"messages"}, ranks, quiet_), "messages");
      for (CollectiveTime& time : part.collectives) collectives.push_back(std::move(time));
      for (MessageTime& time : part.messages) messages.push_back(std::move(time));
    }
    if (profile_.messages.empty()) {
      profile_.collectives = std::move(collectives);
      profile_.messages = std::move(messages);
      return;
    }
    std::vector<double> moved;
    const auto merge = [&](Curve& curve, const Curve& other) {
      for (std::size_t i = 0; i < curve.seconds.size(); ++i)
        moved.push_back(other.seconds[i] / curve.seconds[i]);
      take_lower(curve, other);
    };
    for (std::size_t i = 0; i < collectives.size(); ++i)
      merge(profile_.collectives[i].seconds, collectives[i].seconds);
    for (std::size_t i = 0; i < messages.size(); ++i)
      merge(profile_.messages[i].seconds, messages[i].seconds);
    const double factor = median(moved);
    message_noise_ = std::max(message_noise_, std::max(factor, 1 / factor) - 1);
  }

  void tables() {
    std::vector<double> alone, alone_spread, busy, busy_spread;
    for (const Looks& looks : looks_) {
      const LookFigure quiet = figure_of(looks.alone);
      alone.push_back(quiet.seconds);
      alone_spread.push_back(quiet.spread);
      if (looks.busy.empty()) continue;
      const LookFigure crowded = figure_of(looks.busy);
      busy.push_back(crowded.seconds);
      busy_spread.push_back(crowded.spread);
    }
    profile_.alone = assemble(cells_, alone, alone_spread);
    profile_.alone_levels = levels_of(cells_, alone);
    if (!busy.empty()) {
      profile_.busy = assemble(cells_, busy, busy_spread);
      profile_.busy_levels = levels_of(cells_, busy);
    }
    Calibration& about = profile_.calibration;
    about.noise = movement_of(cells_, looks_);
    about.noise.messages = message_noise_;
    about.figures = static_cast<std::int64_t>(alone.size() + busy.size());
    about.unsettled = count_unsettled(looks_);
    for (const Looks& looks : looks_) about.seen_once += (looks.alone.size() == 1) + (looks.busy.size() == 1);
  }

  HardwareProfile& profile_;
  bool quiet_;
  CalibrateProgress progress_;
  Seconds start_ = monotonic_now();
  std::vector<Cell> cells_ = all_cells();
  LooksOfCells looks_;
  int round_ = 0;
  double message_noise_ = 0;
};

}  // namespace

void measure_in_rounds(HardwareProfile& profile, bool quiet) {
  Rounds(profile, quiet).run();
}

}  // namespace plumbline::calibration
