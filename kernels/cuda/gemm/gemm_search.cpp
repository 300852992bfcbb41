// Exhaustive search over the configurations of cuBLASLt's algorithms.
#include "kernels/cuda/gemm/gemm_search.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/cuda/cuda_operators.hpp"
#include "kernels/cuda/gemm/matmul.hpp"
#include "kernels/cuda/gemm/matmul_plan.hpp"

namespace plumbline {
namespace cuda {
namespace {

constexpr int kMostAlgorithms = 512;
constexpr std::size_t kMostOfOneAlgorithm = 500'000;
constexpr std::size_t kFinalists = 16;
constexpr int kRounds = 4;
constexpr int kProgressEvery = 100;
constexpr std::array<std::uint32_t, 9> kSplits = {2, 3, 4, 5, 6, 8, 12, 16, 32};

/// One way to run an algorithm, with the attributes of cublasLtMatmulAlgoConfigSetAttribute.
struct Configuration {
  int id = 0;
  std::uint32_t tile = 0;
  std::uint32_t stages = 0;
  std::uint32_t split = 1;
  std::uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_NONE;
  std::uint32_t swizzle = 0;
  std::uint32_t custom = 0;
  std::uint16_t cluster = CUBLASLT_CLUSTER_SHAPE_AUTO;
  int away() const { return (split > 1) + (swizzle != 0) + (custom != 0) + (cluster != 0); }
};

struct Timed {
  cublasLtMatmulAlgo_t algorithm{};
  double seconds = 0;
};

template <class V>
V capability(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoCapAttributes_t attribute) {
  V value{};
  std::size_t written = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoCapGetAttribute(&algorithm, attribute, &value, sizeof value, &written);
  return status == CUBLAS_STATUS_SUCCESS ? value : V{};
}

/// A list of ids; {0}, which means undefined, where the algorithm has none.
std::vector<std::uint32_t> capability_ids(const cublasLtMatmulAlgo_t& algorithm,
                                          cublasLtMatmulAlgoCapAttributes_t attribute) {
  std::size_t bytes = 0;
  std::vector<std::uint32_t> ids;
  if (cublasLtMatmulAlgoCapGetAttribute(&algorithm, attribute, nullptr, 0, &bytes) == CUBLAS_STATUS_SUCCESS) {
    ids.resize(std::min<std::size_t>(bytes / sizeof(std::uint32_t), 4096));
    const cublasStatus_t status = cublasLtMatmulAlgoCapGetAttribute(
        &algorithm, attribute, ids.data(), ids.size() * sizeof(std::uint32_t), &bytes);
    if (status != CUBLAS_STATUS_SUCCESS) ids.clear();
  }
  if (ids.empty()) ids.push_back(0);
  return ids;
}

std::vector<std::pair<std::uint32_t, std::uint32_t>> splits_of(const cublasLtMatmulAlgo_t& algorithm) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> splits = {{1, CUBLASLT_REDUCTION_SCHEME_NONE}};
  if (capability<std::int32_t>(algorithm, CUBLASLT_ALGO_CAP_SPLITK_SUPPORT) == 0) return splits;
  const auto mask = capability<std::uint32_t>(algorithm, CUBLASLT_ALGO_CAP_REDUCTION_SCHEME_MASK);
  for (std::uint32_t scheme = 1; scheme < CUBLASLT_REDUCTION_SCHEME_MASK; scheme *= 2) {
    if ((mask & scheme) == 0) continue;
    for (const std::uint32_t split : kSplits) splits.emplace_back(split, scheme);
  }
  return splits;
}

void add_configurations(int id, const cublasLtMatmulAlgo_t& algorithm, std::vector<Configuration>& all) {
  const std::vector<std::uint32_t> tiles = capability_ids(algorithm, CUBLASLT_ALGO_CAP_TILE_IDS);
  const std::vector<std::uint32_t> stages = capability_ids(algorithm, CUBLASLT_ALGO_CAP_STAGES_IDS);
  const auto splits = splits_of(algorithm);
  const std::uint32_t swizzles =
      capability<std::uint32_t>(algorithm, CUBLASLT_ALGO_CAP_CTA_SWIZZLING_SUPPORT) != 0 ? 2 : 1;
  const std::int32_t customs = std::clamp(
      capability<std::int32_t>(algorithm, CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX), std::int32_t{0}, 255);
  const std::size_t end = all.size() + kMostOfOneAlgorithm;
  Configuration c;
  c.id = id;
  for (std::uint16_t cluster = 0; cluster < CUBLASLT_CLUSTER_SHAPE_END; ++cluster) {
    c.cluster = cluster;
    for (std::int32_t custom = 0; custom <= customs; ++custom) {
      c.custom = static_cast<std::uint32_t>(custom);
      for (c.swizzle = 0; c.swizzle < swizzles; ++c.swizzle) {
        for (const auto& [split, scheme] : splits) {
          c.split = split;
          c.scheme = scheme;
          for (const std::uint32_t tile : tiles) {
            c.tile = tile;
            for (const std::uint32_t stage : stages) {
              c.stages = stage;
              if (all.size() == end) return;
              all.push_back(c);
            }
          }
        }
      }
    }
  }
}

bool configure(cublasLtMatmulAlgo_t& algorithm, const Configuration& c) {
  const auto set = [&](cublasLtMatmulAlgoConfigAttributes_t attribute, const auto& value) {
    return cublasLtMatmulAlgoConfigSetAttribute(&algorithm, attribute, &value, sizeof value) ==
           CUBLAS_STATUS_SUCCESS;
  };
  return set(CUBLASLT_ALGO_CONFIG_TILE_ID, c.tile) && set(CUBLASLT_ALGO_CONFIG_STAGES_ID, c.stages) &&
         set(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, c.split) &&
         set(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, c.scheme) &&
         set(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, c.swizzle) &&
         set(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, c.custom) &&
         (c.cluster == 0 || set(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, c.cluster));
}

/// Keeps the fastest few, ascending.
void keep(std::vector<Timed>& finalists, const Timed& one) {
  const auto place = std::upper_bound(finalists.begin(), finalists.end(), one,
                                      [](const Timed& a, const Timed& b) { return a.seconds < b.seconds; });
  finalists.insert(place, one);
  if (finalists.size() > kFinalists) finalists.pop_back();
}

/// Scratch memory for the result, as aligned as C is.
class ScratchOutput {
 public:
  ScratchOutput(const Matrix& c, unsigned alignment, cudaStream_t stream) : stream_(stream) {
    const auto bytes = static_cast<std::size_t>(((c.rows - 1) * c.stride + c.cols) * size_of(c.dtype) + 16);
    PLUMBLINE_CUDA(cudaMallocAsync(&data_, bytes, stream_));
    aligned_ = static_cast<std::byte*>(data_) + (alignment < 16 ? alignment : 0);
  }
  ~ScratchOutput() { static_cast<void>(cudaFreeAsync(data_, stream_)); }
  ScratchOutput(const ScratchOutput&) = delete;
  ScratchOutput& operator=(const ScratchOutput&) = delete;
  void* data() const { return aligned_; }

 private:
  cudaStream_t stream_;
  void* data_ = nullptr;
  void* aligned_ = nullptr;
};

}  // namespace

GemmSearchResult MatmulCache::search(const Gemm& gemm, const GemmSearchLimits& limits,
                                     const GemmSearchProgress& progress) {
  const ProductKey key = key_of(gemm);
  const std::unique_ptr<MatmulPlan> plan = make(key, gemm);
  const ScratchOutput target(gemm.c, key.c_alignment, stream_);
  const cudaDataType_t a_type = data_type(gemm.b.dtype);  // cuBLASLt's first operand is our B
  const cudaDataType_t b_type = data_type(gemm.a.dtype);
  const cudaDataType_t c_type = data_type(gemm.c.dtype);

  std::array<int, kMostAlgorithms> ids{};
  int count = 0;
  PLUMBLINE_CUBLAS(cublasLtMatmulAlgoGetIds(handle_, CUBLAS_COMPUTE_32F, CUDA_R_32F, a_type, b_type, c_type,
                                            c_type, kMostAlgorithms, ids.data(), &count));
  const auto init = [&](int id, cublasLtMatmulAlgo_t& algorithm) {
    return cublasLtMatmulAlgoInit(handle_, CUBLAS_COMPUTE_32F, CUDA_R_32F, a_type, b_type, c_type, c_type, id,
                                  &algorithm) == CUBLAS_STATUS_SUCCESS;
  };
  std::vector<Configuration> all;
  for (int i = 0; i < count; ++i) {
    cublasLtMatmulAlgo_t algorithm{};
    if (init(ids[static_cast<std::size_t>(i)], algorithm)) {
      add_configurations(ids[static_cast<std::size_t>(i)], algorithm, all);
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Configuration& a, const Configuration& b) { return a.away() < b.away(); });

  GemmSearchResult result;
  std::vector<Timed> finalists;
  Stopwatch watch(stream_);
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  for (const Configuration& c : all) {
    if (result.configurations >= limits.configurations || result.timed >= limits.timed ||
        seconds() > limits.time.value) {
      result.complete = false;
      break;
    }
    ++result.configurations;
    Timed one;
    cublasLtMatmulHeuristicResult_t checked{};
    if (!init(c.id, one.algorithm) || !configure(one.algorithm, c) ||
        cublasLtMatmulAlgoCheck(handle_, plan->operation.get(), plan->b.get(), plan->a.get(), plan->c.get(),
                                plan->c.get(), &one.algorithm, &checked) != CUBLAS_STATUS_SUCCESS ||
        checked.workspaceSize > static_cast<std::size_t>(kWorkspace.value)) {
      continue;
    }
    ++result.accepted;
    if (submit(*plan, one.algorithm, gemm, target.data()) != CUBLAS_STATUS_SUCCESS) continue;
    watch.start();
    if (submit(*plan, one.algorithm, gemm, target.data()) != CUBLAS_STATUS_SUCCESS) continue;
    one.seconds = watch.stop();
    keep(finalists, one);
    if (++result.timed % kProgressEvery == 0 && progress) {
      result.best = {finalists.front().seconds};
      progress(result);
    }
  }

  // In turns, so that a clock that changes meanwhile changes for all of them.
  double chosen = std::numeric_limits<double>::infinity();
  for (Timed& one : finalists) one.seconds = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    chosen = std::min(chosen, time(*plan, plan->algorithm, gemm, target.data()));
    for (Timed& one : finalists) {
      one.seconds = std::min(one.seconds, time(*plan, one.algorithm, gemm, target.data()));
    }
  }
  result.chosen = result.best = {chosen};
  result.best_configuration = words(plan->algorithm);
  for (const Timed& one : finalists) {
    if (one.seconds >= result.best.value) continue;
    result.best = {one.seconds};
    result.best_configuration = words(one.algorithm);
  }
  return result;
}

}  // namespace cuda

GemmSearchResult search_gemm(Operators& operators, const Gemm& gemm, const GemmSearchLimits& limits,
                             const GemmSearchProgress& progress) {
  int device = 0;
  PLUMBLINE_CUDA(cudaGetDevice(&device));
  cuda::MatmulCache cache(static_cast<cudaStream_t>(cuda_stream(operators)), device, GemmChoice::timed);
  return cache.search(gemm, limits, progress);
}

}  // namespace plumbline
