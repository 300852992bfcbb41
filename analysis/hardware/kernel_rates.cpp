#include "analysis/hardware/kernel_rates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

constexpr std::array<std::string_view, 9> kKernels = {
    "forward",           "input_gradient",         "weight_gradient",         "weight_gradient_16bit",
    "grouped_forward",   "grouped_input_gradient", "grouped_weight_gradient", "attention_forward",
    "attention_backward"};
constexpr std::string_view kColumns = "accelerator,kernel,m,n,k,share";

std::array<double, 3> doublings_of(RatedKernel kernel, const std::array<double, 3>& sizes) {
  // Attention with heads of another size is another kernel: out of reach.
  const double head = kernel >= RatedKernel::attention_forward ? 16 : 1;
  return {std::log2(sizes[0]), std::log2(sizes[1]), head * std::log2(sizes[2])};
}

/// The cells of a line; fewer or more than six are kept as they are.
std::vector<std::string_view> cells_of_line(std::string_view line) {
  std::vector<std::string_view> cells;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find(',', begin), line.size());
    cells.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return cells;
}

double number_between(std::string_view cell, double least, double most, const std::string& place) {
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size() || !(value >= least && value <= most)) {
    throw InputError(fmt::format("{}: found {}, expected a number from {} to {}", place,
                                 printable(std::string(cell)), least, most));
  }
  return value;
}

}  // namespace

void KernelRates::add(RatedKernel kernel, const std::array<double, 3>& sizes, double share) {
  shapes_[static_cast<std::size_t>(kernel)].push_back({doublings_of(kernel, sizes), share});
}

std::optional<double> KernelRates::share(RatedKernel kernel, const std::array<double, 3>& sizes) const {
  constexpr std::size_t kNearest = 4;
  constexpr double kReach = 1;    // doublings to the nearest shape
  constexpr double kSame = 1e-9;  // squared distance
  const std::array<double, 3> wanted = doublings_of(kernel, sizes);
  std::array<std::pair<double, double>, kNearest> nearest;  // squared distance, share; ascending
  nearest.fill({1e30, 0});
  for (const Shape& shape : shapes_[static_cast<std::size_t>(kernel)]) {
    double squared = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      squared += (shape.doublings[i] - wanted[i]) * (shape.doublings[i] - wanted[i]);
    }
    if (squared >= nearest.back().first) continue;
    nearest.back() = {squared, shape.share};
    std::sort(nearest.begin(), nearest.end());
  }
  if (nearest.front().first > kReach * kReach) return std::nullopt;
  if (nearest.front().first < kSame) return nearest.front().second;
  double sum = 0;
  double weights = 0;
  for (const auto& [squared, share] : nearest) {
    if (squared > 1e29) break;
    sum += share / squared;
    weights += 1 / squared;
  }
  return sum / weights;
}

std::map<std::string, KernelRates> parse_kernel_rates(std::string_view csv, const std::string& origin) {
  std::map<std::string, KernelRates> tables;
  int number = 0;
  for (std::size_t begin = 0; begin < csv.size();) {
    const std::size_t end = std::min(csv.find('\n', begin), csv.size());
    const std::string_view line = csv.substr(begin, end - begin);
    begin = end + 1;
    const std::string place = fmt::format("{}:{}", origin, ++number);
    if (line.empty() || line.front() == '#') continue;
    if (line == kColumns) continue;
    const std::vector<std::string_view> cells = cells_of_line(line);
    if (cells.size() != 6) {
      throw InputError(fmt::format("{}: {} cells, expected {}", place, cells.size(), kColumns));
    }
    const auto* const kernel = std::find(kKernels.begin(), kKernels.end(), cells[1]);
    if (kernel == kKernels.end()) {
      throw InputError(fmt::format(
          "{}: found {}, expected forward, input_gradient, weight_gradient, "
          "weight_gradient_16bit, grouped_forward, grouped_input_gradient, grouped_weight_gradient, "
          "attention_forward or attention_backward",
          place, printable(std::string(cells[1]))));
    }
    constexpr double kLargest = 1e9;
    tables[std::string(cells[0])].add(
        static_cast<RatedKernel>(kernel - kKernels.begin()),
        {number_between(cells[2], 1, kLargest, place), number_between(cells[3], 1, kLargest, place),
         number_between(cells[4], 1, kLargest, place)},
        number_between(cells[5], 1e-6, 2, place));
  }
  return tables;
}

}  // namespace plumbline
