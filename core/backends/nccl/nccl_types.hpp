// Element types and reductions in NCCL's terms, and its groups of calls.
#pragma once

#include <nccl.h>

#include "core/run/communicator.hpp"

namespace plumbline {

inline ncclDataType_t nccl_type(DType type) {
  switch (type) {
    case DType::fp32:
      return ncclFloat32;
    case DType::bf16:
      return ncclBfloat16;
    case DType::fp16:
      return ncclFloat16;
    case DType::int32:
      return ncclInt32;
    case DType::uint8:
    case DType::fp8_e4m3:  // moved, never reduced
    case DType::fp8_e5m2:
      return ncclUint8;
  }
  return ncclNumTypes;  // NCCL refuses it
}

inline ncclRedOp_t nccl_op(ReduceOp op) {
  return op == ReduceOp::sum ? ncclSum : ncclMax;
}

inline std::size_t count_of(const Matrix& matrix) {
  return static_cast<std::size_t>(matrix.elements());
}

/// Calls that NCCL starts together: those from construction to end(). One that fails is the last one.
class NcclGroup {
 public:
  NcclGroup() : result_(ncclGroupStart()) {}
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  template <class Call>
  void add(const Call& call) {
    if (!failed()) result_ = call();
  }
  /// Once.
  ncclResult_t end() {
    const ncclResult_t ended = ncclGroupEnd();
    return failed() ? result_ : ended;
  }

 private:
  // A non-blocking communicator may report of each call that it is in progress.
  bool failed() const { return result_ != ncclSuccess && result_ != ncclInProgress; }

  ncclResult_t result_;
};

}  // namespace plumbline
