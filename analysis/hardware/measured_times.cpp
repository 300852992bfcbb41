#include "analysis/hardware/measured_times.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace plumbline {
namespace {

/// Position of a size on an axis: between points `low` and `high`, at fraction `weight` in the logarithm.
struct Place {
  std::size_t low = 0;
  std::size_t high = 0;
  double weight = 0;
  double clamped = 1;  // the size moved into the axis
};

Place find(const std::vector<double>& axis, double size) {
  Place place;
  place.clamped = std::clamp(size, axis.front(), axis.back());
  const auto above = std::lower_bound(axis.begin(), axis.end(), place.clamped);
  place.high = static_cast<std::size_t>(above - axis.begin());
  place.low = place.high > 0 && axis[place.high] > place.clamped ? place.high - 1 : place.high;
  if (place.low != place.high) {
    place.weight = std::log(place.clamped / axis[place.low]) / std::log(axis[place.high] / axis[place.low]);
  }
  return place;
}

}  // namespace

Seconds Curve::at(double size) const {
  if (empty() || size <= 0) return {0};
  const Place place = find(sizes, size);
  const double inside = std::exp((1 - place.weight) * std::log(seconds[place.low]) +
                                 place.weight * std::log(seconds[place.high]));
  return {inside * std::max(1.0, size / sizes.back())};
}

Curve affine_curve(double latency_s, double size_per_s) {
  Curve curve;
  constexpr int kPoints = 86;  // from 1 to beyond 10^15
  for (int i = 0; i < kPoints; ++i) {
    const double size = std::pow(1.5, i);
    curve.sizes.push_back(size);
    curve.seconds.push_back(latency_s + size / size_per_s);
  }
  return curve;
}

double CacheLevels::at(double distance) const {
  if (empty()) return 0;
  if (distance <= 0) return level.front();
  const Place place = find(bytes, distance);
  return (1 - place.weight) * level[place.low] + place.weight * level[place.high];
}

Seconds Grid::at(double x_size, double y_size, double z_size) const {
  if (empty() || x_size <= 0 || y_size <= 0 || z_size <= 0) return {0};
  const Place px = find(x, x_size);
  const Place py = find(y, y_size);
  const Place pz = find(z, z_size);
  double log_seconds = 0;
  for (int corner = 0; corner < 8; ++corner) {
    const bool hx = (corner & 1) != 0;
    const bool hy = (corner & 2) != 0;
    const bool hz = (corner & 4) != 0;
    const double weight = (hx ? px.weight : 1 - px.weight) * (hy ? py.weight : 1 - py.weight) *
                          (hz ? pz.weight : 1 - pz.weight);
    if (weight <= 0) continue;
    const std::size_t index =
        ((hx ? px.high : px.low) * y.size() + (hy ? py.high : py.low)) * z.size() + (hz ? pz.high : pz.low);
    log_seconds += weight * std::log(seconds[index]);
  }
  const auto beyond = [](double size, const Place& place) { return std::max(1.0, size / place.clamped); };
  const double outside = beyond(x_size, px) * beyond(y_size, py) * beyond(z_size, pz);
  return {std::exp(log_seconds) * outside};
}

}  // namespace plumbline
