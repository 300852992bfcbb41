// The ranks that keep the other processors busy, or leave them idle, while rank 0 measures.
#pragma once

#include <vector>

#include "bench/measure/calibrate/cells/cells.hpp"

namespace plumbline::calibration {

/// Rank 0's side.
class Followers {
 public:
  Followers();
  /// Sends them home.
  ~Followers();
  Followers(const Followers&) = delete;
  Followers& operator=(const Followers&) = delete;

  bool any() const { return count_ > 0; }
  /// They lay out the cell's operands.
  void announce(int cell);
  /// Returns when all of them repeat the announced cell.
  void start();
  /// Returns when none of them does any more: they sleep.
  void stop();
  /// Time of one message of 4 KiB to rank 1, half of the median round trip; NaN without one. They sleep
  /// before and after.
  double message_seconds();
  /// Processor time of all of them since they began.
  double processor_seconds();

 private:
  void tell(int command);
  void hear();

  int count_ = 0;
};

/// Loop of every other rank until rank 0 is done.
void follow(const std::vector<Cell>& cells);

}  // namespace plumbline::calibration
