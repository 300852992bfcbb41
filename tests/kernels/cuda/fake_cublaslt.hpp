// cuBLASLt in the place of the library, for tests without a GPU: two algorithms whose times are known, on a
// clock that only products move. The heuristic names one of each, 100 and 81 ms; the fastest of all takes 40
// ms.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

namespace plumbline::test {

/// Requests that it received.
struct FakeCublas {
  struct Layout {
    std::uint64_t cols;
    std::int32_t batch;
    std::int64_t step;
    friend bool operator==(const Layout&, const Layout&) = default;
  };
  using Attributes = std::map<cublasLtMatmulDescAttributes_t, std::vector<unsigned char>>;

  void* product_target = nullptr;  // where the last product was written
  int products = 0;
  int questions = 0;                 // to the heuristic
  int refusals = 0;                  // of products from now on
  bool knows_bias_gradients = true;  // has algorithms with CUBLASLT_EPILOGUE_BGRADB
  float clock_ms = 0;
  float bias_gradient_ms = 0;              // that such a product takes longer than without
  std::vector<Layout> layouts_of_product;  // of its A, B and C as the library sees them
  float factor_of_product = 0;
  Attributes attributes_of_product;                         // as they were at the last product
  cudaDataType_t a_type = CUDA_R_32F, b_type = CUDA_R_32F;  // the list of algorithms was asked for

  /// Attribute of the last product; zero where nobody set it.
  template <class V>
  V attribute(cublasLtMatmulDescAttributes_t which) {
    V value{};
    const std::vector<unsigned char>& bytes = attributes_of_product[which];
    if (bytes.size() == sizeof value) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  static FakeCublas& instance();
};

}  // namespace plumbline::test
