// Times of one operator over a grid of sizes, interpolated between them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace plumbline::silicon {

/// Basis of a time.
enum class Basis : std::uint8_t {
  measured,      // this size was measured
  interpolated,  // measured sizes lie on both sides
  estimated      // scaled from the nearest measured size, or from the accelerator's constants
};
std::string_view name_of(Basis basis);

/// Interpolation between two values of an axis.
enum class Spacing : std::uint8_t {
  logarithmic,  // a straight line between logarithms: products, attention
  linear,       // a fixed part and one in proportion: bytes of a collective, tokens of experts
  inverse       // a fixed part and one in proportion to 1/value: ranks that experts are divided over
};

struct Axis {
  std::vector<double> values;  // ascending, positive
  Spacing spacing = Spacing::logarithmic;
};

/// Estimated seconds at a point, without steps: a roofline. Sizes in the order of the axes.
using SecondsOfPoint = std::function<double(std::span<const double>)>;

/// Seconds at the points of a grid with up to six axes. Over logarithmic axes alone the ratios to a model are
/// interpolated, else the times. Points that were not measured take the weighted mean of the lines through
/// their neighbours along each axis and, over two logarithmic axes, of the planes through three neighbours;
/// with a linear last axis of the line along it. Beyond the measured points times go on as the model does;
/// along a linear last axis at their last slope, or the model's if that is steeper.
class TimeGrid {
 public:
  struct At {
    double seconds = 0;
    Basis basis = Basis::measured;
  };

  /// No point is measured yet. `model`: none: times beyond the measured points go on along straight lines.
  /// Throws std::invalid_argument for axes that are empty or not ascending.
  explicit TimeGrid(std::vector<Axis> axes, SecondsOfPoint model = {});

  /// `point` has an index per axis.
  void set(std::span<const std::size_t> point, double seconds);
  /// Estimates all points that were not set; to be called once, after the last set(). A grid without points
  /// stays so.
  void fill();
  /// Empty for a grid without points.
  std::optional<At> at(std::span<const double> point) const;
  const std::vector<Axis>& axes() const { return axes_; }

 private:
  std::size_t index_of(std::span<const std::size_t> point) const;
  double between(const Axis& axis, std::size_t low, std::size_t high, double value, double low_log,
                 double high_log) const;
  /// A linear last axis.
  bool in_proportion(std::size_t d) const {
    return d + 1 == axes_.size() && axes_[d].spacing == Spacing::linear;
  }
  static double beyond(double low, double high, double value, double low_log, double high_log,
                       double expected);
  At past_the_last(std::span<const double> point) const;
  struct Known;
  Known known_from(std::size_t index, std::size_t d) const;
  bool estimate(std::size_t index, bool extend);
  double model_log(std::size_t index) const;

  std::vector<Axis> axes_;
  SecondsOfPoint model_;
  bool ratios_ = false;                           // logs_ are of seconds over the model's
  std::vector<std::vector<double>> coordinates_;  // of the axes' values
  std::vector<std::size_t> strides_;
  std::vector<double> logs_;  // of seconds; NaN: not known
  std::vector<Basis> basis_;
  std::vector<double> next_;  // of a round of fill()
};

}  // namespace plumbline::silicon
