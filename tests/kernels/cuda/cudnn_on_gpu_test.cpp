// On a GPU: attention by cuDNN against the own kernels and the CPU; with a deterministic backward the same
// bits every time.
#include <fmt/format.h>

#include <tuple>

#include "kernels/cpu/cpu_operators.hpp"
#include "kernels/cuda/attention/cudnn_plan.hpp"
#include "kernels/cuda/attention/cudnn_slices.hpp"
#include "kernels/cuda/cuda_operators.hpp"
#include "tests/kernels/cuda/staged_operators.hpp"
#include "tests/kernels/operator_test.hpp"

namespace plumbline::test {
namespace {

struct Results {
  Guarded out, lse, dqkv;
};

/// Forward and backward over slices of one (T, q + k + v) matrix.
Results attend(Operators& op, const AttentionShape& s, const Guarded& qkv, const Guarded& dout) {
  const DType type = qkv.matrix().dtype;
  const std::int64_t q = s.heads * s.head_dim;
  const std::int64_t k = s.kv_heads * s.head_dim;
  const std::int64_t v = s.kv_heads * s.values();
  Results r{Guarded(s.batch * s.seq, s.heads * s.values(), type),
            Guarded(s.batch * s.heads, s.seq, DType::fp32), Guarded(s.batch * s.seq, q + k + v, type, 8)};
  const Guarded scratch(1, op.attention_scratch(s, type), DType::fp32);
  const auto part = [&](const Guarded& x, int i) {
    if (i == 2) return x.matrix().columns(q + k, v);
    return i == 0 ? x.matrix().columns(0, q) : x.matrix().columns(q, k);
  };
  op.attention_forward(s, part(qkv, 0), part(qkv, 1), part(qkv, 2), r.out, r.lse, scratch);
  op.attention_backward(s, part(qkv, 0), part(qkv, 1), part(qkv, 2), r.out, r.lse, dout, part(r.dqkv, 0),
                        part(r.dqkv, 1), part(r.dqkv, 2), scratch);
  EXPECT_TRUE(r.out.intact() && r.lse.intact() && r.dqkv.intact() && scratch.intact());
  return r;
}

Guarded in_fp32(const Guarded& x) {
  Guarded wide(x.matrix().rows, x.matrix().cols, DType::fp32);
  wide.write(x.read());
  return wide;
}

std::unique_ptr<Operators> operators_with(const CudaOptions& options) {
  std::unique_ptr<Operators> device = make_cuda_operators(options);
  std::unique_ptr<MemorySource> memory = device_memory(*device);
  return stage(std::move(device), std::move(memory));
}

AttentionShape latent(const AttentionShape& keys, std::int64_t values) {
  AttentionShape shape = keys;
  shape.value_dim = values;
  return shape;
}

const AttentionShape kShapes[] = {
    latent({2, 300, 4, 4, 192}, 128),
    latent({1, 97, 3, 3, 24}, 16),
    {2, 333, 6, 2, 64},
    {1, 1024, 4, 2, 128},
    {3, 2, 2, 1, 8},
    {1, 97, 3, 1, 72},
    {2, 257, 4, 4, 40},
    {1, 129, 2, 1, 128},
    {1, 4096, 9, 9, 32},   // in slices
    {1, 16384, 3, 1, 32},  // deterministic: one query head at a time
    {2, 333, 6, 2, 64, 1},
    {1, 1024, 4, 2, 128, 300},
    {1, 97, 3, 1, 72, 3},
    {1, 4096, 9, 9, 32, 1000},
};

/// A test per shape and type: cuDNN compiles its plans in seconds, and shards of the program share them.
class CudnnOnGpu : public ::testing::TestWithParam<std::tuple<DType, AttentionShape>> {};

TEST_P(CudnnOnGpu, AgreesWithTheOwnKernelsAndTheCpu) {
  const auto& [type, s] = GetParam();
  std::string why;
  const std::unique_ptr<cuda::Cudnn> library = cuda::open_cudnn(0, nullptr, &why);
  if (library == nullptr) GTEST_SKIP() << "no cuDNN: " << why;
  const std::unique_ptr<Operators> own = operators_with({.cudnn_attention = false});
  const std::unique_ptr<Operators> alike = operators_with({.deterministic = true});
  const std::unique_ptr<Operators> cpu = make_cpu_operators();
  const std::string what = fmt::format("{} batch {} seq {} heads {}/{} of {}/{} window {}", name_of(type),
                                       s.batch, s.seq, s.heads, s.kv_heads, s.head_dim, s.values(), s.window);
  const std::int64_t width = (s.heads + s.kv_heads) * s.head_dim + s.kv_heads * s.values();
  cuda::CudnnGraph graph;
  graph.type = type;
  graph.sequences = s.batch;
  graph.seq = s.seq;
  graph.heads = s.heads;
  graph.kv_heads = s.kv_heads;
  graph.head_dim = s.head_dim;
  graph.value_dim = s.values();
  graph.window = s.window;
  graph.strides.fill(width);
  graph.strides[cuda::kOut] = s.heads * s.values();
  ASSERT_NE(library->plan(graph, &why), nullptr) << what << ": " << why;
  const Guarded qkv = random_matrix(s.batch * s.seq, width, type);
  const Guarded dout = random_matrix(s.batch * s.seq, s.heads * s.values(), type);
  const Results found = attend(*alike, s, qkv, dout);
  const Results again = attend(*alike, s, qkv, dout);
  const Results in_any_order = attend(operators(), s, qkv, dout);
  EXPECT_EQ(found.out.bytes(), again.out.bytes()) << what << " out twice";
  EXPECT_EQ(found.lse.bytes(), again.lse.bytes()) << what << " lse twice";
  EXPECT_EQ(found.dqkv.bytes(), again.dqkv.bytes()) << what << " gradients twice";
  const bool quick = s.seq < 2048;
  // The CPU computes in fp32 what the card computes in fp16: its error is not to hide the card's.
  const Guarded wide_qkv = in_fp32(qkv);
  const Guarded wide_dout = in_fp32(dout);
  const bool wide = type == DType::fp16;
  for (Operators* other : {own.get(), quick ? cpu.get() : nullptr}) {
    if (other == nullptr) continue;
    const bool widened = wide && other == cpu.get();
    const Results expected = attend(*other, s, widened ? wide_qkv : qkv, widened ? wide_dout : dout);
    const std::string against = what + (other == own.get() ? " own" : " cpu");
    // Both sides round to the storage type, some on the way, too.
    expect_close(found.out, expected.out.read(), 2e-4, against + " out");
    expect_close(found.lse, expected.lse.read(), 1e-9, against + " lse");
    expect_close(found.dqkv, expected.dqkv.read(), 2e-4, against + " gradients");
    expect_close(in_any_order.dqkv, expected.dqkv.read(), 2e-4, against + " gradients, sums in any order");
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudnnOnGpu,
                         ::testing::Combine(::testing::Values(DType::bf16, DType::fp16),
                                            ::testing::ValuesIn(kShapes)));

}  // namespace
}  // namespace plumbline::test
