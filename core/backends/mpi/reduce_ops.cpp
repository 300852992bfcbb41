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

inline float from_fp16(std::uint16_t bits) {
  // Shifted into place the exponent is 112 too small; a product puts that right for denormals as well.
  const std::uint32_t magnitude = static_cast<std::uint32_t>(bits & 0x7fffU) << 13;
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112F;
  const std::uint32_t finite = std::bit_cast<std::uint32_t>(scaled);
  const std::uint32_t whole = (bits & 0x7c00U) == 0x7c00U ? magnitude | 0x7f800000U : finite;
  return std::bit_cast<float>(whole | static_cast<std::uint32_t>(bits & 0x8000U) << 16);
}

inline std::uint16_t to_fp16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  // Below 2^-14 halves are multiples of 2^-24: adding 0.5, whose last bit is 2^-24, rounds to one.
  const std::uint32_t denormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
  const std::uint32_t normal = (magnitude - (112U << 23) + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
  const std::uint32_t infinite_or_nan = magnitude > 0x7f800000U ? 0x7e00U : 0x7c00U;
  const std::uint32_t finite = magnitude < (113U << 23) ? denormal : normal;
  const std::uint32_t half = magnitude >= (143U << 23) ? infinite_or_nan : finite;
  return static_cast<std::uint16_t>(half | (bits >> 16 & 0x8000U));
}

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
      break;
  }
  return sum ? MPI_SUM : MPI_MAX;
}

}  // namespace plumbline
