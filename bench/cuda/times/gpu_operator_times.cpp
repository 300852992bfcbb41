#include "bench/cuda/times/gpu_operator_times.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "bench/measure/calibrate/operator_cases.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
/// Hundreds of figures in a minute: noise of 2 % is less than the variation of clocks.
constexpr SteadyLimits kQuick{0.02, 5, {0.001}, {0.03}};
constexpr Bytes kFarBeyondCaches = kMiB * 1024;

/// Device memory that goes back with its owner.
class OnDevice {
 public:
  OnDevice(MemorySource& memory, Bytes bytes)
      : memory_(memory), bytes_(bytes), data_(memory.allocate(bytes)) {}
  ~OnDevice() { memory_.release(data_, bytes_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  Matrix as(std::int64_t rows, std::int64_t cols, DType type) const {
    const Matrix matrix(data_, rows, cols, type);
    if (matrix.bytes().value > bytes_.value) throw Error("calibrate: an operand is larger than its memory");
    return matrix;
  }

 private:
  MemorySource& memory_;
  Bytes bytes_;
  void* data_;
};

struct Pass {
  GemmPass pass;
  bool a_transposed, b_transposed, accumulate;
};
constexpr std::array<Pass, 3> kPasses = {{{GemmPass::forward, false, true, false},
                                          {GemmPass::input_gradient, false, false, false},
                                          {GemmPass::weight_gradient, true, false, true}}};
/// Time grows evenly with tokens; with widths it goes up and down as tiles fill the multiprocessors.
const std::vector<double> kTokens = {256, 1024, 4096, 16384};
const std::vector<double> kWidths = {256, 512, 1024, 2048, 4096, 8192, 16384};
constexpr double kMostFlops16 = 6e11;  // below a millisecond on devices for such products
constexpr double kMostFlops32 = 6e10;

class Measuring {
 public:
  Measuring(Operators& operators, MemorySource& memory, DeviceTimer& timer, const OnGpuProgress& progress)
      : operators_(operators), memory_(memory), timer_(timer), progress_(progress) {}

  ClockRates clock_rates() {
    constexpr std::int64_t kSize = 8192;
    const Bytes bytes{kSize * kSize * 2};
    const OnDevice a(memory_, bytes), b(memory_, bytes), c(memory_, bytes);
    Gemm gemm;
    gemm.a = a.as(kSize, kSize, DType::bf16);
    gemm.b = b.as(kSize, kSize, DType::bf16);
    gemm.c = c.as(kSize, kSize, DType::bf16);
    gemm.b_transposed = true;
    randomize(a, DType::bf16);
    randomize(b, DType::bf16);
    const auto rate = [](Seconds seconds) {
      return FlopsPerSecond{2.0 * kSize * kSize * kSize / seconds.value};
    };
    ClockRates rates;
    rates.burst = rate(timer_.burst([&] { operators_.gemm(gemm); }).median);
    rates.sustained = rate(timer_.sustained([&] { operators_.gemm(gemm); }, kHeat));
    return rates;
  }

  void products(bool fp8, OperatorTimes& times) {
    const Bytes most = Bytes{16384} * 16384 * 4;
    const OnDevice a(memory_, most);
    const OnDevice b(memory_, most);
    const OnDevice c(memory_, most);
    const OnDevice one(memory_, Bytes{256});
    operators_.fill(one.as(1, 1, DType::fp32), 1);
    for (const DType type : {DType::bf16, DType::fp32}) {
      randomize(a, type);
      randomize(b, type);
      for (const Pass& pass : kPasses) {
        const std::string key = fmt::format("{}.{}", name_of(pass.pass), name_of(type));
        times.gemm[key] =
            grid(key, type == DType::fp32 ? kMostFlops32 : kMostFlops16,
                 [&](std::int64_t tokens, std::int64_t out, std::int64_t in) {
                   Gemm gemm;
                   const bool weights = pass.pass == GemmPass::weight_gradient;
                   const std::int64_t m = weights ? out : tokens;
                   const std::int64_t n = pass.pass == GemmPass::forward ? out : in;
                   const std::int64_t k = weights ? tokens : pass.pass == GemmPass::forward ? in : out;
                   gemm.a = pass.a_transposed ? a.as(k, m, type) : a.as(m, k, type);
                   gemm.b = pass.b_transposed ? b.as(n, k, type) : b.as(k, n, type);
                   gemm.c = c.as(m, n, weights ? DType::fp32 : type);
                   gemm.a_transposed = pass.a_transposed;
                   gemm.b_transposed = pass.b_transposed;
                   gemm.accumulate = pass.accumulate;
                   return gemm;
                 });
      }
    }
    if (!fp8) return;
    randomize(a, DType::fp8_e4m3);
    randomize(b, DType::fp8_e4m3);
    times.gemm["forward.fp8"] =
        grid("forward.fp8", kMostFlops16, [&](std::int64_t m, std::int64_t n, std::int64_t k) {
          Gemm gemm;
          gemm.a = a.as(m, k, DType::fp8_e4m3);
          gemm.b = b.as(n, k, DType::fp8_e4m3);
          gemm.c = c.as(m, n, DType::bf16);
          gemm.b_transposed = true;
          gemm.a_inverse_scale = gemm.b_inverse_scale = one.as(1, 1, DType::fp32);
          return gemm;
        });
  }

  void attention(OperatorTimes& times) {
    const std::vector<double> sequences = {1024, 4096};
    const std::vector<double> head_sizes = {64, 128};
    const std::vector<double> groups = {1, 4};
    constexpr std::int64_t kHeads = 16;
    Grid forward{sequences, head_sizes, groups, {}};
    Grid backward = forward;
    for (const double seq : sequences) {
      for (const double head_size : head_sizes) {
        for (const double group : groups) {
          OperatorShape shape;
          shape.seq = static_cast<std::int64_t>(seq);
          shape.batch = std::max<std::int64_t>(1, 8192 / shape.seq);
          shape.heads = kHeads;
          shape.kv_heads = kHeads / static_cast<std::int64_t>(group);
          shape.head_dim = static_cast<std::int64_t>(head_size);
          shape.hidden = shape.ffn = shape.vocab = 64;  // of operators that are not measured here
          shape.parameters = 1024;
          shape.type = DType::bf16;
          for (const OperatorCase& one : operator_cases(operators_, shape, &memory_)) {
            Grid* const to = one.name == "attention_forward"    ? &forward
                             : one.name == "attention_backward" ? &backward
                                                                : nullptr;
            if (to == nullptr) continue;
            const double seconds = timer_.burst(one.run, kQuick).median.value;
            to->seconds.push_back(seconds / static_cast<double>(shape.batch * shape.heads));
          }
          progress_("attention", static_cast<double>(forward.seconds.size()) / 8);
        }
      }
    }
    times.attention["forward.bf16"] = std::move(forward);
    times.attention["backward.bf16"] = std::move(backward);
  }

  void others(OperatorTimes& times) {
    for (const DType type : {DType::bf16, DType::fp32}) {
      // Gradients of weights add up sums over blocks of rows: a fixed share at many rows only.
      for (const std::int64_t tokens : {256, 2048, 16384}) {
        OperatorShape shape;
        shape.seq = std::min<std::int64_t>(tokens, 512);
        shape.batch = tokens / shape.seq;
        shape.hidden = 2048;
        shape.heads = shape.kv_heads = 16;
        shape.head_dim = 128;
        shape.ffn = 8192;
        shape.vocab = 16384;
        shape.parameters = tokens << 14;
        shape.type = type;
        for (const OperatorCase& one : operator_cases(operators_, shape, &memory_)) {
          if (std::string_view(one.name).starts_with("attention_")) continue;
          Curve& curve = times.memory_bound[key_of(one.name, type)];
          const auto size = static_cast<double>(one.elements);
          if (!curve.empty() && size <= curve.sizes.back()) continue;  // of one type for both
          curve.sizes.push_back(size);
          curve.seconds.push_back(timer_.burst(one.run, kQuick).median.value);
        }
        progress_("other operators", static_cast<double>(tokens) / 16384);
      }
    }
  }

 private:
  static std::string key_of(const std::string& name, DType type) {
    if (name == "dropout_mask") return "dropout_mask.uint8";
    if (name == "fp8_transpose") return "fp8_transpose.fp8";
    if (name == "fill" || name == "squared_norm") return name + ".fp32";  // the case has gradients
    return fmt::format("{}.{}", name, name_of(type));
  }

  /// A block of random numbers again and again: products of zeros run at other clocks.
  void randomize(const OnDevice& to, DType type) {
    constexpr std::int64_t kRows = 1024;
    constexpr std::int64_t kCols = 4096;
    std::vector<std::vector<std::byte>> host;
    const ProductShape shape{kRows, kCols, kCols, type, DType::fp32, false, true, false};
    const Gemm numbers = product_operands(shape, host);
    const Matrix all = to.as(16384, 16384, type);
    const Matrix first(all.data, kRows, kCols, type);
    operators_.upload(numbers.a.data, first);
    const std::int64_t blocks = all.elements() / first.elements();
    for (std::int64_t i = 1; i < blocks; ++i) {
      operators_.copy(
          first, Matrix(static_cast<std::byte*>(all.data) + i * first.bytes().value, kRows, kCols, type));
    }
    operators_.synchronize();
  }

  template <class Make>
  Grid grid(const std::string& key, double most_flops, Make&& make) {
    Grid grid{kTokens, kWidths, kWidths, {}};
    const std::size_t n = kWidths.size();
    for (std::size_t x = 0; x < kTokens.size(); ++x) {
      for (std::size_t y = 0; y < n; ++y) {
        for (std::size_t z = 0; z < n; ++z) {
          const double flops = 2 * grid.x[x] * grid.y[y] * grid.z[z];
          double seconds = kUnknown;
          if (flops <= most_flops) {
            const Gemm gemm = make(static_cast<std::int64_t>(grid.x[x]), static_cast<std::int64_t>(grid.y[y]),
                                   static_cast<std::int64_t>(grid.z[z]));
            seconds = timer_.burst([&] { operators_.gemm(gemm); }, kQuick).median.value;
          } else {
            // At the rate of the next smaller one, along the axis that has one.
            const auto before = [&](std::size_t i, std::size_t j, std::size_t k) {
              return grid.seconds[(i * n + j) * n + k];
            };
            if (x > 0)
              seconds = before(x - 1, y, z) * grid.x[x] / grid.x[x - 1];
            else if (y > 0)
              seconds = before(x, y - 1, z) * grid.y[y] / grid.y[y - 1];
            else
              seconds = before(x, y, z - 1) * grid.z[z] / grid.z[z - 1];
          }
          grid.seconds.push_back(seconds);
        }
      }
      progress_(key.c_str(), static_cast<double>(x + 1) / static_cast<double>(kTokens.size()));
    }
    return grid;
  }

  Operators& operators_;
  MemorySource& memory_;
  DeviceTimer& timer_;
  const OnGpuProgress& progress_;
};

}  // namespace

OperatorTimes measure_operator_times(Operators& operators, MemorySource& memory, DeviceTimer& timer, bool fp8,
                                     const OnGpuProgress& progress) {
  OperatorTimes times;
  times.working_set = kFarBeyondCaches;
  Measuring measuring(operators, memory, timer, progress);
  measuring.products(fp8, times);
  measuring.attention(times);
  measuring.others(times);
  return times;
}

ClockRates measure_clock_rates(Operators& operators, MemorySource& memory, DeviceTimer& timer) {
  const OnGpuProgress none = [](const char*, double) {};
  return Measuring(operators, memory, timer, none).clock_rates();
}

}  // namespace plumbline
