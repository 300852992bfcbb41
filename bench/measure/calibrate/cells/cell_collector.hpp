// Lists of cells of memory-bound operators: a cell for each size and working set.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/measure/calibrate/cells/cells.hpp"

namespace plumbline::calibration {

inline constexpr std::int64_t kHidden = 512;  // columns of the gradient stream
inline constexpr int kLargestTensor = 21;     // power of two: elements of a tensor
inline constexpr std::int64_t kWide = 8192;   // columns of logits
inline constexpr int kLargestLogits = 24;     // power of two: logits come from memory, other tensors do not

/// Appends a cell per size (2^6, 2^9, … 2^largest elements) and working set. `make` lays out operands of
/// `rows` × `cols` and returns the call; `rotating`: bytes per element that rotate.
class CellCollector {
 public:
  explicit CellCollector(DType storage) : storage_(storage) {}

  using Make = std::function<CellCall(Operators&, Pools&, std::int64_t rows, std::int64_t cols)>;
  void add(const char* name, std::int64_t cols, double rotating, const Make& make,
           int largest = kLargestTensor) {
    add_as(fmt::format("{}.{}", name, name_of(storage_)), cols, rotating, make, largest);
  }
  void add_as(const std::string& key, std::int64_t cols, double rotating, const Make& make,
              int largest = kLargestTensor) {
    add_to(Table::memory_bound, key, cols, rotating, make, largest);
  }
  /// Cells of an operator that starts anew with every row or head, also one for every row width.
  void add_by_row(
      const std::string& name, double rotating,
      const std::function<CellCall(Operators&, Pools&, std::int64_t elements, std::int64_t width)>& make) {
    const std::string key = fmt::format("{}.{}", name, name_of(storage_));
    for (const double width : by_row_axes(key).y) {
      const auto columns = static_cast<std::int64_t>(width);
      const Make rows = [=](Operators& op, Pools& p, std::int64_t r, std::int64_t c) {
        return make(op, p, r * c, c);
      };
      add_to(Table::by_row, key, columns, rotating, rows, kLargestTensor);
    }
  }
  double e() const { return static_cast<double>(size_of(storage_)); }
  std::vector<Cell> take() { return std::move(cells_); }

 private:
  void add_to(Table table, const std::string& key, std::int64_t cols, double rotating, const Make& make,
              int largest);

  DType storage_;
  std::vector<Cell> cells_;
};

}  // namespace plumbline::calibration
