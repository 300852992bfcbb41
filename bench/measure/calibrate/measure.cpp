#include "bench/measure/calibrate/measure.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>

#include "bench/measure/calibrate/cell_timer.hpp"
#include "bench/measure/calibrate/followers.hpp"
#include "core/backends/mpi/check.hpp"
#include "core/backends/mpi/clock.hpp"
#include "core/backends/mpi/mpi_header.hpp"
#include "kernels/cpu/cpu_operators.hpp"

namespace plumbline::calibration {
namespace {

/// Shuffled order, with many of a type in a row, because another type clears the pools. If the time may run
/// out, a part of either type comes first.
std::vector<std::size_t> order_of(const std::vector<Cell>& cells, const LookPlan& plan) {
  const std::size_t parts = plan.known.empty() ? 1 : 6;
  const std::size_t in_part = cells.size() / parts + 1;
  std::vector<std::size_t> order(cells.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937_64(plan.round));
  for (std::size_t first = 0; first < order.size(); first += in_part) {
    const auto begin = order.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min(order.size(), first + in_part));
    std::stable_sort(begin, end,
                     [&](std::size_t a, std::size_t b) { return cells[a].storage < cells[b].storage; });
  }
  return order;
}

class Measuring {
 public:
  Measuring(const std::vector<Cell>& cells, const LookPlan& plan, const OnProgress& on_progress)
      : cells_(cells),
        plan_(plan),
        on_progress_(on_progress),
        operators_(make_cpu_operators()),
        timer_(*operators_, pools_),
        found_(cells.size()) {}

  LooksOfCells run() {
    const std::vector<std::size_t> order = order_of(cells_, plan_);
    if (plan_.known.empty()) {
      for (std::size_t i = 0; i < order.size() && passed() < plan_.seconds; ++i) {
        look_at(order[i]);
        on_progress_(static_cast<double>(i + 1) / static_cast<double>(order.size()));
      }
      return std::move(found_);
    }
    LooksOfCells all = plan_.known;
    bool looked = true;
    while (looked) {
      looked = false;
      for (const std::size_t i : order) {
        if (!is_unsettled(all[i])) continue;
        if (passed() > plan_.seconds) return std::move(found_);
        const Looks now = look_at(i);
        all[i].alone.insert(all[i].alone.end(), now.alone.begin(), now.alone.end());
        all[i].busy.insert(all[i].busy.end(), now.busy.begin(), now.busy.end());
        looked = true;
        on_progress_(std::min(1.0, passed() / plan_.seconds));
      }
    }
    return std::move(found_);
  }

 private:
  double passed() const { return monotonic_now().value - start_; }

  /// A look at the cell alone and one with all busy.
  Looks look_at(std::size_t i) {
    Looks looks;
    if (followers_.any()) followers_.announce(static_cast<int>(i));
    timer_.begin(cells_[i], static_cast<std::int64_t>(i) * 7919);
    if (followers_.any()) {
      followers_.start();
      looks.busy.push_back(timer_.look());
      followers_.stop();
    }
    looks.alone.push_back(timer_.look());
    found_[i].alone.insert(found_[i].alone.end(), looks.alone.begin(), looks.alone.end());
    found_[i].busy.insert(found_[i].busy.end(), looks.busy.begin(), looks.busy.end());
    return looks;
  }

  const std::vector<Cell>& cells_;
  const LookPlan& plan_;
  const OnProgress& on_progress_;
  double start_ = monotonic_now().value;
  std::unique_ptr<Operators> operators_;
  Pools pools_;
  CellTimer timer_;
  Followers followers_;
  LooksOfCells found_;
};

}  // namespace

LooksOfCells measure(const std::vector<Cell>& cells, const LookPlan& plan, const OnProgress& on_progress) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  if (rank == 0) return Measuring(cells, plan, on_progress).run();
  follow(cells);
  return {};
}

}  // namespace plumbline::calibration
