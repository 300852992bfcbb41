// Makespan of interleaved 1F1B (arXiv:2104.04473 §2.2) by a recurrence of its own: as exact as a walk over
// the schedule's actions, without the walk.
#pragma once

#include <vector>

namespace plumbline::cluster {

/// An interleaved pipeline whose groups are as large as the pipeline.
struct InterleavedSize {
  int ranks = 2;
  int microbatches = 2;  // a multiple of `ranks`
  int chunks = 2;        // stages of a rank
};

/// Seconds of the first stage, of the last, of all others, and of a message to a neighbour.
struct InterleavedCosts {
  double first_forward = 0, first_backward = 0;
  double middle_forward = 0, middle_backward = 0;
  double last_forward = 0, last_backward = 0;
  double message = 0;
};

/// The end of the last backward of the schedule `interleaved` of schedules/, as the simulator gives it.
///
/// All ranks do their forwards in one order and their backwards in one order; the j-th backward of rank r
/// comes after its forward number j + 2(P-1-r) + (V-1)P, V stages to a rank. Call the two a slot, and count
/// slots along a wave, t = j + (P-1-r): then everything that wave t waits for happened in wave t-1, a forward
/// at the left neighbour and a backward at the right one, around the ring. So a wave is two passes over P
/// numbers. A group of V·P waves in the middle often moves every clock on by the same time; the groups after
/// it do the same and are skipped.
class InterleavedTime {
 public:
  /// At least two ranks. Allocates only when the pipeline is larger than any before.
  double seconds(const InterleavedSize& size, const InterleavedCosts& costs);

 private:
  void forward(int begin, int end, double message);
  void backward(int begin, int end, double message);
  /// Whether all times moved on by the same since the last call; by how much.
  bool moved_together(double& by);
  void move(double by);
  /// Two ranks are each other's left and right neighbour: one link each way.
  std::vector<double>& leftward() { return ranks_ == 2 ? right_ : left_; }

  int ranks_ = 0;
  // Times by rank: end of its last action, of its last message to the right and to the left; arrival of what
  // its next forward waits for, and its next backward; the same two for the wave after.
  std::vector<double> clock_, right_, left_, forward_in_, backward_in_, forward_next_, backward_next_;
  std::vector<double> forward_cost_, backward_cost_;  // of this wave's slot
  std::vector<double> before_;                        // times a group ago
};

}  // namespace plumbline::cluster
