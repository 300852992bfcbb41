// Matrix products through oneDNN's matmul primitive, each kind made once and kept unless its rows vary.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <unordered_map>

#include "kernels/operators.hpp"

namespace plumbline::cpu {

class MatmulCache {
 public:
  MatmulCache();
  /// C = op(A)·op(B) [+ C] [+ bias] as in Operators::gemm. Gap-free operands take oneDNN's blocked kernels
  /// (AMX for bf16 where the CPU has it). Operands with gaps between rows take its packing GEMM, which is 10
  /// to 35 % slower.
  void run(const Gemm& gemm);
  /// True if oneDNN multiplies bf16 on this CPU (AVX-512 or later).
  bool has_bf16();

 private:
  /// Everything oneDNN specialises a kernel for.
  struct Key {
    std::int64_t m, n, k, a_stride, b_stride, c_stride;
    DType type, c_type;
    bool a_transposed, b_transposed, accumulate, bias;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  /// A primitive and the memory objects it is called with; only their data pointers change.
  struct Entry {
    dnnl::matmul primitive;
    dnnl::memory a, b, c, bias;
    std::unordered_map<int, dnnl::memory> arguments;
  };
  Entry make(const Key& key) const;
  const Entry& kept(const Key& key);

  dnnl::engine engine_;
  dnnl::stream stream_;
  std::unordered_map<Key, Entry, KeyHash> entries_;
  std::optional<bool> has_bf16_;  // asked once
};

}  // namespace plumbline::cpu
