// Change points of noisy series: steps of the level that noise does not explain.
#pragma once

#include <cstddef>
#include <vector>

namespace plumbline {

/// A step of one series' level.
struct ChangePoint {
  std::size_t series = 0;
  std::size_t at = 0;  // first value of the new level
  double before = 0;   // geometric means of the levels on both sides
  double after = 0;
  double probability = 1;  // that noise alone steps as far anywhere in the history
  double relative() const { return after / before - 1; }
};

struct ChangeRule {
  double significance = 0.001;  // largest probability of a change, over all series and places together
  double tolerance = 0.02;      // smallest relative step
};

/// Changes of all series, by series and place. Values are positive, NaN: missing; noise is relative. Series
/// are split into a common part, such as the machine's state, and their own rests. Both are
/// searched for levels, the most significant first: rests with the noise of all series as a prior
/// (noise_prior.hpp), the common part with its own noise only. A series has a change where it steps itself by
/// the tolerance. Noise is taken as normal: values of heavy tails (Student's t, 4 degrees of freedom) make
/// false alarms 13 to 32 times as frequent.
std::vector<ChangePoint> change_points(const std::vector<std::vector<double>>& series,
                                       const ChangeRule& rule = {});

}  // namespace plumbline
