// Facts about a GPU in seconds, before tests of minutes: features that kernels/cuda relies on, and the
// library that computes each. One JSON object a line on stdout; exit code 0 with a message if there is no
// GPU. A missing fact is a line, no failure: the operators have another way, or the step that needs it says
// so.
//   micro_cuda_facts
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/measure/calibrate/operator_cases.hpp"
#include "core/base/error.hpp"
#include "kernels/cuda/attention/cudnn_plan.hpp"
#include "kernels/cuda/cuda_operators.hpp"
#include "kernels/cuda/device/error.hpp"

namespace plumbline {
namespace {

/// A line with the result of `ask`, or with its error.
void fact(const char* name, const std::function<std::string()>& ask) {
  const auto begin = std::chrono::steady_clock::now();
  bool works = true;
  std::string said;
  try {
    said = ask();
  } catch (const std::exception& error) {
    works = false;
    said = error.what();
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const nlohmann::ordered_json line = {
      {"fact", name}, {"works", works}, {"seconds", seconds}, {"said", said}};
  fmt::print("{}\n", line.dump());
}

std::string by_whom(Operators& operators) {
  std::string text;
  for (const KernelChoice& choice : cuda_choices(operators)) {
    text += fmt::format("{}{}: {}{}", text.empty() ? "" : "; ", choice.call, choice.by,
                        choice.why.empty() ? "" : ", " + choice.why);
  }
  return text;
}

struct ProductFact {
  const char* name;
  ProductShape shape;
  bool bias_gradient = false;
};
constexpr std::int64_t kSize = 1024;
const ProductFact kProducts[] = {
    {"bf16 product into fp32, beta 1", {kSize, kSize, kSize, DType::bf16, DType::fp32, true, false, true}},
    {"fp16 product into fp32, beta 1", {kSize, kSize, kSize, DType::fp16, DType::fp32, true, false, true}},
    {"bias gradient in the epilogue (BGRADB), D in fp32, beta 1",
     {kSize, kSize, kSize, DType::bf16, DType::fp32, true, false, true},
     true},
    {"E4M3 product into bf16",
     {kSize, kSize, kSize, DType::fp8_e4m3, DType::bf16, false, true, false, DType::fp8_e4m3}},
    {"E5M2 by E4M3 into bf16",
     {kSize, kSize, kSize, DType::fp8_e5m2, DType::bf16, false, true, false, DType::fp8_e4m3}},
    {"E5M2 by E4M3 into fp32, beta 1",
     {kSize, kSize, kSize, DType::fp8_e5m2, DType::fp32, false, true, true, DType::fp8_e4m3}},
};

std::string ask_product(const ProductFact& asked) {
  const auto operators = make_cuda_operators({.gemm_choice = GemmChoice::first});
  const auto memory = device_memory(*operators);
  DeviceOperands operands(*operators, *memory);
  Gemm gemm = operands.product(asked.shape);
  if (asked.bias_gradient) gemm.bias_gradient = operands.matrix(1, gemm.c.rows, DType::fp32);
  operators->gemm(gemm);
  operators->synchronize();
  return by_whom(*operators);
}

std::string ask_cudnn(bool backward, bool deterministic) {
  std::string why;
  const auto library = cuda::open_cudnn(0, nullptr, &why);
  if (library == nullptr) throw Error(why);
  cuda::CudnnGraph graph{.backward = backward, .seq = 1024, .heads = 16, .kv_heads = 16, .head_dim = 64};
  graph.deterministic = deterministic;
  graph.strides.fill(std::int64_t{3} * 16 * 64);
  graph.strides[cuda::kOut] = graph.strides[cuda::kDout] = std::int64_t{16} * 64;
  if (library->plan(graph, &why) == nullptr) throw Error(why);
  return library->version();
}

std::string ask_attribute(cudaDeviceAttr attribute, int wanted) {
  int value = 0;
  PLUMBLINE_CUDA(cudaDeviceGetAttribute(&value, attribute, 0));
  if (value < wanted) throw Error(fmt::format("found {}, expected at least {}", value, wanted));
  return std::to_string(value);
}

int run() {
  if (cuda_devices() == 0) {
    fmt::print("no CUDA device: nothing was asked\n");
    return 0;
  }
  fact("device", [] { return cuda_device_name(0); });
  fact("driver and runtime", [] {
    int driver = 0;
    int runtime = 0;
    PLUMBLINE_CUDA(cudaDriverGetVersion(&driver));
    PLUMBLINE_CUDA(cudaRuntimeGetVersion(&runtime));
    return fmt::format("{} {}", driver, runtime);
  });
  fact("memory pools", [] { return ask_attribute(cudaDevAttrMemoryPoolsSupported, 1); });
  fact("stream priorities", [] { return ask_attribute(cudaDevAttrStreamPrioritiesSupported, 1); });
  fact("227 KiB of shared memory a block",
       [] { return ask_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, 227 << 10); });
  for (const ProductFact& asked : kProducts) {
    fact(asked.name, [&] { return ask_product(asked); });
  }
  fact("cuDNN attention, forward", [] { return ask_cudnn(false, false); });
  fact("cuDNN attention, backward", [] { return ask_cudnn(true, false); });
  fact("cuDNN attention, deterministic backward", [] { return ask_cudnn(true, true); });
  return 0;
}

}  // namespace
}  // namespace plumbline

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a run that is cut off has said what it knew
  try {
    return plumbline::run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
