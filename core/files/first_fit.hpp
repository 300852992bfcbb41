// First-fit: the first bin with enough room, found in the logarithm of their number.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace plumbline {

class FirstFit {
 public:
  FirstFit(std::int64_t most_bins, std::int64_t room)
      : leaves_(std::bit_ceil(static_cast<std::size_t>(most_bins))), room_(2 * leaves_, room) {}

  /// The bin that gets `size`, which is at most the room of an empty one.
  std::size_t place(std::int64_t size) {
    std::size_t node = 1;
    while (node < leaves_) node = 2 * node + (room_[2 * node] >= size ? 0 : 1);
    const std::size_t bin = node - leaves_;
    room_[node] -= size;
    while (node > 1) {
      node /= 2;
      room_[node] = std::max(room_[2 * node], room_[2 * node + 1]);
    }
    return bin;
  }

 private:
  std::size_t leaves_;
  std::vector<std::int64_t> room_;  // a binary tree of maxima, its root at 1
};

}  // namespace plumbline
