// Attention on the first GPU, at shapes of real layers: by cuDNN, by cuDNN with a deterministic backward
// (deterministic_mode), and by the own kernels. Prints FLOPs per second, and the share of cuDNN's rate that
// the others reach: one JSON object a line on stdout. Exit code 0 with a message if there is no GPU. Times
// are medians of single calls with an empty cache. If cuDNN does not take a shape, its rows are the own
// kernels'.
//   micro_cuda_attention
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "bench/cuda/times/device_timer.hpp"
#include "bench/measure/calibrate/operator_cases.hpp"
#include "core/base/error.hpp"
#include "kernels/cuda/attention/cudnn_plan.hpp"
#include "kernels/cuda/cuda_operators.hpp"

namespace plumbline {
namespace {

struct Layer {
  const char* model;
  std::int64_t batch, seq, heads, kv_heads, head_dim;
};
constexpr Layer kLayers[] = {
    {"gpt2", 16, 1024, 12, 12, 64},         {"qwen2.5-0.5b", 8, 4096, 14, 2, 64},
    {"llama-3.1-8b", 16, 1024, 32, 8, 128}, {"llama-3.1-8b", 4, 4096, 32, 8, 128},
    {"llama-3.1-8b", 2, 8192, 32, 8, 128},  {"llama-3.1-8b", 1, 16384, 32, 8, 128},
    {"llama-3.1-8b", 1, 32768, 32, 8, 128},
};
constexpr std::array<const char*, 2> kCalls = {"attention_forward", "attention_backward"};

/// Seconds of forward and backward, and their FLOPs.
struct Rates {
  std::array<double, 2> seconds{};
  std::array<double, 2> flops{};
};

Rates measure(const Layer& layer, const CudaOptions& options) {
  const std::unique_ptr<Operators> operators = make_cuda_operators(options);
  const std::unique_ptr<MemorySource> memory = device_memory(*operators);
  DeviceTimer timer(static_cast<cudaStream_t>(cuda_stream(*operators)));
  OperatorShape shape;
  shape.batch = layer.batch;
  shape.seq = layer.seq;
  shape.heads = layer.heads;
  shape.kv_heads = layer.kv_heads;
  shape.head_dim = layer.head_dim;
  shape.hidden = shape.ffn = shape.vocab = 64;  // of operators that are not measured here
  shape.parameters = 1024;
  shape.type = DType::bf16;
  Rates rates;
  for (const OperatorCase& operation : operator_cases(*operators, shape, memory.get())) {
    const auto* call = std::find(kCalls.begin(), kCalls.end(), operation.name);
    if (call == kCalls.end()) continue;
    const auto i = static_cast<std::size_t>(call - kCalls.begin());
    rates.seconds[i] = timer.burst(operation.run, kOfMany).median.value;
    rates.flops[i] = operation.flops.value;
  }
  return rates;
}

int run() {
  if (cuda_devices() == 0) {
    fmt::print("no CUDA device: nothing was measured\n");
    return 0;
  }
  std::string why;
  const std::unique_ptr<cuda::Cudnn> library = cuda::open_cudnn(0, nullptr, &why);
  fmt::print("{{\"device\": \"{}\", \"cudnn\": \"{}\"}}\n", cuda_device_name(0),
             library == nullptr ? "no" : library->version());
  if (library == nullptr) fmt::print(stderr, "no cuDNN: {}\n", why);
  for (const Layer& layer : kLayers) {
    const Rates cudnn = measure(layer, {});
    const Rates deterministic = measure(layer, {.deterministic = true});
    const Rates own = measure(layer, {.cudnn_attention = false});
    const std::pair<const char*, const Rates*> all[] = {
        {"cudnn", &cudnn}, {"cudnn, deterministic", &deterministic}, {"own", &own}};
    for (std::size_t i = 0; i < kCalls.size(); ++i) {
      for (const auto& [name, by] : all) {
        fmt::print(
            "{{\"operator\": \"{}\", \"by\": \"{}\", \"model\": \"{}\", \"type\": \"bf16\", \"batch\": {}, "
            "\"seq\": {}, \"heads\": {}, \"kv_heads\": {}, \"head_dim\": {}, \"seconds\": {:.4e}, "
            "\"tflops\": {:.1f}, \"share_of_cudnn\": {:.3f}}}\n",
            kCalls[i], name, layer.model, layer.batch, layer.seq, layer.heads, layer.kv_heads, layer.head_dim,
            by->seconds[i], by->flops[i] / by->seconds[i] * 1e-12, cudnn.seconds[i] / by->seconds[i]);
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace plumbline

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a run that is cut off has printed its results so far
  try {
    return plumbline::run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
