#include "analysis/silicon/time_grid.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace plumbline::silicon {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kMostAxes = 6;

double coordinate(Spacing spacing, double value) {
  switch (spacing) {
    case Spacing::logarithmic:
      return std::log(value);
    case Spacing::linear:
      return value;
    case Spacing::inverse:
      return 1 / value;
  }
  return value;
}

}  // namespace

std::string_view name_of(Basis basis) {
  switch (basis) {
    case Basis::measured:
      return "measured";
    case Basis::interpolated:
      return "interpolated";
    case Basis::estimated:
      return "estimated";
  }
  return "";
}

TimeGrid::TimeGrid(std::vector<Axis> axes) : axes_(std::move(axes)), strides_(axes_.size()) {
  if (axes_.empty() || axes_.size() > kMostAxes)
    throw std::invalid_argument("TimeGrid: expected one to six axes");
  std::size_t points = 1;
  for (std::size_t d = axes_.size(); d-- > 0;) {
    const std::vector<double>& values = axes_[d].values;
    const bool ascending =
        std::adjacent_find(values.begin(), values.end(), std::greater_equal<>()) == values.end();
    if (values.empty() || values.front() <= 0 || !ascending) {
      throw std::invalid_argument("TimeGrid: expected ascending positive values");
    }
    strides_[d] = points;
    points *= values.size();
  }
  logs_.assign(points, kUnknown);
  basis_.assign(points, Basis::estimated);
}

std::size_t TimeGrid::index_of(std::span<const std::size_t> point) const {
  std::size_t index = 0;
  for (std::size_t d = 0; d < axes_.size(); ++d) index += point[d] * strides_[d];
  return index;
}

void TimeGrid::set(std::span<const std::size_t> point, double seconds) {
  const std::size_t index = index_of(point);
  logs_.at(index) = std::log(seconds);
  basis_[index] = Basis::measured;
}

/// Logarithm of the time at `value` on the line through two points of an axis. Linear extrapolation could
/// reach zero, so beyond the points logarithms are used.
double TimeGrid::between(const Axis& axis, std::size_t low, std::size_t high, double value, double low_log,
                         double high_log) const {
  const double from = axis.values[low], to = axis.values[high];
  const bool inside = value >= std::min(from, to) && value <= std::max(from, to);
  const Spacing spacing = inside ? axis.spacing : Spacing::logarithmic;
  const double x = (coordinate(spacing, value) - coordinate(spacing, from)) /
                   (coordinate(spacing, to) - coordinate(spacing, from));
  if (spacing == Spacing::logarithmic) return low_log + x * (high_log - low_log);
  return std::log((1 - x) * std::exp(low_log) + x * std::exp(high_log));
}

/// Sets next_ from the known points along each axis; false if there are none. `beyond`: also past the last
/// known point.
bool TimeGrid::estimate(std::size_t index, bool beyond) {
  double sum = 0, weights = 0;
  bool inside = false;
  const auto add = [&](const Axis& axis, std::size_t place, std::size_t low, std::size_t high,
                       std::size_t first, std::size_t stride) {
    const double distance = std::log(axis.values[high] / axis.values[low]);
    const double weight = 1 / (distance * distance);
    sum += weight * between(axis, low, high, axis.values[place], logs_[first + low * stride],
                            logs_[first + high * stride]);
    weights += weight;
  };
  const auto each = [&](bool outside) {
    for (std::size_t d = 0; d < axes_.size(); ++d) {
      const Axis& axis = axes_[d];
      const std::size_t stride = strides_[d], count = axis.values.size();
      const std::size_t place = index / stride % count, first = index - place * stride;
      const auto known = [&](std::size_t i) { return !std::isnan(logs_[first + i * stride]); };
      std::array<std::size_t, 2> below{count, count}, above{count, count};  // the nearest two
      for (std::size_t i = place; i-- > 0 && below[1] == count;) {
        if (known(i)) (below[0] == count ? below[0] : below[1]) = i;
      }
      for (std::size_t i = place + 1; i < count && above[1] == count; ++i) {
        if (known(i)) (above[0] == count ? above[0] : above[1]) = i;
      }
      if (!outside && below[0] != count && above[0] != count) {
        add(axis, place, below[0], above[0], first, stride);
        inside = true;
      } else if (outside && above[0] == count && below[1] != count) {
        add(axis, place, below[1], below[0], first, stride);
      } else if (outside && below[0] == count && above[1] != count) {
        add(axis, place, above[0], above[1], first, stride);
      }
    }
  };
  each(false);
  if (weights == 0 && beyond) each(true);
  if (weights == 0) return false;
  next_[index] = sum / weights;
  basis_[index] = inside && !beyond ? Basis::interpolated : Basis::estimated;
  return true;
}

void TimeGrid::fill() {
  bool beyond = false;
  while (true) {
    next_ = logs_;
    bool found = false, left = false;
    for (std::size_t index = 0; index < logs_.size(); ++index) {
      if (!std::isnan(logs_[index])) continue;
      (estimate(index, beyond) ? found : left) = true;
    }
    logs_.swap(next_);
    if (!left) break;
    if (!found && beyond) break;
    if (!found) beyond = true;
  }
  // Points without a neighbour along any axis (an axis of one known point) take their nearest known point in
  // memory order.
  double last = kUnknown;
  for (double& value : logs_) {
    if (std::isnan(value)) value = last;
    last = value;
  }
  for (std::size_t i = logs_.size(); i-- > 0;) {
    if (std::isnan(logs_[i])) logs_[i] = last;
    last = logs_[i];
  }
  next_.clear();
}

std::optional<TimeGrid::At> TimeGrid::at(std::span<const double> point) const {
  if (std::isnan(logs_.front())) return std::nullopt;
  At found;
  std::array<std::size_t, kMostAxes> low{}, high{};
  std::array<bool, kMostAxes> on_line{};
  for (std::size_t d = 0; d < axes_.size(); ++d) {
    const std::vector<double>& values = axes_[d].values;
    const double value = std::clamp(point[d], values.front(), values.back());
    if (value != point[d]) found.basis = Basis::estimated;
    found.at.push_back(value);
    const auto above = std::lower_bound(values.begin(), values.end(), value);
    high[d] = static_cast<std::size_t>(above - values.begin());
    on_line[d] = *above == value;
    low[d] = on_line[d] ? high[d] : high[d] - 1;
  }
  // One axis after the other: 2^n corners become half as many, down to one.
  std::array<double, std::size_t{1} << kMostAxes> logs{};
  const std::size_t corners = std::size_t{1} << axes_.size();
  for (std::size_t corner = 0; corner < corners; ++corner) {
    std::size_t index = 0;
    for (std::size_t d = 0; d < axes_.size(); ++d)
      index += (corner >> d & 1 ? high[d] : low[d]) * strides_[d];
    logs[corner] = logs_[index];
    found.basis = std::max(found.basis, basis_[index]);
  }
  std::size_t left = corners;
  for (std::size_t d = 0; d < axes_.size(); ++d) {
    left /= 2;
    for (std::size_t i = 0; i < left; ++i) {
      const double a = logs[2 * i], b = logs[2 * i + 1];
      logs[i] = on_line[d] ? a : between(axes_[d], low[d], high[d], found.at[d], a, b);
    }
    if (!on_line[d]) found.basis = std::max(found.basis, Basis::interpolated);
  }
  found.seconds = std::exp(logs[0]);
  return found;
}

}  // namespace plumbline::silicon
