// Plans of matrix products: cuBLASLt descriptors, and an algorithm that is the heuristic's first or the
// fastest of its best.
#include "kernels/cuda/gemm/matmul.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/hash.hpp"
#include "kernels/cuda/gemm/matmul_plan.hpp"

namespace plumbline {

namespace cuda {
namespace {

constexpr int kCandidates = 16;

/// Alignment of an address, and of those that lie multiples of `step` bytes behind it.
unsigned alignment_of(const void* data, std::int64_t step = 0) {
  unsigned bytes = 16;
  while ((reinterpret_cast<std::uintptr_t>(data) | static_cast<std::uintptr_t>(step)) % bytes != 0)
    bytes /= 2;
  return bytes;
}

/// Choices made by timing, shared by all objects of the process so that they compute the same bits.
struct TimedChoices {
  std::mutex mutex;
  std::unordered_map<ProductKey, cublasLtMatmulAlgo_t, ProductKeyHash> algorithms;
};
TimedChoices& timed_choices() {
  static TimedChoices choices;
  return choices;
}

std::string describe(const ProductKey& key) {
  return std::to_string(key.m) + "x" + std::to_string(key.n) + "x" + std::to_string(key.k) + " " +
         std::string(name_of(key.a_type)) + " by " + std::string(name_of(key.b_type)) + " to " +
         std::string(name_of(key.c_type)) + (key.a_transposed ? " A transposed" : "") +
         (key.b_transposed ? " B transposed" : "") + " strides " + std::to_string(key.a_stride) + ", " +
         std::to_string(key.b_stride) + ", " + std::to_string(key.c_stride) +
         (key.rows_vary ? " for fewer rows, too" : "") + (key.bias_gradient ? " with column sums of A" : "") +
         (key.batch.count > 1 ? " times " + std::to_string(key.batch.count) : "");
}

/// At most a quarter more: few numbers stand for all, and the fastest algorithm rarely differs.
std::int64_t rounded_rows(std::int64_t rows) {
  const auto step = static_cast<std::int64_t>(
      std::max(std::bit_floor(static_cast<std::uint64_t>(rows)) / 4, std::uint64_t{1}));
  return (rows + step - 1) / step * step;
}

Gemm with_rounded_rows(const Gemm& gemm) {
  Gemm rounded = gemm;
  rounded.a.rows = rounded_rows(gemm.a.rows);
  (gemm.a_transposed ? rounded.b : rounded.c).rows = rounded.a.rows;
  return rounded;
}

/// Addresses of bias and scales in this call. cuBLASLt's first operand is our B. A scale, by default one for
/// the whole tensor, is the device address of the operand's factor: 1/s of quantizing.
void point_at(const Operation& operation, const Gemm& gemm) {
  const auto at = [](const Matrix& x) { return static_cast<const void*>(x.data); };
  if (gemm.bias.data != nullptr) set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, at(gemm.bias));
  if (gemm.bias_gradient.data != nullptr)
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, at(gemm.bias_gradient));
  if (!is_fp8(gemm.a.dtype)) return;
  set(operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, at(gemm.b_inverse_scale));
  set(operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, at(gemm.a_inverse_scale));
}

/// True if Hopper's matrix units may keep the sums of FP8 products to themselves, with about 14 bits
/// (DeepSeek-AI 2024, arXiv:2412.19437 §3.3.2), instead of adding them to fp32 every few steps. As in
/// Transformer Engine: in the forward, not for gradients, which are E5M2 or accumulated. An input gradient
/// all in E4M3 looks like a forward and is done like one.
bool fast_accumulation(const ProductKey& key) {
  return key.a_type == DType::fp8_e4m3 && key.b_type == DType::fp8_e4m3 && !key.accumulate;
}

}  // namespace

std::size_t ProductKeyHash::operator()(const ProductKey& key) const {
  std::uint64_t hash = 0;
  const auto mix = [&hash](std::int64_t value) { hash = mix_word(hash, static_cast<std::uint64_t>(value)); };
  for (const std::int64_t value : {key.m, key.n, key.k, key.a_stride, key.b_stride, key.c_stride,
                                   key.batch.count, key.batch.a_step, key.batch.b_step, key.batch.c_step})
    mix(value);
  mix(static_cast<int>(key.a_type) | static_cast<int>(key.b_type) << 4 | static_cast<int>(key.c_type) << 8 |
      key.a_transposed << 12 | key.b_transposed << 13 | key.accumulate << 14 | key.bias << 15 |
      key.rows_vary << 16 | key.bias_gradient << 17);
  return hash;
}

MatmulCache::MatmulCache(cudaStream_t stream, int device, GemmChoice choice)
    : stream_(stream), device_(device), choice_(choice), workspace_(stream), scales_(stream) {
  PLUMBLINE_CUBLAS(cublasLtCreate(&handle_));
}

MatmulCache::~MatmulCache() {
  plans_.clear();
  static_cast<void>(cublasLtDestroy(handle_));
}

std::unique_ptr<MatmulPlan> MatmulCache::make(const ProductKey& key, const Gemm& gemm) {
  auto plan = std::make_unique<MatmulPlan>();
  PLUMBLINE_CUBLAS(cublasLtMatmulDescCreate(plan->operation.address(), CUBLAS_COMPUTE_32F, CUDA_R_32F));
  // cuBLASLt's first operand is our B. Both appear transposed in its column-major layout, so an operand not
  // transposed here is not transposed there either.
  set(plan->operation, CUBLASLT_MATMUL_DESC_TRANSA, key.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(plan->operation, CUBLASLT_MATMUL_DESC_TRANSB, key.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (key.bias) {
    // The bias runs along the rows of cuBLASLt's result: our columns.
    set(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
        static_cast<std::int32_t>(data_type(gemm.bias.dtype)));
  }
  if (key.bias_gradient) {
    // Sums over k of its second operand, our A, for every column of its result, our rows.
    set(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BGRADB);
    set(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
        static_cast<std::int32_t>(data_type(gemm.bias_gradient.dtype)));
  }
  if (is_fp8(key.a_type)) {
    set(plan->operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<std::int8_t>(fast_accumulation(key)));
  }
  if (key.multiprocessors > 0) {
    set(plan->operation, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET,
        static_cast<std::int32_t>(key.multiprocessors));
  }
  point_at(plan->operation, gemm);
  describe(plan->a, gemm.a);
  describe(plan->b, gemm.b);
  describe(plan->c, gemm.c);
  if (key.batch.count > 1) {
    set_batch(plan->a, key.batch.count, key.batch.a_step);
    set_batch(plan->b, key.batch.count, key.batch.b_step);
    set_batch(plan->c, key.batch.count, key.batch.c_step);
  }
  plan->alpha = key.batch.factor;
  plan->beta = key.accumulate ? 1.0F : 0.0F;
  plan->algorithm = choose(*plan, key, gemm);
  return plan;
}

cublasLtMatmulAlgo_t MatmulCache::choose(const MatmulPlan& plan, const ProductKey& key, const Gemm& gemm) {
  const std::scoped_lock lock(timed_choices().mutex);
  if (choice_ == GemmChoice::timed && !key.rows_vary) {
    const auto known = timed_choices().algorithms.find(key);
    if (known != timed_choices().algorithms.end()) return known->second;
  }
  Preference preference;
  PLUMBLINE_CUBLAS(cublasLtMatmulPreferenceCreate(preference.address()));
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(kWorkspace.value));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<std::uint32_t>(key.b_alignment));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<std::uint32_t>(key.a_alignment));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<std::uint32_t>(key.c_alignment));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<std::uint32_t>(key.c_alignment));
  std::vector<cublasLtMatmulHeuristicResult_t> found(kCandidates);
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_, plan.operation.get(), plan.b.get(), plan.a.get(), plan.c.get(), plan.c.get(), preference.get(),
      choice_ == GemmChoice::timed && !key.rows_vary ? kCandidates : 1, found.data(), &count);
  if (status != CUBLAS_STATUS_SUCCESS || count == 0) {
    throw Error("gemm: cuBLASLt has no algorithm for " + describe(key) + ": " +
                cublasLtGetStatusString(status));
  }
  if (choice_ == GemmChoice::first || key.rows_vary || count == 1) return found[0].algo;

  const BesideC target(gemm.c, key.c_alignment, stream_, (key.batch.count - 1) * key.batch.c_step);
  if (target.data() == nullptr) return found[0].algo;  // no room to try things: the heuristic knows best
  int best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < count; ++i) {
    if (found[static_cast<std::size_t>(i)].state != CUBLAS_STATUS_SUCCESS) continue;
    const double seconds = time(plan, found[static_cast<std::size_t>(i)].algo, gemm, target.data());
    if (seconds < least) {
      least = seconds;
      best = i;
    }
  }
  const cublasLtMatmulAlgo_t algorithm = found[static_cast<std::size_t>(best)].algo;
  timed_choices().algorithms.emplace(key, algorithm);
  return algorithm;
}

double MatmulCache::time(const MatmulPlan& plan, const cublasLtMatmulAlgo_t& algorithm, const Gemm& gemm,
                         void* target) {
  if (submit(plan, algorithm, gemm, target) != CUBLAS_STATUS_SUCCESS) {  // this run also warms up
    return std::numeric_limits<double>::infinity();
  }
  return least_seconds(stream_, [&] { PLUMBLINE_CUBLAS(submit(plan, algorithm, gemm, target)); });
}

cublasStatus_t MatmulCache::submit(const MatmulPlan& plan, const cublasLtMatmulAlgo_t& algorithm,
                                   const Gemm& gemm, void* target) {
  return cublasLtMatmul(handle_, plan.operation.get(), &plan.alpha, gemm.b.data, plan.b.get(), gemm.a.data,
                        plan.a.get(), &plan.beta, gemm.c.data, plan.c.get(), target, plan.c.get(), &algorithm,
                        workspace_.at_least<std::byte>(kWorkspace.value),
                        static_cast<std::size_t>(kWorkspace.value), stream_);
}

ProductKey MatmulCache::key_of(const Gemm& gemm, const ProductBatch& batch) const {
  const auto alignment = [&](const Matrix& x, std::int64_t step) {
    return alignment_of(x.data, batch.count > 1 ? step * size_of(x.dtype) : 0);
  };
  return {gemm.c.rows,
          gemm.c.cols,
          gemm.a_transposed ? gemm.a.rows : gemm.a.cols,
          gemm.a.stride,
          gemm.b.stride,
          gemm.c.stride,
          gemm.a.dtype,
          gemm.b.dtype,
          gemm.c.dtype,
          gemm.a_transposed,
          gemm.b_transposed,
          gemm.accumulate,
          gemm.bias.data != nullptr,
          gemm.bias_gradient.data != nullptr,
          alignment(gemm.a, batch.a_step),
          alignment(gemm.b, batch.b_step),
          alignment(gemm.c, batch.c_step),
          alignment_of(gemm.bias.data),
          device_,
          multiprocessors_,
          gemm.rows_vary,
          batch};
}

void MatmulCache::run_or_throw(const MatmulPlan& plan, const cublasLtMatmulAlgo_t& algorithm,
                               const ProductKey& key, const Gemm& gemm) {
  const cublasStatus_t status = submit(plan, algorithm, gemm, gemm.c.data);
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error("gemm " + describe(key) + " by " + words(algorithm) + ": " + cublasLtGetStatusName(status));
}

Gemm MatmulCache::with_aligned_scales(const Gemm& gemm) {
  if (!is_fp8(gemm.a.dtype)) return gemm;
  constexpr std::size_t kStep = 4;  // floats in 16 bytes
  Gemm aligned = gemm;
  std::size_t place = 0;
  for (Matrix* scale : {&aligned.a_inverse_scale, &aligned.b_inverse_scale}) {
    if (alignment_of(scale->data) == 16) continue;
    float* const to = scales_.at_least<float>(2 * kStep) + kStep * place++;
    PLUMBLINE_CUDA(cudaMemcpyAsync(to, scale->data, sizeof(float), cudaMemcpyDeviceToDevice, stream_));
    scale->data = to;
  }
  return aligned;
}

void MatmulCache::run(const Gemm& given, const ProductBatch& batch) {
  const Gemm gemm = with_aligned_scales(given);
  const Gemm planned = gemm.rows_vary ? with_rounded_rows(gemm) : gemm;
  const ProductKey key = key_of(planned, batch);
  const MatmulPlan& plan = plan_of(key, planned);
  point_at(plan.operation, gemm);
  if (gemm.rows_vary) return run_rows(plan, key, gemm);
  run_or_throw(plan, plan.algorithm, key, gemm);
}

const MatmulPlan& MatmulCache::plan_of(const ProductKey& key, const Gemm& gemm) {
  auto found = plans_.find(key);
  if (found == plans_.end()) found = plans_.emplace(key, make(key, gemm)).first;
  return *found->second;
}

void MatmulCache::run_rows(const MatmulPlan& plan, const ProductKey& key, const Gemm& gemm) {
  set_rows(plan.a, gemm.a.rows);
  set_rows(gemm.a_transposed ? plan.b : plan.c, gemm.a.rows);
  if (submit(plan, plan.algorithm, gemm, gemm.c.data) == CUBLAS_STATUS_SUCCESS) return;
  // An algorithm for more rows may not support these: the heuristic is asked for exactly them.
  run_or_throw(plan, choose(plan, key, gemm), key, gemm);
}

std::vector<KernelChoice> MatmulCache::choices() const {
  std::vector<KernelChoice> choices;
  choices.reserve(plans_.size());
  for (const auto& [key, plan] : plans_) {
    std::string by = words(plan->algorithm);
    if (key.multiprocessors > 0) by += ", for " + std::to_string(key.multiprocessors) + " multiprocessors";
    choices.push_back({"gemm " + describe(key), by, ""});
  }
  for (const auto& [key, why] : apart_) {
    if (!why.empty()) choices.push_back({"gemm " + describe(key), "a product and column sums apart", why});
  }
  return choices;
}

}  // namespace cuda

Bytes cuda_workspace() {
  return cuda::kWorkspace;
}

}  // namespace plumbline
