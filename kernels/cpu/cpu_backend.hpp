// The class behind make_cpu_operators(); its members are defined one operator family per file.
#pragma once

#include <array>
#include <vector>

#include "kernels/cpu/matmul.hpp"
#include "kernels/cpu/packed_gemm.hpp"
#include "kernels/operators.hpp"

namespace plumbline::cpu {

struct AttentionScratch;  // attention/attention.hpp

class CpuOperators : public Operators {
 public:
  CpuOperators();

#define PLUMBLINE_OPERATOR(type, name, parameters, arguments) type name parameters override;
#include "kernels/operator_list.inc"
  std::int64_t attention_scratch(const AttentionShape& shape, DType type) const override;

 private:
  /// Rows of one sequence in unfused attention's backward, of one query head; gradients of keys and values,
  /// fp32, are accumulated into.
  struct HeadMatrices {
    Matrix query, keys, values, output_gradient, query_gradient, key_gradients, value_gradients;
  };
  void unfused_head_backward(const AttentionShape& shape, std::int64_t sequence, std::int64_t head,
                             const HeadMatrices& of, const UnfusedAttention& kept,
                             const AttentionScratch& parts);

  /// `count` zeroed fp32 numbers for sums over rows: one per column of a weight gradient.
  float* column_sums(std::int64_t count);
  /// to (1, n) of a gradient type += sums.
  static void add_column_sums(const float* sums, const Matrix& to);

  /// gemm without the bias gradient.
  void product(const Gemm& gemm);

  /// A non-empty product of a storage type: with oneDNN, or with own code on processors where that is faster.
  void multiply_matrices(const Gemm& gemm);

  /// A 16-bit product that oneDNN does not have, too small for own code: fp32 copies of the operands,
  /// multiplied, rounded once.
  void widened_gemm(const Gemm& gemm);

  /// A bf16 product with a column of zeros after an odd k. oneDNN 2.6 has AMX tiles of disagreeing shapes,
  /// an illegal instruction, for about one odd k in a thousand (69x1x63, 324x4x1599), and for no even one.
  void even_gemm(const Gemm& gemm);

  /// A product of FP8 operands: wider copies of them, which are exact, multiplied, scaled and rounded once.
  void fp8_gemm(const Gemm& gemm);

  /// Memory of buffers_[slot], for the next call to use again; contents irrelevant.
  Matrix buffer(std::size_t slot, std::int64_t rows, std::int64_t cols, DType type);

  MatmulCache matmul_;
  PackedGemm packed_;
  std::vector<float> column_sums_;
  std::array<std::vector<float>, 6> buffers_;  // A, B, C and bias of widened_gemm and fp8_gemm; of even_gemm
};

}  // namespace plumbline::cpu
