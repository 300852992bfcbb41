// Tables of measured times and how they are read between and beyond their points.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/units.hpp"

namespace plumbline {

/// Time as a function of one size. Between points: linear in the logarithms of both. Below the first point:
/// the first time (a small call is all overhead). Above the last: in proportion to the size.
struct Curve {
  std::vector<double> sizes;    // ascending, positive
  std::vector<double> seconds;  // one per size, positive
  /// Spread between measurements at each size, relative; 0: only one measurement, or a neighbour's. Empty:
  /// unknown.
  std::vector<double> spread{};
  bool empty() const { return sizes.empty(); }
  Seconds at(double size) const;
};

/// The curve latency + size / rate, sampled densely enough that reading it back is exact within 1 %.
Curve affine_curve(double latency_s, double size_per_s);

/// Times on a grid of up to three sizes. Between points: multilinear in the logarithms. Below an axis' first
/// point the *time* is constant (a small call is all overhead); above the last one the *rate* is: time in
/// proportion to the size.
struct Grid {
  std::vector<double> x, y, z;   // ascending, positive; an axis of one point is constant
  std::vector<double> seconds;   // x.size()·y.size()·z.size(), z fastest
  std::vector<double> spread{};  // as in a Curve
  bool empty() const { return seconds.empty(); }
  Seconds at(double x_size, double y_size, double z_size) const;
};

/// Cache level of operands, by the bytes that a process touches between two uses of them. A level is a
/// position in a list of tables: 0 is the first, 1.25 a quarter of the way from the second to the third.
/// Measured, because caches are shared, also with other programs. Between points linear in the logarithm of
/// the bytes, beyond them constant.
struct CacheLevels {
  std::vector<double> bytes;  // ascending, positive
  std::vector<double> level;  // one per size, not descending
  bool empty() const { return bytes.empty(); }
  double at(double distance) const;
};

}  // namespace plumbline
