// Every CUDA operator on the first GPU: bytes and FLOPs per second. The device's rates in the same run are
// next to them: a large copy, and the fastest matrix product of the list. One JSON object a line on stdout;
// exit code 0 with a message if there is no GPU. Matrix products are compared with the fastest algorithm that
// an exhaustive search of cuBLASLt's configurations finds (kernels/cuda/gemm/gemm_search.hpp). Those of 8-bit
// operands, with E5M2 gradients and E4M3 weights and inputs, are compared among themselves. The square
// product is also run back to back for a second, to show sustained clocks.
//   micro_cuda_operators [TOKENS [SEARCH_SECONDS]]
// SEARCH_SECONDS bounds the search of each product (10; 0: none). Progress goes to stderr. Operands are
// larger than the device's cache from 32768 tokens on, the default. Times are medians of single calls with an
// empty cache (bench/cuda/times/device_timer.hpp). For an operator that returns a number to the host (waits)
// they include the way there.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "bench/cuda/times/device_timer.hpp"
#include "bench/measure/calibrate/operator_cases.hpp"
#include "core/base/error.hpp"
#include "kernels/cuda/cuda_operators.hpp"
#include "kernels/cuda/device/error.hpp"
#include "kernels/cuda/gemm/gemm_search.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kHidden = 1536;

/// Bytes read plus bytes written per second of a device-to-device copy of 2 GiB.
double copy_rate(DeviceTimer& timer, Operators& operators, MemorySource& memory) {
  const Bytes size = kGiB * 2;
  const Matrix from(memory.allocate(size), 1, size.value / 4, DType::fp32);
  const Matrix to(memory.allocate(size), 1, size.value / 4, DType::fp32);
  operators.fill(from, 1.25);
  const double seconds = timer.burst([&] { operators.copy(from, to); }).median.value;
  memory.release(from.data, size);
  memory.release(to.data, size);
  return 2.0 * static_cast<double>(size.value) / seconds;
}

struct Product {
  std::string name;
  ProductShape shape;
  double seconds;
  double flops;
  GemmSearchResult search;        // no configuration: not searched
  double sustained = 0;           // seconds per call, one second back to back; 0: not measured
  double with_bias_gradient = 0;  // of a weight's gradient: seconds with that of the bias; 0: not measured
  double bias_gradient = 0;       // seconds of that by itself
};

GemmSearchResult search(const Product& product, Operators& operators, const Gemm& gemm, double seconds) {
  fmt::print(stderr, "[search] {}: up to {:.0f} s\n", product.name, seconds);
  const auto progress = [&](const GemmSearchResult& so_far) {
    if (so_far.timed % 1000 == 0) {
      fmt::print(stderr, "[search] {}: {} configurations timed, {} checked\n", product.name, so_far.timed,
                 so_far.configurations);
    }
  };
  GemmSearchLimits limits;
  limits.time = {seconds};
  return search_gemm(operators, gemm, limits, progress);
}

/// Results of the search, as further keys of a line.
std::string search_keys(const GemmSearchResult& found) {
  if (found.configurations == 0) return "";
  return fmt::format(
      ", \"share_of_exhaustive\": {:.4f}, \"chosen_seconds\": {:.4e}, \"exhaustive_seconds\": {:.4e}, "
      "\"exhaustive_configuration\": \"{}\", \"configurations_checked\": {}, \"configurations_accepted\": "
      "{}, "
      "\"configurations_timed\": {}, \"exhaustive\": {}",
      found.share(), found.chosen.value, found.best.value, found.best_configuration, found.configurations,
      found.accepted, found.timed, found.complete);
}

/// The products of a layer's forward and backward, and a square one.
std::vector<Product> products_in_bf16(std::int64_t tokens) {
  const auto layer = [&](const char* name, std::int64_t outputs, std::int64_t inputs) {
    const DType type = DType::bf16;
    return std::vector<Product>{
        {std::string("forward ") + name, {tokens, outputs, inputs, type, type, false, true, false}, 0, 0, {}},
        {std::string("input gradient ") + name,
         {tokens, inputs, outputs, type, type, false, false, false},
         0,
         0,
         {}},
        {std::string("weight gradient ") + name,
         {outputs, inputs, tokens, type, DType::fp32, true, false, true},
         0,
         0,
         {}}};
  };
  std::vector<Product> all{
      {"square", {8192, 8192, 8192, DType::bf16, DType::bf16, false, true, false}, 0, 0, {}}};
  for (const auto& rows : {layer("qkv", 2048, kHidden), layer("projection", kHidden, kHidden),
                           layer("gate and up", 17920, kHidden), layer("down", kHidden, 8960)}) {
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

/// The same with FP8 operands: in the one form these have, gradients first.
std::vector<Product> products_in_fp8(std::int64_t tokens) {
  std::vector<Product> all = products_in_bf16(tokens);
  for (Product& product : all) {
    ProductShape& shape = product.shape;
    const bool of_gradient = !shape.b_transposed;
    shape.type = of_gradient ? DType::fp8_e5m2 : DType::fp8_e4m3;
    shape.b_type = DType::fp8_e4m3;
    shape.a_transposed = false;
    shape.b_transposed = true;
  }
  return all;
}

/// Times of a weight's gradient with that of the bias, and of the latter by itself.
void measure_bias_gradient(Product& product, Gemm gemm, DeviceTimer& timer, Operators& operators,
                           MemorySource& memory) {
  const Bytes bytes = Matrix(nullptr, 1, gemm.c.rows, DType::fp32).bytes();
  gemm.bias_gradient = Matrix(memory.allocate(bytes), 1, gemm.c.rows, DType::fp32);
  operators.fill(gemm.bias_gradient, 0);
  product.with_bias_gradient = timer.burst([&] { operators.gemm(gemm); }, kOfMany).median.value;
  product.bias_gradient =
      timer.burst([&] { operators.bias_backward(gemm.a, gemm.bias_gradient); }, kOfMany).median.value;
  operators.synchronize();
  memory.release(gemm.bias_gradient.data, bytes);
}

std::vector<Product> measured(std::vector<Product> all, DeviceTimer& timer, Operators& operators,
                              MemorySource& memory, double search_seconds) {
  for (Product& product : all) {
    DeviceOperands operands(operators, memory);
    const Gemm gemm = operands.product(product.shape);
    product.seconds = timer.burst([&] { operators.gemm(gemm); }, kOfMany).median.value;
    if (gemm.a_transposed) measure_bias_gradient(product, gemm, timer, operators, memory);
    if (product.name == "square") product.sustained = timer.sustained([&] { operators.gemm(gemm); }).value;
    product.flops = 2.0 * static_cast<double>(product.shape.m) * static_cast<double>(product.shape.n) *
                    static_cast<double>(product.shape.k);
    operators.synchronize();
    if (search_seconds > 0) product.search = search(product, operators, gemm, search_seconds);
  }
  return all;
}

double best_rate(const std::vector<Product>& gemms) {
  double best = 0;
  for (const Product& product : gemms) best = std::max(best, product.flops / product.seconds);
  return best;
}

void print(const std::vector<Product>& gemms) {
  const double best = best_rate(gemms);
  for (const Product& product : gemms) {
    const ProductShape& shape = product.shape;
    const double rate = product.flops / product.seconds;
    fmt::print(
        "{{\"operator\": \"gemm {}\", \"type\": \"{}\", \"b_type\": \"{}\", \"m\": {}, \"n\": {}, \"k\": {}, "
        "\"seconds\": {:.4e}, \"tflops\": {:.1f}, \"share_of_best_gemm\": {:.3f}{}{}{}}}\n",
        product.name, name_of(shape.type), name_of(shape.b_type.value_or(shape.type)), shape.m, shape.n,
        shape.k, product.seconds, rate * 1e-12, rate / best,
        product.sustained > 0
            ? fmt::format(", \"sustained_tflops\": {:.1f}", product.flops / product.sustained * 1e-12)
            : "",
        product.bias_gradient > 0
            ? fmt::format(", \"seconds_with_bias_gradient\": {:.4e}, \"seconds_of_bias_gradient\": {:.4e}",
                          product.with_bias_gradient, product.bias_gradient)
            : "",
        search_keys(product.search));
  }
}

int run(std::int64_t tokens, double search_seconds) {
  if (cuda_devices() == 0) {
    fmt::print("no CUDA device: nothing was measured\n");
    return 0;
  }
  const std::unique_ptr<Operators> operators = make_cuda_operators();
  const std::unique_ptr<MemorySource> memory = device_memory(*operators);
  DeviceTimer timer(static_cast<cudaStream_t>(cuda_stream(*operators)));
  const double copied = copy_rate(timer, *operators, *memory);
  const auto measure = [&](std::vector<Product> all) {
    return measured(std::move(all), timer, *operators, *memory, search_seconds);
  };
  const std::vector<Product> gemms = measure(products_in_bf16(tokens));
  const std::vector<Product> in_fp8 =
      cuda_has_fp8(0) ? measure(products_in_fp8(tokens)) : std::vector<Product>{};
  const double best = best_rate(gemms);
  fmt::print(
      "{{\"device\": \"{}\", \"copy_gb_per_s\": {:.1f}, \"best_gemm_tflops\": {:.1f}, "
      "\"best_fp8_gemm_tflops\": {:.1f}}}\n",
      cuda_device_name(0), copied * 1e-9, best * 1e-12, best_rate(in_fp8) * 1e-12);
  print(gemms);
  print(in_fp8);
  for (const DType type : {DType::bf16, DType::fp32}) {
    OperatorShape shape;
    shape.seq = 1024;
    shape.batch = std::max<std::int64_t>(1, tokens / shape.seq / (type == DType::fp32 ? 4 : 1));
    shape.hidden = kHidden;
    shape.heads = 12;
    shape.head_dim = 128;
    shape.ffn = 8960;
    shape.parameters = std::int64_t{1} << 28;
    shape.type = type;
    for (const OperatorCase& operation : operator_cases(*operators, shape, memory.get())) {
      const DeviceTime time = timer.burst(operation.run, kOfMany);
      const double seconds = time.median.value;
      const double bytes = static_cast<double>(operation.bytes.value) / seconds;
      fmt::print(
          "{{\"operator\": \"{}\", \"type\": \"{}\", \"tokens\": {}, \"seconds\": {:.4e}, \"bytes\": {}, "
          "\"gb_per_s\": {:.1f}, \"share_of_copy\": {:.3f}, \"tflops\": {:.1f}, \"share_of_best_gemm\": "
          "{:.3f}}}\n",
          operation.name, name_of(type), shape.batch * shape.seq, seconds, operation.bytes.value,
          bytes * 1e-9, bytes / copied, operation.flops.value / seconds * 1e-12,
          operation.flops.value / seconds / best, time.noise, time.waits);
    }
  }
  return 0;
}

}  // namespace
}  // namespace plumbline

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a run that is cut off has printed its results so far
  try {
    return plumbline::run(argc > 1 ? std::atoll(argv[1]) : 32768, argc > 2 ? std::atof(argv[2]) : 10);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
