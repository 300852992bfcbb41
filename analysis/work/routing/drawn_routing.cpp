#include "analysis/work/routing/drawn_routing.hpp"

#include <algorithm>
#include <numeric>

namespace plumbline {

void draw_routing(const MeanLoad& load, std::mt19937_64& random, std::vector<RoutedTokens>& routing) {
  for (RoutedTokens& line : routing) {
    const std::vector<double>& shares = load[static_cast<std::size_t>(line.layer)];
    // One expert after the other: of the choices that are left a binomial number is its own.
    auto left =
        static_cast<std::int32_t>(std::accumulate(line.tokens.begin(), line.tokens.end(), std::int64_t{0}));
    double share_left = 1;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      std::int32_t mine = left;
      if (i + 1 < shares.size() && left > 0) {
        const double share = share_left > 0 ? std::clamp(shares[i] / share_left, 0.0, 1.0) : 0;
        mine = std::binomial_distribution<std::int32_t>(left, share)(random);
      }
      line.tokens[i] = mine;
      left -= mine;
      share_left -= shares[i];
    }
  }
}

}  // namespace plumbline
