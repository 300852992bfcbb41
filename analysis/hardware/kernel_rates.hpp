// Measured rates of single kernel shapes on one accelerator, used as a table: no formula is fitted to them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

/// Kernel that a row of analysis/hardware/kernel_rates.csv was measured with. Products have the sizes m, n
/// and k of an m×n result; attention the number of heads of all sequences, the sequence length and the head
/// size.
enum class RatedKernel : std::uint8_t {
  forward,                  // rows × out, over in
  input_gradient,           // rows × in, over out
  weight_gradient,          // out × in, over rows, added to an fp32 gradient
  weight_gradient_16bit,    // the same, in 16 bit
  grouped_forward,          // of each expert: rows × out, over in; one call for all experts
  grouped_input_gradient,   // rows, out and in of the forward
  grouped_weight_gradient,  // the same, added to an fp32 gradient
  attention_forward,        // causal; FLOPs of all pairs: 4 · heads · s² · d
  attention_backward        // 10 · heads · s² · d
};

class KernelRates {
 public:
  void add(RatedKernel kernel, const std::array<double, 3>& sizes, double share);
  /// Share of the 16-bit peak: of the shape itself, or the mean of the four nearest ones. These are weighted
  /// by the inverse square of their distance in doublings of the sizes. Empty if none is within one doubling.
  std::optional<double> share(RatedKernel kernel, const std::array<double, 3>& sizes) const;

 private:
  struct Shape {
    std::array<double, 3> doublings;
    double share;
  };
  std::array<std::vector<Shape>, 9> shapes_;
};

/// The tables of a file by accelerator. Throws InputError with its line for an unknown name, a size below 1,
/// or a share that is not between 0 and 2 (attention that skips half of the pairs may exceed 1).
std::map<std::string, KernelRates> parse_kernel_rates(std::string_view csv, const std::string& origin);

}  // namespace plumbline
