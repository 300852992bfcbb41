// Matrix products through cuBLASLt, the algorithm of each shape chosen once and kept.
#pragma once

#include <cublasLt.h>

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/choice.hpp"
#include "kernels/cuda/cuda_operators.hpp"
#include "kernels/cuda/device/device_buffer.hpp"
#include "kernels/cuda/gemm/gemm_search_result.hpp"

namespace plumbline::cuda {

/// Equal products in one call: the matrices of each lie so many elements behind those of the one before.
struct ProductBatch {
  std::int64_t count = 1;
  std::int64_t a_step = 0, b_step = 0, c_step = 0;
  float factor = 1;  // of the products
  friend bool operator==(const ProductBatch&, const ProductBatch&) = default;
};

/// All inputs of cuBLASLt's choice of an algorithm. Its matrices are column-major, so a row-major C =
/// op(A)·op(B) is requested as Cᵀ = op(B)ᵀ·op(A)ᵀ: the memory is the same. Bias and scale addresses
/// are not part of it.
struct ProductKey {
  std::int64_t m, n, k, a_stride, b_stride, c_stride;
  DType a_type, b_type, c_type;
  bool a_transposed, b_transposed, accumulate, bias, bias_gradient;
  unsigned a_alignment, b_alignment, c_alignment, bias_alignment;  // bytes, at most 16
  int device;
  int multiprocessors;  // that a product may count on; 0: all
  bool rows_vary;       // those of A are rounded
  ProductBatch batch;
  friend bool operator==(const ProductKey&, const ProductKey&) = default;
};
struct ProductKeyHash {
  std::size_t operator()(const ProductKey& key) const;
};

struct MatmulPlan;  // matmul_plan.hpp

class MatmulCache {
 public:
  MatmulCache(cudaStream_t stream, int device, GemmChoice choice);
  ~MatmulCache();
  MatmulCache(const MatmulCache&) = delete;
  MatmulCache& operator=(const MatmulCache&) = delete;

  /// As Operators::gemm; no side is empty, and a bias has C's type. A batch has no bias and no varying rows.
  void run(const Gemm& gemm, const ProductBatch& batch = {});
  /// The same with a bias gradient, of C's type, which is overwritten: CUBLASLT_EPILOGUE_BGRADB. Returns
  /// false, and computes nothing, if cuBLASLt has no such product. Also if it is slower than a plain one plus
  /// `apart`, which sums the columns of A into scratch memory. Both are timed at the first call, unless
  /// nothing is timed (GemmChoice::first).
  bool run_with_column_sums(const Gemm& gemm, const std::function<void()>& apart);
  /// Products planned from now on count on this many multiprocessors, the rest being held by others; 0: on
  /// all.
  void count_on(int multiprocessors) { multiprocessors_ = multiprocessors; }
  /// The algorithm of each product so far, in no order that means anything.
  std::vector<KernelChoice> choices() const;
  /// As search_gemm(); in gemm_search.cpp.
  GemmSearchResult search(const Gemm& gemm, const GemmSearchLimits& limits,
                          const GemmSearchProgress& progress);

 private:
  ProductKey key_of(const Gemm& gemm, const ProductBatch& batch = {}) const;
  /// cuBLASLt 13.1 on an H100 refuses scales off 16-byte boundaries, although its documentation asks it of
  /// matrices only: such scales are copied first, into memory that the product before has done with.
  Gemm with_aligned_scales(const Gemm& gemm);
  /// With a plan for a similar number of rows.
  void run_rows(const MatmulPlan& plan, const ProductKey& key, const Gemm& gemm);
  const MatmulPlan& plan_of(const ProductKey& key, const Gemm& gemm);
  std::unique_ptr<MatmulPlan> make(const ProductKey& key, const Gemm& gemm);
  /// Why the product with column sums is not to be run; empty: it is.
  std::string why_apart(const ProductKey& key, const Gemm& gemm, const std::function<void()>& apart);
  std::string slower_than_apart(const MatmulPlan& at_once, const ProductKey& key, const Gemm& gemm,
                                const std::function<void()>& apart);
  cublasLtMatmulAlgo_t choose(const MatmulPlan& plan, const ProductKey& key, const Gemm& gemm);
  /// Seconds of the fastest of a few runs into `target`, infinity when the algorithm refuses.
  double time(const MatmulPlan& plan, const cublasLtMatmulAlgo_t& algorithm, const Gemm& gemm, void* target);
  cublasStatus_t submit(const MatmulPlan& plan, const cublasLtMatmulAlgo_t& algorithm, const Gemm& gemm,
                        void* target);
  /// Into C. Throws Error with product and algorithm when cuBLASLt refuses.
  void run_or_throw(const MatmulPlan& plan, const cublasLtMatmulAlgo_t& algorithm, const ProductKey& key,
                    const Gemm& gemm);

  cudaStream_t stream_;
  int device_;
  GemmChoice choice_;
  int multiprocessors_ = 0;
  cublasLtHandle_t handle_ = nullptr;
  DeviceBuffer workspace_;
  DeviceBuffer scales_;  // of with_aligned_scales()
  std::unordered_map<ProductKey, std::unique_ptr<MatmulPlan>, ProductKeyHash> plans_;
  std::unordered_map<ProductKey, std::string, ProductKeyHash>
      apart_;  // by why_apart(), of products with column sums
};

}  // namespace plumbline::cuda
