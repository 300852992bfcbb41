// The operators of a decoder layer as repeatable calls, with the bytes and operations of each: for
// micro-benchmarks and for calibration.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/units.hpp"
#include "core/tensor/arena.hpp"
#include "kernels/operators.hpp"

namespace plumbline {

/// The sizes a decoder layer's operators are called with.
struct OperatorShape {
  std::int64_t batch = 1;
  std::int64_t seq = 512;
  std::int64_t hidden = 896;
  std::int64_t heads = 14;
  std::int64_t kv_heads = 2;
  std::int64_t head_dim = 64;
  std::int64_t ffn = 4864;
  std::int64_t vocab = 32768;                       // columns of the logits
  std::int64_t parameters = std::int64_t{1} << 22;  // elements of the optimizer's arrays
  DType type = DType::fp32;
};

struct OperatorCase {
  std::string name;  // the operator's; attention that drops probabilities: attention_forward_dropout, …
  Bytes bytes;       // every operand read or written once
  std::int64_t elements = 0;  // of the largest operand
  Flops flops;                // multiplications and additions of matrix products; 0 elsewhere
  std::function<void()> run;
};

/// Every operator but gemm, over operands of its own that live as long as the cases. `operators` must outlive
/// them. With `device`, which must outlive them too, the operands lie in memory of that source until the last
/// case is destroyed.
std::vector<OperatorCase> operator_cases(Operators& operators, const OperatorShape& shape,
                                         MemorySource* device = nullptr);

/// One matrix product C (m,n) = op(A)·op(B).
struct ProductShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  DType type = DType::fp32;
  DType c_type = DType::fp32;
  bool a_transposed = false;
  bool b_transposed = false;
  bool accumulate = false;
  std::optional<DType> b_type{};  // of B, where it is not `type`
};
/// Matrices for a product, random numbers in them; the scales of FP8 ones are 1.
Gemm product_operands(const ProductShape& shape, std::vector<std::vector<std::byte>>& memory);

/// Operands in device memory, released with their owner. Numbers as in product_operands(): a block of them is
/// made on the host and copied on the device.
class DeviceOperands {
 public:
  /// `operators` and `memory` must outlive it.
  DeviceOperands(Operators& operators, MemorySource& memory) : operators_(operators), memory_(memory) {}
  ~DeviceOperands();
  DeviceOperands(const DeviceOperands&) = delete;
  DeviceOperands& operator=(const DeviceOperands&) = delete;

  /// Numbers of about 1; ids below 4096 if the type is int32.
  Matrix matrix(std::int64_t rows, std::int64_t cols, DType type);
  /// Operands of a product; the scales of FP8 ones are 1.
  Gemm product(const ProductShape& shape);

 private:
  Operators& operators_;
  MemorySource& memory_;
  std::vector<Matrix> made_;
};

}  // namespace plumbline
