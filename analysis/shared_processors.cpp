#include "analysis/shared_processors.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

namespace plumbline {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

class SharedSimulation {
 public:
  SharedSimulation(const SimulationPlan& plan, const std::vector<SimulationPlan::Price>& prices,
                   int processors, int processes_per_rank)
      : plan_(plan),
        prices_(prices),
        processors_(processors),
        processes_per_rank_(processes_per_rank),
        lanes_(static_cast<std::size_t>(plan.lanes())),
        next_waiter_(lanes_.size(), -1),
        first_waiter_(plan.nodes().size(), -1) {
    times_.ready.assign(plan.nodes().size(), kNever);
    times_.start.assign(plan.nodes().size(), 0);
    times_.ready[0] = 0;
    for (std::size_t i = 1; i < plan.nodes().size(); ++i) {
      lanes_[static_cast<std::size_t>(plan.nodes()[i].lane)].nodes.push_back(static_cast<std::int32_t>(i));
    }
  }

  SharedTimes run() {
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) start_lane(static_cast<int>(lane));
    while (!working_.empty() || !timed_.empty()) {
      const double speed = this->speed();
      const double next_work =
          working_.empty() ? kNever : now_ + std::max(0.0, working_.top().first - work_) / speed;
      if (!timed_.empty() && timed_.top().at <= next_work) {
        const Timed event = timed_.top();
        timed_.pop();
        work_ += (event.at - now_) * speed;
        now_ = event.at;
        if (event.frees_lane) {
          free_lane(event.node);
        } else {
          wake(event.node);
        }
      } else {
        const auto [target, node] = working_.top();
        working_.pop();
        now_ = next_work;
        work_ = target;
        times_.ready[static_cast<std::size_t>(node)] = now_;
        wake(node);
        free_lane(node);
      }
    }
    return std::move(times_);
  }

 private:
  struct Lane {
    std::vector<std::int32_t> nodes;
    std::size_t next = 0;
    bool running = false;
  };
  struct Timed {
    double at;
    std::int32_t node;
    bool frees_lane;
    bool operator>(const Timed& other) const { return at > other.at; }
  };

  double speed() const {
    const double wanted = static_cast<double>(working_.size()) * processes_per_rank_;
    return wanted > processors_ ? processors_ / wanted : 1.0;
  }

  void free_lane(std::int32_t node) {
    const int lane = plan_.nodes()[static_cast<std::size_t>(node)].lane;
    lanes_[static_cast<std::size_t>(lane)].running = false;
    start_lane(lane);
  }

  void wake(std::int32_t node) {
    std::int32_t lane = std::exchange(first_waiter_[static_cast<std::size_t>(node)], -1);
    while (lane >= 0) {
      const std::int32_t next = std::exchange(next_waiter_[static_cast<std::size_t>(lane)], -1);
      start_lane(lane);
      lane = next;
    }
  }

  /// Starts what can start on a lane; what takes no time is done at once.
  void start_lane(int lane_index) {
    Lane& lane = lanes_[static_cast<std::size_t>(lane_index)];
    while (!lane.running && lane.next < lane.nodes.size()) {
      const std::int32_t node = lane.nodes[lane.next];
      const auto n = static_cast<std::size_t>(node);
      const std::int32_t dependency = plan_.nodes()[n].dependency;
      if (times_.ready[static_cast<std::size_t>(dependency)] > now_) {
        next_waiter_[static_cast<std::size_t>(lane_index)] =
            std::exchange(first_waiter_[static_cast<std::size_t>(dependency)], lane_index);
        return;
      }
      ++lane.next;
      times_.start[n] = now_;
      const std::uint32_t price_index = plan_.nodes()[n].price;
      const SimulationPlan::Price price = prices_[price_index];
      if (plan_.occupies_processor(price_index) && price.cost > 0) {
        lane.running = true;
        working_.emplace(work_ + price.cost, node);
        continue;
      }
      times_.ready[n] = now_ + price.cost + price.delay;
      if (times_.ready[n] > now_) {
        timed_.push({times_.ready[n], node, false});
      } else {
        wake(node);
      }
      if (price.cost > 0) {
        lane.running = true;
        timed_.push({now_ + price.cost, node, true});
      }
    }
  }

  const SimulationPlan& plan_;
  const std::vector<SimulationPlan::Price>& prices_;
  double processors_;
  double processes_per_rank_;
  double now_ = 0;
  double work_ = 0;  // work done so far by a rank that was busy all the time
  std::vector<Lane> lanes_;
  std::vector<std::int32_t> next_waiter_;   // by lane
  std::vector<std::int32_t> first_waiter_;  // by node
  std::priority_queue<std::pair<double, std::int32_t>, std::vector<std::pair<double, std::int32_t>>,
                      std::greater<>>
      working_;  // by the value of work_ at which they are done
  std::priority_queue<Timed, std::vector<Timed>, std::greater<>> timed_;
  SharedTimes times_;
};

}  // namespace

SharedTimes share_processors(const SimulationPlan& plan, const std::vector<SimulationPlan::Price>& prices,
                             int processors, int processes_per_rank) {
  return SharedSimulation(plan, prices, processors, processes_per_rank).run();
}

}  // namespace plumbline
