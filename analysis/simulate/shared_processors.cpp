#include "analysis/simulate/shared_processors.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

namespace plumbline {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Processes on every processor. Process i of all processes runs on processor i modulo their number, and
/// stays there.
class Cores {
 public:
  Cores(int processors, int processes_per_rank)
      : load_(static_cast<std::size_t>(processors)),
        processes_per_rank_(static_cast<std::size_t>(processes_per_rank)) {}

  void start(int rank) { add(rank, 1); }
  void stop(int rank) { add(rank, -1); }

  /// Speed of a rank whose processes work in step: that of its slowest process.
  double speed(int rank) const {
    int most = 1;
    for (std::size_t i = 0; i < processes_per_rank_; ++i) most = std::max(most, load_[core_of(rank, i)]);
    return 1.0 / most;
  }

 private:
  std::size_t core_of(int rank, std::size_t process) const {
    return (static_cast<std::size_t>(rank) * processes_per_rank_ + process) % load_.size();
  }
  void add(int rank, int change) {
    for (std::size_t i = 0; i < processes_per_rank_; ++i) load_[core_of(rank, i)] += change;
  }

  std::vector<int> load_;  // running processes of every processor
  std::size_t processes_per_rank_;
};

class SharedSimulation {
 public:
  SharedSimulation(const SimulationPlan& plan, const std::vector<SimulationPlan::Price>& prices,
                   int processors, int processes_per_rank)
      : plan_(plan),
        prices_(prices),
        cores_(processors, processes_per_rank),
        lanes_(static_cast<std::size_t>(plan.lanes())),
        next_waiter_(lanes_.size(), -1),
        first_waiter_(plan.nodes().size(), -1) {
    ready_.assign(plan.nodes().size(), kNever);
    start_.assign(plan.nodes().size(), 0);
    ready_[0] = 0;
    for (std::size_t i = 1; i < plan.nodes().size(); ++i) {
      lanes_[static_cast<std::size_t>(plan.nodes()[i].lane)].nodes.push_back(static_cast<std::int32_t>(i));
    }
  }

  SharedTimes run() {
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) start_lane(static_cast<int>(lane));
    while (!working_.empty() || !timed_.empty()) {
      auto first = working_.end();
      double next_work = kNever;
      for (auto work = working_.begin(); work != working_.end(); ++work) {
        const double done = now_ + work->left / work->speed;
        if (done < next_work) {
          next_work = done;
          first = work;
        }
      }
      if (!timed_.empty() && timed_.top().at <= next_work) {
        const Timed event = timed_.top();
        timed_.pop();
        advance(event.at);
        if (event.frees_lane) {
          free_lane(event.node);
        } else {
          wake(event.node);
        }
      } else {
        const std::int32_t node = first->node;
        advance(next_work);
        cores_.stop(lane_of(node));
        working_.erase(first);
        set_speeds();
        ready_[static_cast<std::size_t>(node)] = now_;
        wake(node);
        free_lane(node);
      }
    }
    return {in_ticks(ready_), in_ticks(start_)};
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

  struct Work {
    std::int32_t node;
    double left;  // ticks of an own processor
    double speed = 1;
  };

  static std::vector<Ticks> in_ticks(const std::vector<double>& moments) {
    std::vector<Ticks> ticks;
    ticks.reserve(moments.size());
    for (const double moment : moments) {
      if (!(moment < static_cast<double>(kMostTicks))) check_length(kMostTicks);
      ticks.push_back(std::llround(moment));
    }
    return ticks;
  }

  int lane_of(std::int32_t node) const { return plan_.nodes()[static_cast<std::size_t>(node)].lane; }

  void advance(double to) {
    for (Work& work : working_) work.left = std::max(0.0, work.left - (to - now_) * work.speed);
    now_ = to;
  }

  void set_speeds() {
    for (Work& work : working_) work.speed = cores_.speed(lane_of(work.node));
  }

  void free_lane(std::int32_t node) {
    const int lane = lane_of(node);
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

  /// Starts the ready nodes of a lane; nodes without duration are done at once.
  void start_lane(int lane_index) {
    Lane& lane = lanes_[static_cast<std::size_t>(lane_index)];
    while (!lane.running && lane.next < lane.nodes.size()) {
      const std::int32_t node = lane.nodes[lane.next];
      const auto n = static_cast<std::size_t>(node);
      const std::int32_t dependency = plan_.nodes()[n].dependency;
      if (ready_[static_cast<std::size_t>(dependency)] > now_) {
        next_waiter_[static_cast<std::size_t>(lane_index)] =
            std::exchange(first_waiter_[static_cast<std::size_t>(dependency)], lane_index);
        return;
      }
      ++lane.next;
      start_[n] = now_;
      const std::uint32_t price_index = plan_.nodes()[n].price;
      const SimulationPlan::Price price = prices_[price_index];
      if (plan_.occupies_processor(price_index) && price.cost > 0) {
        lane.running = true;
        cores_.start(lane_index);
        working_.push_back({node, static_cast<double>(price.cost)});
        set_speeds();
        continue;
      }
      const double end = now_ + static_cast<double>(price.cost);
      ready_[n] = end + static_cast<double>(price.delay);
      if (ready_[n] > now_) {
        timed_.push({ready_[n], node, false});
      } else {
        wake(node);
      }
      if (price.cost > 0) {
        lane.running = true;
        timed_.push({end, node, true});
      }
    }
  }

  const SimulationPlan& plan_;
  const std::vector<SimulationPlan::Price>& prices_;
  Cores cores_;
  double now_ = 0;
  std::vector<Lane> lanes_;
  std::vector<std::int32_t> next_waiter_;   // by lane
  std::vector<std::int32_t> first_waiter_;  // by node
  std::vector<Work> working_;               // at most one per rank
  std::priority_queue<Timed, std::vector<Timed>, std::greater<>> timed_;
  std::vector<double> ready_;  // ticks, of nodes
  std::vector<double> start_;
};

}  // namespace

SharedTimes share_processors(const SimulationPlan& plan, const std::vector<SimulationPlan::Price>& prices,
                             int processors, int processes_per_rank) {
  return SharedSimulation(plan, prices, processors, processes_per_rank).run();
}

}  // namespace plumbline
