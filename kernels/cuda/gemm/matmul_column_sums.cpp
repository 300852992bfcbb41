// Products that also sum the columns of an operand, where cuBLASLt has them and they gain. A large model is
// reported to have trained more slowly with them (NVIDIA/CUDALibrarySamples issue 90, 2022).
#include <mutex>

#include "core/base/error.hpp"
#include "kernels/cuda/gemm/matmul.hpp"
#include "kernels/cuda/gemm/matmul_plan.hpp"

namespace plumbline::cuda {
namespace {

/// Results of the timing, shared by all objects of the process so that they compute the same bits.
struct TimedReasons {
  std::mutex mutex;
  std::unordered_map<ProductKey, std::string, ProductKeyHash> reasons;  // of MatmulCache::why_apart()
};
TimedReasons& timed_reasons() {
  static TimedReasons reasons;
  return reasons;
}

}  // namespace

bool MatmulCache::run_with_column_sums(const Gemm& gemm, const std::function<void()>& apart) {
  const ProductKey key = key_of(gemm);
  auto known = apart_.find(key);
  if (known == apart_.end()) {
    known = apart_.emplace(key, why_apart(key, gemm, apart)).first;
    if (!known->second.empty()) plans_.erase(key);
  }
  if (!known->second.empty()) return false;
  run(gemm);
  return true;
}

std::string MatmulCache::why_apart(const ProductKey& key, const Gemm& gemm,
                                   const std::function<void()>& apart) {
  if (choice_ == GemmChoice::timed) {
    const std::scoped_lock lock(timed_reasons().mutex);
    const auto known = timed_reasons().reasons.find(key);
    if (known != timed_reasons().reasons.end()) return known->second;
  }
  try {
    const MatmulPlan& at_once = plan_of(key, gemm);
    if (choice_ == GemmChoice::first) return {};
    const std::string why = slower_than_apart(at_once, key, gemm, apart);
    const std::scoped_lock lock(timed_reasons().mutex);
    return timed_reasons().reasons.emplace(key, why).first->second;
  } catch (const Error& error) {
    return error.what();
  }
}

std::string MatmulCache::slower_than_apart(const MatmulPlan& at_once, const ProductKey& key, const Gemm& gemm,
                                           const std::function<void()>& apart) {
  Gemm plain = gemm;
  plain.bias_gradient = Matrix();
  const MatmulPlan& product = plan_of(key_of(plain), plain);
  const BesideC target(gemm.c, key.c_alignment, stream_);
  if (target.data() == nullptr) return {};  // no room to try things
  apart();                                  // the first run of a kernel loads it
  const double whole = time(at_once, at_once.algorithm, gemm, target.data());
  const double parts = time(product, product.algorithm, plain, target.data()) + least_seconds(stream_, apart);
  if (whole <= parts) return {};
  return "slower, " + std::to_string(whole * 1e6) + " us in place of " + std::to_string(parts * 1e6);
}

}  // namespace plumbline::cuda
