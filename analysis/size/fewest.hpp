// The fewest GPUs that end a training in time, over counts of which each takes a search to price.
#pragma once

#include <functional>
#include <vector>

namespace plumbline {

/// Counts of GPUs worth trying, ascending up to `most`: 1, 2 and 4 GPUs of a node that has as many, 1 to 8
/// nodes, then 8, 9, 10, 12, 14 and 15 times each power of two: others divide few batches and layouts.
std::vector<int> count_ladder(int gpus_per_node, int most);

struct FewestQuestion {
  std::vector<int> counts;  // ascending
  double days = 0;          // limit
  /// Days of a training on this many GPUs; infinite: nothing fits them, or no layout. Called again for the
  /// same count: remember costly answers.
  std::function<double(int gpus)> days_of;
  int guess = 1;  // count to begin with
  /// A smaller count may need as many GPU-days less, as a share, than those above it; powers of two and three
  /// times them more, since they divide most batches.
  double slack = 0.05;
  double round_slack = 0.35;
};

/// The first of the counts that ends in `days`; 0: none of those tried does. GPU-days grow slowly with the
/// count, which gives the next count to try: about six are. Counts that divide the batch badly take longer,
/// so smaller ones are tried while GPU-days of a larger one, less the slack, would do.
int fewest_in_time(const FewestQuestion& question);

}  // namespace plumbline
