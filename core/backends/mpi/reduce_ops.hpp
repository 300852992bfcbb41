// Reductions of every element type: MPI's own for fp32 and int32, ours for the 16-bit floats it does not
// know.
#pragma once

#include <cstdint>

#include "core/backends/mpi/handle.hpp"
#include "core/run/communicator.hpp"
#include "core/tensor/dtype.hpp"

namespace plumbline {

/// The MPI type that carries elements of `type`; 16-bit floats travel as unsigned words.
MPI_Datatype mpi_type(DType type);

/// The operations of one communicator; the 16-bit ones live as long as this object.
class ReduceOps {
 public:
  ReduceOps();
  MPI_Op get(DType type, ReduceOp op) const;

 private:
  MpiOp bf16_sum_;
  MpiOp bf16_max_;
  MpiOp fp16_sum_;
  MpiOp fp16_max_;
};

/// inout[i] = round_to_nearest_even(in[i] + inout[i]), added in fp32; bit patterns of bfloat16.
void add_bf16(const std::uint16_t* in, std::uint16_t* inout, int count);
/// The same for bit patterns of IEEE binary16.
void add_fp16(const std::uint16_t* in, std::uint16_t* inout, int count);

}  // namespace plumbline
