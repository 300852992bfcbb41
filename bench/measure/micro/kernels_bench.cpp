// Every CPU operator at the shapes of a Qwen2.5-0.5B layer: bytes and FLOPs per second. Matrix products next
// to bare oneDNN at the same shape, timed alternately so that a noisy machine disturbs both.
#include <benchmark/benchmark.h>

#include <chrono>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>

#include "bench/measure/calibrate/operator_cases.hpp"
#include "core/base/statistics.hpp"
#include "kernels/cpu/cpu_operators.hpp"

namespace plumbline {
namespace {

/// The product through oneDNN alone: nothing looked up, checked or set between calls.
class BareProduct {
 public:
  explicit BareProduct(const Gemm& g) : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    const auto view = [&](const Matrix& x, bool transposed) {
      const auto type = x.dtype == DType::fp32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
      return transposed ? dnnl::memory::desc({x.cols, x.rows}, type, dnnl::memory::dims{1, x.stride})
                        : dnnl::memory::desc({x.rows, x.cols}, type, dnnl::memory::dims{x.stride, 1});
    };
    const dnnl::memory::desc a = view(g.a, g.a_transposed);
    const dnnl::memory::desc b = view(g.b, g.b_transposed);
    const dnnl::memory::desc c = view(g.c, false);
    dnnl::primitive_attr attributes;
    if (g.accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0F);
      attributes.set_post_ops(sum);
    }
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, b, c), attributes, engine_);
    implementation_ = description.impl_info_str();
    primitive_ = dnnl::matmul(description);
    arguments_ = {{DNNL_ARG_SRC, dnnl::memory(a, engine_, g.a.data)},
                  {DNNL_ARG_WEIGHTS, dnnl::memory(b, engine_, g.b.data)},
                  {DNNL_ARG_DST, dnnl::memory(c, engine_, g.c.data)}};
  }
  void run() {
    primitive_.execute(stream_, arguments_);
    stream_.wait();
  }
  const std::string& implementation() const { return implementation_; }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::matmul primitive_;
  std::unordered_map<int, dnnl::memory> arguments_;
  std::string implementation_;
};

Operators& operators() {
  static const std::unique_ptr<Operators> instance = make_cpu_operators();
  return *instance;
}

template <class F>
double seconds_of(F&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void product_vs_onednn(benchmark::State& state, const ProductShape& shape) {
  Operators& op = operators();
  std::vector<std::vector<std::byte>> memory;
  Gemm gemm = product_operands(shape, memory);
  BareProduct bare(gemm);
  bare.run();
  op.gemm(gemm);
  std::vector<double> ours;
  std::vector<double> theirs;
  while (state.KeepRunning()) {
    theirs.push_back(seconds_of([&] { bare.run(); }));
    ours.push_back(seconds_of([&] { op.gemm(gemm); }));
    state.SetIterationTime(ours.back());
  }
  const double flops =
      2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
  state.counters["GFLOP/s"] = flops / upper_median(ours) * 1e-9;
  state.counters["oneDNN_GFLOP/s"] = flops / upper_median(theirs) * 1e-9;
  state.counters["ratio"] = upper_median(theirs) / upper_median(ours);
  state.SetLabel(bare.implementation());
}

void operator_rate(benchmark::State& state, const OperatorCase& operation) {
  operation.run();
  while (state.KeepRunning()) operation.run();
  const auto calls = static_cast<double>(state.iterations());
  state.counters["GB/s"] = benchmark::Counter(calls * static_cast<double>(operation.bytes.value) * 1e-9,
                                              benchmark::Counter::kIsRate);
  if (operation.flops.value > 0) {
    state.counters["GFLOP/s"] =
        benchmark::Counter(calls * operation.flops.value * 1e-9, benchmark::Counter::kIsRate);
  }
}

/// Forward y = x·wᵀ, input gradient dx = dy·w and weight gradient dw += dyᵀ·x of a linear layer.
void register_linear(const std::string& layer, std::int64_t tokens, std::int64_t outputs,
                     std::int64_t inputs) {
  for (const DType type : {DType::fp32, DType::bf16}) {
    const std::string suffix = "/" + layer + "/" + std::to_string(tokens) + "x" + std::to_string(outputs) +
                               "x" + std::to_string(inputs) + "/" + std::string(name_of(type));
    const auto add = [&](const char* pass, const ProductShape& shape) {
      benchmark::RegisterBenchmark((std::string("gemm_") + pass + suffix).c_str(), product_vs_onednn, shape)
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond);
    };
    add("forward", {tokens, outputs, inputs, type, type, false, true, false});
    add("input_gradient", {tokens, inputs, outputs, type, type, false, false, false});
    add("weight_gradient", {outputs, inputs, tokens, type, DType::fp32, true, false, true});
  }
}

}  // namespace
}  // namespace plumbline

int main(int argc, char** argv) {
  using namespace plumbline;
  for (const std::int64_t tokens : {256, 512, 1024}) {
    register_linear("qwen2.5-0.5b_qkv", tokens, 1152, 896);
    register_linear("qwen2.5-0.5b_projection", tokens, 896, 896);
    register_linear("qwen2.5-0.5b_gate_up", tokens, 9728, 896);
    register_linear("qwen2.5-0.5b_down", tokens, 896, 4864);
  }
  register_linear("gpt2_qkv", 1024, 2304, 768);
  register_linear("gpt2_fc1", 1024, 3072, 768);
  register_linear("gpt2_fc2", 1024, 768, 3072);
  for (const DType type : {DType::fp32, DType::bf16}) {
    OperatorShape shape;
    shape.type = type;
    for (const OperatorCase& operation : operator_cases(operators(), shape)) {
      const std::string name = operation.name + "/" + std::string(name_of(type));
      benchmark::RegisterBenchmark(name.c_str(), operator_rate, operation)->Unit(benchmark::kMicrosecond);
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
