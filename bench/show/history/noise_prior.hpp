// Noise of a few values, judged with the noise of many similar series: a moderated t-test.
#pragma once

#include <cstddef>
#include <vector>

namespace plumbline {

/// An estimate of a variance: sum of squares and its degrees of freedom.
struct Squares {
  double sum = 0;
  double freedom = 0;
};

/// Variances of series as draws of a scaled inverse chi-squared distribution (Smyth, Linear models and
/// empirical Bayes methods, 2004, doi 10.2202/1544-6115.1027). Few series say little about its scale and
/// degrees of freedom: they are averaged over by their likelihood. Series of alike noise give almost normal
/// tails, unlike ones Student's of their own few values. A single series of three times the noise of all
/// others is no such draw: its false alarms are up to three times as frequent.
class NoisePrior {
 public:
  explicit NoisePrior(std::vector<Squares> all);
  /// Probability that noise alone makes a larger contrast in one of the series, by absolute value. The
  /// contrast is divided by its standard deviation at unit noise; `own`: noise of the series, independent of
  /// it. A result above `enough` is a lower bound.
  double tails(std::size_t series, double contrast, const Squares& own, double enough) const;

 private:
  struct Point {
    double freedom;
    double variance;
    double log_likelihood;  // of the noise of all series
  };

  std::vector<Squares> all_;
  std::vector<Point> points_;
};

/// Probability that |t| of Student's distribution is larger.
double student_tails(double t, double freedom);

}  // namespace plumbline
