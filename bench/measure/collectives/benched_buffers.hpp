// Buffers of a benchmarked call: their sizes and places, the numbers in them, and the exact results.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/record/collective_row.hpp"
#include "core/run/communicator.hpp"
#include "core/tensor/matrix.hpp"
#include "kernels/operators.hpp"

namespace plumbline {

/// Group of a benchmark, as a rank sees it.
struct BenchedGroup {
  Group group = Group::world;
  std::vector<int> members;  // world ranks, ascending
  int place = 0;             // of this rank among them

  int size() const { return static_cast<int>(members.size()); }
  /// Partner in a pair: neighbours 0 and 1, 2 and 3, …; -1 for the last of an odd number.
  int partner() const {
    const int other = place ^ 1;
    return other < size() ? members[static_cast<std::size_t>(other)] : -1;
  }
  int next() const { return members[static_cast<std::size_t>((place + 1) % size())]; }
  int previous() const { return members[static_cast<std::size_t>((place + size() - 1) % size())]; }
};

/// One size of one benchmark on this rank.
class BenchedBuffers {
 public:
  /// `asked`: bytes of the size, rounded down to equal pieces. `memory` has room for bytes_needed().
  BenchedBuffers(const BenchedKind& kind, const BenchedGroup& group, bool in_place, DType type,
                 std::int64_t asked, std::byte* memory);
  static std::int64_t bytes_needed(std::int64_t largest);

  /// True if the size is too small to be split among the ranks.
  bool empty() const { return elements_ == 0; }
  /// Bytes and elements as nccl-tests count them.
  std::int64_t size() const { return elements_ * size_of(input.dtype); }
  std::int64_t count() const;
  /// Bus bandwidth ÷ algorithm bandwidth (nccl-tests, doc/PERFORMANCE.md); of an uneven all-to-all the
  /// largest share that leaves a rank.
  double bus_factor() const;

  /// Writes this rank's numbers into the input, and -1 into the rest of the output.
  void fill(Operators& operators) const;
  /// Elements of this rank's output that differ from the exact result.
  std::int64_t wrong(Operators& operators) const;

  Matrix input;
  Matrix output;
  /// Pieces of an uneven all-to-all; else empty.
  std::vector<std::int64_t> sent, received;

 private:
  int value(int place, std::int64_t i) const;
  int expected(std::int64_t i) const;
  /// First element of the piece that member `from` sends to member `to`.
  std::int64_t first_of_piece(int from, int to) const;
  std::int64_t piece(int from, int to) const;

  const BenchedKind& kind_;
  const BenchedGroup& group_;
  std::int64_t elements_ = 0;  // of the whole
  std::int64_t piece_ = 0;     // of a member; of an uneven all-to-all the unit of its pieces
};

}  // namespace plumbline
