// cuDNN's own verdict on the attention graphs, without a GPU. Every graph is checked, compiled and measured
// by the real library for devices that are only described, with a fake driver.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/cuda/attention/cudnn_plan.hpp"
#include "kernels/cuda/attention/cudnn_slices.hpp"

namespace plumbline::cuda {
namespace {

struct Device {
  int compute_capability, multiprocessors, shared_bytes, clock_khz, memory_clock_khz, cache_bytes;
  const char* name;
};
// cudaDeviceGetAttribute of both cards.
constexpr Device kDevices[] = {{90, 132, 232448, 1980000, 2619000, 52428800, "NVIDIA H100 80GB HBM3"},
                               {80, 108, 166912, 1410000, 1593000, 41943040, "NVIDIA A100-SXM4-80GB"}};

std::string json_of(const Device& d) {
  return fmt::format(
      R"({{"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)"
      R"("multiProcessorCount":{},"warpSize":32,"maxSharedMemoryPerBlock":49152,)"
      R"("maxSharedMemoryPerBlockOptin":{},"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,)"
      R"("maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,)"
      R"("supportCoopLaunch":1,"totalGlobalMem":85000000000,"smClockRateKHz":{},"memClockRateKHz":{},)"
      R"("l2CacheSize":{},"deviceName":"{}","cudaDeviceId":0,"deviceVer":{},"driverVer":13000}})",
      d.multiprocessors, d.shared_bytes, d.clock_khz, d.memory_clock_khz, d.cache_bytes, d.name,
      10 * d.compute_capability);
}

constexpr const char* kKnown = "cuDNN 9.19.0";  // its requirements on a driver are pretended

/// The slice's graph in one (T, q + 2k) matrix, with outputs in one like it.
CudnnGraph graph_of(const AttentionShape& s, const AttentionSlice& slice, DType type, bool backward,
                    bool deterministic = false) {
  CudnnGraph graph;
  graph.backward = backward;
  graph.deterministic = deterministic;
  graph.type = type;
  graph.sequences = slice.sequences;
  graph.seq = s.seq;
  graph.heads = slice.kv_heads * slice.group;
  graph.kv_heads = slice.kv_heads;
  graph.head_dim = s.head_dim;
  graph.value_dim = s.values();
  graph.window = s.window;
  graph.strides.fill((s.heads + s.kv_heads) * s.head_dim + s.kv_heads * s.values());
  graph.strides[kOut] = graph.strides[kDout] = s.heads * s.values();
  if (slice.group < s.heads / s.kv_heads) graph.strides[kDk] = graph.strides[kDv] = s.head_dim;
  return graph;
}

struct Case {
  AttentionShape shape;
  DType type;
};
AttentionShape latent(std::int64_t batch, std::int64_t seq, std::int64_t heads, std::int64_t keys,
                      std::int64_t values) {
  AttentionShape shape{batch, seq, heads, heads, keys};
  shape.value_dim = values;
  return shape;
}
const Case kCases[] = {
    {latent(2, 1024, 8, 192, 128), DType::bf16},    // DeepSeek-V3's heads
    {latent(1, 4096, 128, 192, 128), DType::bf16},  // in slices
    {latent(3, 97, 3, 24, 16), DType::fp16},
    {{2, 333, 6, 2, 64}, DType::fp16},           // odd length
    {{1, 4096, 32, 8, 128}, DType::bf16},        // Llama 3 8B, in slices
    {{4, 1024, 12, 12, 64}, DType::bf16},        // GPT-2
    {{1, 8192, 14, 2, 64}, DType::bf16},         // Qwen2.5-0.5B: one key/value head at a time
    {{1, 97, 3, 1, 72}, DType::bf16},            // odd sizes
    {{3, 2, 2, 1, 8}, DType::fp16},              // the smallest
    {{1, 512, 4, 2, 256}, DType::bf16},          // Gemma's heads
    {{1, 8192, 32, 8, 128, 4096}, DType::bf16},  // Mistral 7B v0.1
    {{2, 333, 6, 2, 64, 1}, DType::fp16},        // a window of one key
    {{1, 97, 3, 1, 72, 41}, DType::bf16},        // odd sizes in a window
    {{2, 130, 4, 2, 112}, DType::bf16},          // a length that is padded to eights
    {{1, 1000, 4, 2, 192}, DType::bf16},         // a head size of Hopper's alone
    {{1, 16384, 32, 8, 128}, DType::bf16},   // 2 GiB of scores: one query head at a time where deterministic
    {{1, 8192, 20, 2, 64}, DType::fp16},     // two of ten
    {{1, 131072, 32, 8, 128}, DType::bf16},  // Llama 3.1's longest; no deterministic backward
    {{1, 65536, 2, 2, 256, 1024}, DType::bf16},
};

TEST(CudnnPlans, ShapesOfTheRuleHavePlansWhoseWorkspaceFitsTheScratch) {
  ASSERT_NE(dlopen(PLUMBLINE_FAKE_DRIVER, RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
  for (const Device& device : kDevices) {
    std::string why;
    const std::unique_ptr<Cudnn> library = describe_cudnn(json_of(device), device.compute_capability, &why);
    if (library == nullptr) GTEST_SKIP() << "no cuDNN: " << why;
    for (const auto& [shape, type] : kCases) {
      const std::string what =
          fmt::format("{} batch {} seq {} heads {}/{} of {}/{} window {}", device.name, shape.batch,
                      shape.seq, shape.heads, shape.kv_heads, shape.head_dim, shape.values(), shape.window);
      ASSERT_TRUE(cudnn_takes(shape, type)) << what;
      const auto forward = library->plan(
          graph_of(shape, {shape.batch, shape.kv_heads, shape.heads / shape.kv_heads}, type, false), &why);
      if (library->version() != kKnown && forward == nullptr &&
          why.find("RUNTIME_PREREQUISITE_MISSING") != std::string::npos) {
        GTEST_SKIP() << "this cuDNN wants more of a driver than is pretended: " << why;
      }
      ASSERT_NE(forward, nullptr) << what << " forward: " << why;
      for (const bool deterministic : {false, true}) {
        const std::string backwards = what + (deterministic ? " deterministic backward" : " backward");
        // Parts of gradients and a workspace start at the next multiple of 256.
        const std::int64_t whole = 4 * attention_scratch_elements(shape, type, deterministic);
        EXPECT_LE(forward->workspace(), whole - 256) << what << " forward";
        const AttentionSlice slice = backward_slice(shape, type, deterministic);
        ASSERT_TRUE(deterministic || !slice.empty()) << backwards;
        if (slice.empty()) {
          EXPECT_GT(shape.seq, 23168) << backwards;
          continue;
        }
        const auto backward = library->plan(graph_of(shape, slice, type, true, deterministic), &why);
        if (shape.head_dim > 128 && device.compute_capability < 90) {
          EXPECT_EQ(backward, nullptr)
              << backwards << ": cuDNN has learned this; say so in kernels/cuda/README.md";
          continue;
        }
        ASSERT_NE(backward, nullptr) << backwards << ": " << why;
        const std::int64_t parts = 2 * parts_of_key_gradients(shape, slice);
        const std::int64_t needed = (parts > 0 ? parts + 256 : 0) + 256 + backward->workspace();
        EXPECT_LE(needed, whole) << backwards;
        // The formula is no guess: the most demanding device uses at least nine tenths of the part that does
        // not depend on rounding.
        const int largest = deterministic || shape.head_dim > 128 ? 90 : 80;
        if (device.compute_capability != largest) continue;
        const bool twice =
            !deterministic && largest == 90;  // room for gradients of queries that Hopper does not take
        const std::int64_t queries = 4 * slice.heads() * shape.seq * shape.head_dim;
        EXPECT_GE(needed + 2048 + (twice ? queries : 0), whole * 9 / 10) << backwards;
      }
    }
  }
}

}  // namespace
}  // namespace plumbline::cuda
