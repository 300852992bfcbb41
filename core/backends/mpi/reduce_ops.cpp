// Element loops of the 16-bit reductions, written so that the compiler turns them into vector code.
#include "core/backends/mpi/reduce_ops.hpp"

#include <cstring>

#include "core/backends/mpi/check.hpp"
#include "core/tensor/half_floats.hpp"

// One binary serves old and new x86 processors: the loader picks the widest version. Sanitizers do not go
// together with that mechanism.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(PLUMBLINE_SANITIZED)
#define PLUMBLINE_WIDEST __attribute__((target_clones("default", "arch=haswell", "arch=skylake-avx512")))
#else
#define PLUMBLINE_WIDEST
#endif

namespace plumbline {
namespace {

PLUMBLINE_WIDEST void add_bf16_loop(const std::uint16_t* in, std::uint16_t* inout, int count) {
  for (int i = 0; i < count; ++i) inout[i] = to_bf16(from_bf16(in[i]) + from_bf16(inout[i]));
}

PLUMBLINE_WIDEST void max_bf16_loop(const std::uint16_t* in, std::uint16_t* inout, int count) {
  for (int i = 0; i < count; ++i) inout[i] = from_bf16(in[i]) > from_bf16(inout[i]) ? in[i] : inout[i];
}

PLUMBLINE_WIDEST void add_fp16_loop(const std::uint16_t* in, std::uint16_t* inout, int count) {
  for (int i = 0; i < count; ++i) inout[i] = to_fp16(from_fp16(in[i]) + from_fp16(inout[i]));
}

PLUMBLINE_WIDEST void max_fp16_loop(const std::uint16_t* in, std::uint16_t* inout, int count) {
  for (int i = 0; i < count; ++i) inout[i] = from_fp16(in[i]) > from_fp16(inout[i]) ? in[i] : inout[i];
}

// MPI's shape of a reduction: a loop over 16-bit words behind untyped pointers.
template <void (*loop)(const std::uint16_t*, std::uint16_t*, int)>
void reduce(void* in, void* inout, int* count, MPI_Datatype* /*type*/) {
  loop(static_cast<const std::uint16_t*>(in), static_cast<std::uint16_t*>(inout), *count);
}

MpiOp make_op(MPI_User_function* function) {
  MpiOp op;
  check_mpi(MPI_Op_create(function, 1, op.out()), "MPI_Op_create");
  return op;
}

}  // namespace

void add_bf16(const std::uint16_t* in, std::uint16_t* inout, int count) {
  add_bf16_loop(in, inout, count);
}

void add_fp16(const std::uint16_t* in, std::uint16_t* inout, int count) {
  add_fp16_loop(in, inout, count);
}

MPI_Datatype mpi_type(DType type) {
  switch (type) {
    case DType::fp32:
      return MPI_FLOAT;
    case DType::int32:
      return MPI_INT32_T;
    case DType::uint8:
    case DType::fp8_e4m3:  // moved, never reduced
    case DType::fp8_e5m2:
      return MPI_UINT8_T;
    case DType::bf16:
    case DType::fp16:
      return MPI_UINT16_T;
  }
  return MPI_DATATYPE_NULL;
}

ReduceOps::ReduceOps()
    : bf16_sum_(make_op(reduce<add_bf16_loop>)),
      bf16_max_(make_op(reduce<max_bf16_loop>)),
      fp16_sum_(make_op(reduce<add_fp16_loop>)),
      fp16_max_(make_op(reduce<max_fp16_loop>)) {}

MPI_Op ReduceOps::get(DType type, ReduceOp op) const {
  const bool sum = op == ReduceOp::sum;
  switch (type) {
    case DType::bf16:
      return sum ? bf16_sum_.get() : bf16_max_.get();
    case DType::fp16:
      return sum ? fp16_sum_.get() : fp16_max_.get();
    case DType::fp32:
    case DType::int32:
    case DType::uint8:
    case DType::fp8_e4m3:
    case DType::fp8_e5m2:
      break;
  }
  return sum ? MPI_SUM : MPI_MAX;
}

}  // namespace plumbline
