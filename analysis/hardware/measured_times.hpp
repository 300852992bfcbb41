// Tables of measured times and how they are read between and beyond their points.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/units.hpp"

namespace plumbline {

/// Time as a function of one size. Between points: linear in the logarithms of both. Below the first point:
/// the first time (what is left of a small call is its overhead). Above the last: in proportion to the size.
struct Curve {
  std::vector<double> sizes;    // ascending, positive
  std::vector<double> seconds;  // as many, positive
  /// How far apart looks at each were, as a share of it; 0: only one look, or taken from a neighbour. Empty: not known.
  std::vector<double> spread{};
  bool empty() const { return sizes.empty(); }
  Seconds at(double size) const;
};

/// The curve latency + size / rate, sampled densely enough that reading it back is exact within 1 %.
Curve affine_curve(double latency_s, double size_per_s);

/// Times on a grid of up to three sizes. Between points: multilinear in the logarithms. Below the first point of an
/// axis its *time* is kept (what is left of a small call is its overhead), above the last one its *rate*: time in
/// proportion to the size.
struct Grid {
  std::vector<double> x, y, z;   // ascending, positive; an axis of one point is constant
  std::vector<double> seconds;   // x.size()·y.size()·z.size(), z fastest
  std::vector<double> spread{};  // as in a Curve
  bool empty() const { return seconds.empty(); }
  Seconds at(double x_size, double y_size, double z_size) const;
};

/// Where operands come from, by how many bytes a process touches between two uses of them: the level of a list of tables, of
/// which 0 is the first, 1.25 a quarter of the way from the second to the third. Caches are not full at their size alone: they are
/// shared, with other programs too, so this is measured. Between points linear in the logarithm of the bytes, beyond them as
/// there.
struct CacheLevels {
  std::vector<double> bytes;  // ascending, positive
  std::vector<double> level;  // as many, not descending
  bool empty() const { return bytes.empty(); }
  double at(double distance) const;
};

}  // namespace plumbline
