#include "bench/measure/calibrate/rounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "bench/measure/calibrate/calibrate_part.hpp"
#include "bench/measure/calibrate/calibrate_progress.hpp"
#include "bench/measure/calibrate/figures/assemble.hpp"
#include "bench/measure/calibrate/figures/levels.hpp"
#include "bench/measure/calibrate/figures/looks.hpp"
#include "bench/measure/calibrate/figures/unseen.hpp"
#include "bench/processes/launch/run_folder.hpp"
#include "core/backends/mpi/clock.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/standard_streams.hpp"
#include "core/base/statistics.hpp"

namespace plumbline::calibration {
namespace {

constexpr double kUnseen = std::numeric_limits<double>::quiet_NaN();

/// Takes the lower time of each curve at every size, and records their spread.
void take_lower(Curve& curve, const Curve& other) {
  curve.spread.resize(curve.seconds.size());
  for (std::size_t i = 0; i < curve.seconds.size() && i < other.seconds.size(); ++i) {
    const auto [low, high] = std::minmax(curve.seconds[i], other.seconds[i]);
    curve.spread[i] = std::max(curve.spread[i], high / low - 1);
    curve.seconds[i] = low;
  }
}

/// The rounds of one calibration: samples of operators and messages alternately.
class Rounds {
 public:
  Rounds(HardwareProfile& profile, const CellLimits& limits, Seconds start, bool quiet)
      : profile_(profile),
        limits_(limits),
        start_(start),
        quiet_(quiet),
        progress_(quiet),
        ends_(ends_of_looks(passed())) {}

  void run() {
    append(looks_, look({"--round", "0", "--seconds", fmt::format("{:.1f}", ends_.first_round - passed())}));
    const double before = passed();
    messages();
    const double took = passed() - before;
    look_again(ends_.all - took);
    if (passed() + took < ends_.all + 3) messages();
    look_again(ends_.all);
    tables();
    profile_.calibration.seconds = passed();
  }

 private:
  double passed() const { return (monotonic_now() - start_).value; }

  LooksOfCells look(std::vector<std::string> options) {
    options.insert(options.begin(), {"looks", "--most-fp32", fmt::format("{}", limits_.fp32), "--most-bf16",
                                     fmt::format("{}", limits_.bf16)});
    return parse_looks(launch_part(options, profile_.processors(), quiet_), "looks", cells_.size());
  }

  /// Samples unsettled cells, until `end` seconds have passed.
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
    const auto add = [](const std::vector<double>& looks, std::vector<double>& seconds,
                        std::vector<double>& spread) {
      const LookFigure figure = looks.empty() ? LookFigure{kUnseen, 0} : figure_of(looks);
      seconds.push_back(figure.seconds);
      spread.push_back(figure.spread);
    };
    const bool followed =
        std::any_of(looks_.begin(), looks_.end(), [](const Looks& looks) { return !looks.busy.empty(); });
    for (const Looks& looks : looks_) {
      add(looks.alone, alone, alone_spread);
      if (followed) add(looks.busy, busy, busy_spread);
    }
    const std::size_t unseen = fill_unseen(cells_, alone) + (followed ? fill_unseen(cells_, busy) : 0);
    if (unseen > 0 && !quiet_) {
      say(fmt::format(
          "[calibrate] {} of {} figures were not measured for want of time: they are those of their "
          "nearest neighbours, in proportion to the size\n",
          unseen, alone.size() + busy.size()));
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
  CellLimits limits_;
  Seconds start_;
  bool quiet_;
  CalibrateProgress progress_;
  LooksEnd ends_;
  std::vector<Cell> cells_ = all_cells(limits_);
  LooksOfCells looks_;
  int round_ = 0;
  double message_noise_ = 0;
};

}  // namespace

void measure_in_rounds(HardwareProfile& profile, const CellLimits& limits, Seconds start, bool quiet) {
  Rounds(profile, limits, start, quiet).run();
}

}  // namespace plumbline::calibration
