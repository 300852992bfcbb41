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

bool is_logarithmic(const Axis& axis) {
  return axis.spacing == Spacing::logarithmic;
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

TimeGrid::TimeGrid(std::vector<Axis> axes, SecondsOfPoint model)
    : axes_(std::move(axes)), model_(std::move(model)), strides_(axes_.size()) {
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
  for (const Axis& axis : axes_) {
    std::vector<double>& of = coordinates_.emplace_back();
    for (const double value : axis.values) of.push_back(coordinate(axis.spacing, value));
  }
  ratios_ = model_ != nullptr && std::all_of(axes_.begin(), axes_.end(), is_logarithmic);
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
  logs_.at(index) = std::log(seconds) - (ratios_ ? model_log(index) : 0);
  basis_[index] = Basis::measured;
}

double TimeGrid::model_log(std::size_t index) const {
  std::array<double, kMostAxes> point{};
  for (std::size_t d = 0; d < axes_.size(); ++d)
    point[d] = axes_[d].values[index / strides_[d] % axes_[d].values.size()];
  return std::log(model_({point.data(), axes_.size()}));
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

/// Logarithm of the time beyond two points of a linear axis. The fixed part is spent, so times go on at their
/// last slope: at least the model's, `expected` seconds more, and at most in proportion to the size.
double TimeGrid::beyond(double low, double high, double value, double low_log, double high_log,
                        double expected) {
  const double last = std::exp(high_log);
  const double more = (last - std::exp(low_log)) * (value - high) / (high - low);
  return std::log(std::min(last + std::max(more, expected), last * value / high));
}

/// Nearest two known points of an axis on either side of another one; `count`: there is none.
struct TimeGrid::Known {
  std::size_t count = 0, place = 0, first = 0, stride = 0;
  std::array<std::size_t, 2> below{}, above{};

  bool both() const { return below[0] != count && above[0] != count; }
  std::size_t index_of(std::size_t i) const { return first + i * stride; }
};

TimeGrid::Known TimeGrid::known_from(std::size_t index, std::size_t d) const {
  Known k;
  k.stride = strides_[d], k.count = axes_[d].values.size();
  k.place = index / k.stride % k.count, k.first = index - k.place * k.stride;
  k.below = k.above = {k.count, k.count};
  const auto is_known = [&](std::size_t i) { return !std::isnan(logs_[k.index_of(i)]); };
  for (std::size_t i = k.place; i-- > 0 && k.below[1] == k.count;) {
    if (is_known(i)) (k.below[0] == k.count ? k.below[0] : k.below[1]) = i;
  }
  for (std::size_t i = k.place + 1; i < k.count && k.above[1] == k.count; ++i) {
    if (is_known(i)) (k.above[0] == k.count ? k.above[0] : k.above[1]) = i;
  }
  return k;
}

/// Sets next_ from known points; false if there are none. `extend`: also past an axis's last known point.
bool TimeGrid::estimate(std::size_t index, bool extend) {
  double sum = 0, weights = 0;
  const auto add = [&](double value, double over, double share = 1) {
    const double weight = share / (over * over);
    sum += weight * value, weights += weight;
  };
  std::array<Known, kMostAxes> known;
  const auto distance = [&](std::size_t d, std::size_t from, std::size_t to) {
    return std::abs(std::log(axes_[d].values[to] / axes_[d].values[from]));
  };
  const auto line = [&](std::size_t d, std::size_t low, std::size_t high) {
    const Known& k = known[d];
    add(between(axes_[d], low, high, axes_[d].values[k.place], logs_[k.index_of(low)],
                logs_[k.index_of(high)]),
        distance(d, low, high));
  };
  for (std::size_t d = axes_.size(); d-- > 0;) {
    known[d] = known_from(index, d);
    if (known[d].both()) line(d, known[d].below[0], known[d].above[0]);
    // Times with a fixed part and one in proportion to the last axis follow from that axis alone.
    if (weights > 0 && in_proportion(d)) break;
  }
  const bool inside = weights > 0;
  // A corner's plane: what one step changes next to the point, it changes here.
  const auto plane = [&](std::size_t d, std::size_t e, std::size_t u, std::size_t v) {
    if (u == known[d].count || v == known[e].count) return;
    const std::size_t a = known[d].index_of(u), b = known[e].index_of(v), corner = a + b - index;
    if (std::isnan(logs_[corner])) return;
    constexpr double kShare = 0.25;  // of four corners
    add(logs_[a] + logs_[b] - logs_[corner], distance(d, known[d].place, u) + distance(e, known[e].place, v),
        kShare);
  };
  for (std::size_t d = 0; inside && d < axes_.size(); ++d) {
    for (std::size_t e = d + 1; e < axes_.size(); ++e) {
      if (!is_logarithmic(axes_[d]) || !is_logarithmic(axes_[e])) continue;
      for (const std::size_t u : {known[d].below[0], known[d].above[0]}) {
        for (const std::size_t v : {known[e].below[0], known[e].above[0]}) plane(d, e, u, v);
      }
    }
  }
  for (std::size_t d = axes_.size(); !inside && extend && d-- > 0;) {
    const Known& k = known[d];
    const auto& side = k.below[0] != k.count ? k.below : k.above;
    if (side[0] == k.count) continue;
    if (in_proportion(d) && k.below[1] != k.count) {
      const std::vector<double>& sizes = axes_[d].values;
      const std::size_t far = k.index_of(side[1]), near = k.index_of(side[0]);
      const double expected = model_ == nullptr ? 0 : std::exp(model_log(index)) - std::exp(model_log(near));
      add(beyond(sizes[side[1]], sizes[side[0]], sizes[k.place], logs_[far], logs_[near], expected),
          distance(d, k.place, side[0]));
      break;
    }
    if (model_ != nullptr) {
      const std::size_t near = k.index_of(side[0]);
      add(logs_[near] + (ratios_ ? 0 : model_log(index) - model_log(near)), distance(d, k.place, side[0]));
    } else if (side[1] != k.count) {
      line(d, std::min(side[0], side[1]), std::max(side[0], side[1]));
    }
  }
  if (weights == 0) return false;
  next_[index] = sum / weights;
  basis_[index] = inside && !extend ? Basis::interpolated : Basis::estimated;
  return true;
}

void TimeGrid::fill() {
  bool extend = false;
  while (true) {
    next_ = logs_;
    bool found = false, left = false;
    for (std::size_t index = 0; index < logs_.size(); ++index) {
      if (!std::isnan(logs_[index])) continue;
      (estimate(index, extend) ? found : left) = true;
    }
    logs_.swap(next_);
    if (!left) break;
    if (!found && extend) break;
    if (!found) extend = true;
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

TimeGrid::At TimeGrid::past_the_last(std::span<const double> point) const {
  const std::vector<double>& lengths = axes_.back().values;
  std::vector<double> at(point.begin(), point.end());
  const auto seconds = [&](const auto& of, double length) {
    at.back() = length;
    return of(at);
  };
  const auto by_table = [&](std::span<const double> size) { return this->at(size)->seconds; };
  const double high = lengths.back(), low = lengths[lengths.size() - 2];
  const double expected = model_ == nullptr ? 0 : seconds(model_, point.back()) - seconds(model_, high);
  const double low_log = std::log(seconds(by_table, low));
  at.back() = high;
  At found = *this->at(at);
  found.seconds = std::exp(beyond(low, high, point.back(), low_log, std::log(found.seconds), expected));
  found.basis = Basis::estimated;
  return found;
}

std::optional<TimeGrid::At> TimeGrid::at(std::span<const double> point) const {
  if (std::isnan(logs_.front())) return std::nullopt;
  const std::size_t last = axes_.size() - 1;
  const std::vector<double>& lengths = axes_[last].values;
  if (in_proportion(last) && lengths.size() > 1 && point[last] > lengths.back()) return past_the_last(point);
  At found;
  std::array<std::size_t, kMostAxes> low{}, high{};
  std::array<double, kMostAxes> inside{}, weight{};  // nearest point of the grid; share of the higher value
  bool outside = false;
  for (std::size_t d = 0; d < axes_.size(); ++d) {
    const std::vector<double>& values = axes_[d].values;
    inside[d] = std::clamp(point[d], values.front(), values.back());
    outside = outside || inside[d] != point[d];
    const auto above = std::lower_bound(values.begin(), values.end(), inside[d]);
    low[d] = high[d] = static_cast<std::size_t>(above - values.begin());
    if (*above == inside[d]) continue;
    low[d] = high[d] - 1;
    const std::vector<double>& x = coordinates_[d];
    weight[d] = (coordinate(axes_[d].spacing, inside[d]) - x[low[d]]) / (x[high[d]] - x[low[d]]);
    found.basis = Basis::interpolated;
  }
  // One axis after the other: 2^n corners become half as many, down to one.
  std::array<double, std::size_t{1} << kMostAxes> logs{};
  std::size_t left = std::size_t{1} << axes_.size();
  for (std::size_t corner = 0; corner < left; ++corner) {
    std::size_t index = 0;
    for (std::size_t d = 0; d < axes_.size(); ++d)
      index += ((corner >> d & 1) != 0 ? high[d] : low[d]) * strides_[d];
    logs[corner] = logs_[index];
    found.basis = std::max(found.basis, basis_[index]);
  }
  for (std::size_t d = 0; d < axes_.size(); ++d) {
    left /= 2;
    for (std::size_t i = 0; i < left; ++i) {
      const double a = logs[2 * i], b = logs[2 * i + 1], x = weight[d];
      logs[i] = low[d] == high[d]          ? a
                : is_logarithmic(axes_[d]) ? a + x * (b - a)
                                           : std::log((1 - x) * std::exp(a) + x * std::exp(b));
    }
  }
  found.seconds = std::exp(logs[0]);
  if (outside) found.basis = Basis::estimated;
  if (ratios_) {
    found.seconds *= model_(point);
  } else if (model_ != nullptr && outside) {
    found.seconds *= model_(point) / model_({inside.data(), axes_.size()});
  }
  return found;
}

}  // namespace plumbline::silicon
