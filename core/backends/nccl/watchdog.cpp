#include "core/backends/nccl/watchdog.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <set>
#include <string_view>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/hash.hpp"
#include "core/base/run_parallel.hpp"

namespace plumbline {
namespace {

constexpr double kSilence = 2;  // seconds without its watchdog after which a process is taken for stopped

double monotonic_seconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double seconds_since(const std::atomic<std::int64_t>& monotonic_ns) {
  return monotonic_seconds() - static_cast<double>(monotonic_ns.load(std::memory_order_relaxed)) * 1e-9;
}

/// A fixed hash, so that all members number a lane alike without asking each other. Never 0.
std::uint64_t identity_of(std::string_view name, const std::vector<int>& members) {
  std::uint64_t hash = fnv1a(name);
  for (const int member : members) hash = fnv1a_step(hash, static_cast<std::uint64_t>(member) + 256);
  return hash == 0 ? 1 : hash;
}

/// Operations that `entry`'s rank has started in the lane; nothing when it does not publish it.
const std::atomic<std::uint64_t>* started_in(const BoardEntry& entry, std::uint64_t identity) {
  for (std::size_t i = 0; i < entry.lane.size(); ++i) {
    if (entry.lane[i].load(std::memory_order_acquire) == identity) return &entry.started[i];
  }
  return nullptr;
}

}  // namespace

Watchdog::Watchdog(int rank, WaitBoard& board, WatchedTransport transport, const WatchdogOptions& options)
    : rank_(rank), board_(board), transport_(std::move(transport)), options_(options) {
  thread_ = needed_thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  std::thread aborting;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    aborting.swap(aborting_);
  }
  if (aborting.joinable()) aborting.join();  // while it is watched
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

int Watchdog::add_lane(const std::string& name, const std::vector<int>& members) {
  const std::lock_guard lock(mutex_);
  const std::size_t index = lanes_.size();
  lanes_.push_back({name, members, identity_of(name, members), 0});
  if (index < kBoardLanes) {
    board_.mine().lane[index].store(lanes_.back().identity, std::memory_order_release);
  }
  return static_cast<int>(index);
}

void Watchdog::begin_action(const Action& action) {
  std::string name = to_string(action);
  board_.set_action(name);
  const std::lock_guard lock(mutex_);
  action_ = std::move(name);
}

void Watchdog::end_action() {
  board_.set_action("");
  const std::lock_guard lock(mutex_);
  action_.clear();
}

void Watchdog::started(int lane, const char* call, std::shared_ptr<void> token) {
  board_.beat();
  const std::lock_guard lock(mutex_);
  Lane& in = lanes_[static_cast<std::size_t>(lane)];
  ++in.operations;
  if (lane < kBoardLanes) {
    board_.mine().started[static_cast<std::size_t>(lane)].store(in.operations, std::memory_order_release);
  }
  operations_.push_back({lane, in.operations, call, action_, std::move(token)});
}

void Watchdog::check() const {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) return;
  noticed_ = true;
  throw Error(failure_);
}

std::size_t Watchdog::under_way() const {
  const std::lock_guard lock(mutex_);
  return operations_.size();
}

bool Watchdog::drop_ended() {
  // The first of a lane that has not ended holds back the others of the lane: nothing needs to be asked.
  std::set<int> held;
  bool any = false;
  for (auto it = operations_.begin(); it != operations_.end();) {
    if (held.count(it->lane) == 0 && transport_.ended(it->token)) {
      it = operations_.erase(it);
      any = true;
    } else {
      held.insert(it->lane);
      ++it;
    }
  }
  return any;
}

std::string Watchdog::describe(const Operation& operation, bool& explained) const {
  const Lane& lane = lanes_[static_cast<std::size_t>(operation.lane)];
  std::string text = fmt::format("{} of {} (number {})", operation.call, lane.name, operation.number);
  if (!operation.action.empty()) text += fmt::format(" in action {}", operation.action);
  std::string late;
  bool all_known = true;
  for (const int member : lane.members) {
    if (member == rank_) continue;
    const BoardEntry* entry = board_.of(member);
    const auto* reached = entry == nullptr ? nullptr : started_in(*entry, lane.identity);
    if (reached == nullptr) {
      all_known = false;
      continue;
    }
    const char* separator = late.empty() ? "" : ", ";
    const double silent = seconds_since(entry->alive_ns);
    if (reached->load(std::memory_order_acquire) < operation.number) {
      const std::string action = action_of(*entry);
      late += fmt::format("{}rank {} has not reached it ({}, nothing new from it for {:.1f} s)", separator,
                          member, action.empty() ? "outside of any action" : "in action " + action,
                          seconds_since(entry->heartbeat_ns));
    } else if (silent > kSilence) {
      late += fmt::format("{}rank {} has started it, but its process has not run for {:.1f} s", separator,
                          member, silent);
    }
  }
  explained = !late.empty();
  if (explained) return text + ": " + late;
  return text + (all_known ? ": all members have started it" : ": its members on other hosts are not known");
}

std::string Watchdog::stuck(double waited) const {
  // The oldest operation of each lane; one that a member has not reached explains the others.
  std::string named;
  std::string others;
  std::set<int> seen;
  for (const Operation& operation : operations_) {
    if (!seen.insert(operation.lane).second) continue;
    bool explained = false;
    const std::string text = describe(operation, explained);
    std::string& list = explained ? named : others;
    list += (list.empty() ? "" : "; ") + text;
  }
  return fmt::format("rank {} has waited {:.1f} s for {}", rank_, waited, named.empty() ? others : named);
}

void Watchdog::fail(const std::string& line) {
  failure_ = line;
  operations_.clear();
}

void Watchdog::watch() {
  transport_.begins();
  double last_progress = monotonic_seconds();
  double failed_at = 0;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    wake_.wait_for(lock, std::chrono::duration<double>(options_.poll.value), [this] { return stop_; });
    if (stop_) return;
    board_.alive();
    const double now = monotonic_seconds();
    if (!failure_.empty()) {
      if (now - failed_at < (noticed_ ? 2 : 1) * options_.grace.value) continue;
      const std::string failure = failure_;
      lock.unlock();
      transport_.give_up(failure);
      return;
    }
    if (drop_ended() || operations_.empty()) last_progress = now;
    const std::string error = transport_.asynchronous_error();
    const double waited = now - last_progress;
    if (ending_ || (error.empty() && waited < options_.timeout.value)) continue;
    fail(error.empty() ? stuck(waited)
                       : fmt::format("rank {}: {}{}", rank_, error,
                                     operations_.empty() ? "" : "; in progress: " + stuck(waited)));
    failed_at = now;
    aborting_ = thread_if_possible([this] {  // without one: given up after the grace
      transport_.begins();
      transport_.abort();
    });
  }
}

}  // namespace plumbline
