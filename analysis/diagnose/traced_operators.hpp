// Times of a step's operators, joined by name and sizes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/diagnose/time_share.hpp"

namespace plumbline {

/// Calls of one operator with one set of sizes, or of one kind of collective.
struct TracedOperator {
  std::string name;
  std::string shapes;  // sizes of its inputs; empty: not recorded
  TimeShare share = TimeShare::other;
  std::int64_t count = 0;
  double seconds = 0;  // hidden time of collectives included
  double flops = 0;    // of all calls; 0: not known
  double bytes = 0;    // of all messages on this rank; 0: not known
  int group_size = 0;
};

/// Multiplications and additions of a call of a matrix product by its operator and the sizes of its inputs,
/// such as "[2,3][3,4]"; 0: not known.
double product_flops(std::string_view name, std::string_view shapes);

class TracedOperators {
 public:
  /// Adds one call. `flops`, `bytes`: 0 where not known.
  void add(std::string_view name, std::string_view shapes, TimeShare share, double seconds, double flops = 0,
           double bytes = 0, int group_size = 0, std::int64_t calls = 1);
  /// The longest first, at most `most`.
  std::vector<TracedOperator> longest(std::size_t most) const;

 private:
  std::map<std::pair<std::string, std::string>, TracedOperator> times_;
};

/// A kernel's name without its template arguments and its parameters.
std::string short_kernel_name(std::string_view name);

}  // namespace plumbline
