#include "analysis/cluster/interleaved_time.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace plumbline::cluster {
namespace {

/// Differences of times that are equal but for rounding.
constexpr double kRounding = 1e-13;

}  // namespace

void InterleavedTime::forward(int begin, int end, double message) {
  double* clock = clock_.data();
  double* link = right_.data();
  const double* in = forward_in_.data();
  const double* cost = forward_cost_.data();
  double* out = forward_next_.data() + 1;
#pragma GCC ivdep
  for (int rank = begin; rank < end; ++rank) {
    clock[rank] = std::max(clock[rank], in[rank]) + cost[rank];
    link[rank] = std::max(link[rank], clock[rank]) + message;
    out[rank] = link[rank];
  }
  forward_next_[0] = out[ranks_ - 1];
  std::swap(forward_in_, forward_next_);
}

void InterleavedTime::backward(int begin, int end, double message) {
  double* clock = clock_.data();
  double* link = leftward().data();
  const double* in = backward_in_.data() + 1;
  const double* cost = backward_cost_.data();
  double* out = backward_next_.data();
#pragma GCC ivdep
  for (int rank = begin; rank < end; ++rank) {
    clock[rank] = std::max(clock[rank], in[rank]) + cost[rank];
    link[rank] = std::max(link[rank], clock[rank]) + message;
    out[rank] = link[rank];
  }
  backward_next_[static_cast<std::size_t>(ranks_)] = out[0];
  std::swap(backward_in_, backward_next_);
}

bool InterleavedTime::moved_together(double& by) {
  const std::vector<double>* const times[] = {&clock_, &right_, &left_, &forward_in_, &backward_in_};
  by = clock_[0] - before_[0];
  const double rounding = kRounding * clock_[0];
  bool together = true;
  double* before = before_.data();
  for (const std::vector<double>* list : times) {
    for (int rank = 0; rank < ranks_; ++rank) {
      const double now = (*list)[static_cast<std::size_t>(rank)];
      together = together && std::abs(now - *before - by) <= rounding;
      *before++ = now;
    }
  }
  return together;
}

void InterleavedTime::move(double by) {
  for (std::vector<double>* list : {&clock_, &right_, &left_, &forward_in_, &backward_in_}) {
    for (double& time : *list) time += by;
  }
}

double InterleavedTime::seconds(const InterleavedSize& size, const InterleavedCosts& costs) {
  const int ranks = size.ranks;
  const int group = size.chunks * ranks;
  const int passes = size.microbatches * size.chunks;
  ranks_ = ranks;
  const auto count = static_cast<std::size_t>(ranks);
  for (std::vector<double>* list : {&clock_, &right_, &left_}) list->assign(count, 0.0);
  for (std::vector<double>* list : {&forward_in_, &backward_in_, &forward_next_, &backward_next_}) {
    list->assign(count + 1, 0.0);
  }
  forward_cost_.assign(count, costs.middle_forward);
  backward_cost_.assign(count, costs.middle_backward);
  before_.assign(5 * count, 0.0);
  const int last = ranks - 1;
  int phase = 1;  // of the wave in its group
  for (int wave = 1 - group; wave < passes + last; ++wave, phase = phase + 1 == group ? 0 : phase + 1) {
    // In this wave rank 0 does its forward number wave + group - 1, every other rank the one before its left
    // neighbour's; the last rank its backward number `wave`, every other rank the one before its right
    // neighbour's. Groups of forwards begin with stage 0, groups of backwards with the last stage.
    const int newest = wave + group - 1;
    const bool enters = phase > 0 ? phase <= ranks : ranks == group;
    const bool turns = phase < ranks;
    forward_cost_.front() = enters ? costs.first_forward : costs.middle_forward;
    forward_cost_.back() = turns ? costs.last_forward : costs.middle_forward;
    if (enters) forward_in_.front() = 0;
    const double right = right_.back();
    forward(std::max(0, newest - passes + 1), std::min(ranks, newest + 1), costs.message);
    if (turns) right_.back() = right;  // the last stage sends nothing on
    if (wave < 0) continue;
    const int behind = phase >= last ? phase - last : phase - last + group;
    const bool ends = behind >= group - ranks;
    backward_cost_.front() = ends ? costs.first_backward : costs.middle_backward;
    backward_cost_.back() = turns ? costs.last_backward : costs.middle_backward;
    if (turns) backward_in_.back() = 0;
    const double left = leftward().front();
    backward(std::max(0, last - wave), std::min(ranks, passes - wave + last), costs.message);
    if (ends) leftward().front() = left;
    double by = 0;
    if (phase != group - 1 || newest >= passes || !moved_together(by)) continue;
    // Groups whose every forward is still to come do the same again.
    const int groups = (passes - 1 - newest) / group;
    move(groups * by);
    wave += groups * group;
  }
  return *std::max_element(clock_.begin(), clock_.end());
}

}  // namespace plumbline::cluster
