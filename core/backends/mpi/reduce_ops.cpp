// Element loops of the 16-bit reductions, written so that the compiler turns them into vector code.
#include "core/backends/mpi/reduce_ops.hpp"

#include <bit>
#include <cstring>

#include "core/backends/mpi/check.hpp"

// One binary serves old and new x86 processors: the loader picks the widest version. Sanitizers do not go
// together with that mechanism.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(PLUMBLINE_SANITIZED)
#define PLUMBLINE_WIDEST __attribute__((target_clones("default", "arch=haswell", "arch=skylake-avx512")))
#else
#define PLUMBLINE_WIDEST
#endif

namespace plumbline {
namespace {

inline float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

inline std::uint16_t to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  // Rounding may carry a NaN's mantissa into infinity: a NaN is cut instead and made quiet.
  const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return static_cast<std::uint16_t>(nan ? (bits >> 16) | 0x40U : rounded);
}

PLUMBLINE_WIDEST void add_bf16_loop(const std::uint16_t* in, std::uint16_t* inout, int count) {
  for (int i = 0; i < count; ++i) inout[i] = to_bf16(from_bf16(in[i]) + from_bf16(inout[i]));
}

PLUMBLINE_WIDEST void max_bf16_loop(const std::uint16_t* in, std::uint16_t* inout, int count) {
  for (int i = 0; i < count; ++i) inout[i] = from_bf16(in[i]) > from_bf16(inout[i]) ? in[i] : inout[i];
}

PLUMBLINE_WIDEST void add_fp16_loop(const _Float16* in, _Float16* inout, int count) {
  for (int i = 0; i < count; ++i)
    inout[i] = static_cast<_Float16>(static_cast<float>(in[i]) + static_cast<float>(inout[i]));
}

PLUMBLINE_WIDEST void max_fp16_loop(const _Float16* in, _Float16* inout, int count) {
  for (int i = 0; i < count; ++i)
    inout[i] = static_cast<float>(in[i]) > static_cast<float>(inout[i]) ? in[i] : inout[i];
}

// MPI's shape of a reduction: a typed loop behind untyped pointers.
template <class T, void (*loop)(const T*, T*, int)>
void reduce(void* in, void* inout, int* count, MPI_Datatype* /*type*/) {
  loop(static_cast<const T*>(in), static_cast<T*>(inout), *count);
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

MPI_Datatype mpi_type(DType type) {
  switch (type) {
    case DType::fp32:
      return MPI_FLOAT;
    case DType::int32:
      return MPI_INT32_T;
    case DType::bf16:
    case DType::fp16:
      return MPI_UINT16_T;
  }
  return MPI_DATATYPE_NULL;
}

ReduceOps::ReduceOps()
    : bf16_sum_(make_op(reduce<std::uint16_t, add_bf16_loop>)),
      bf16_max_(make_op(reduce<std::uint16_t, max_bf16_loop>)),
      fp16_sum_(make_op(reduce<_Float16, add_fp16_loop>)),
      fp16_max_(make_op(reduce<_Float16, max_fp16_loop>)) {}

MPI_Op ReduceOps::get(DType type, ReduceOp op) const {
  const bool sum = op == ReduceOp::sum;
  switch (type) {
    case DType::bf16:
      return sum ? bf16_sum_.get() : bf16_max_.get();
    case DType::fp16:
      return sum ? fp16_sum_.get() : fp16_max_.get();
    case DType::fp32:
    case DType::int32:
      break;
  }
  return sum ? MPI_SUM : MPI_MAX;
}

}  // namespace plumbline
