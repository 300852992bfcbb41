// MPI objects that free themselves.
#pragma once

#include <utility>

#include "core/backends/mpi/mpi_header.hpp"

namespace plumbline {

/// Owns one handle; Traits define its type and its closing. Move-only: copying a communicator would be a
/// hidden collective.
template <class Traits>
class MpiHandle {
 public:
  using type = typename Traits::type;
  MpiHandle() = default;
  explicit MpiHandle(type handle) : handle_(handle) {}
  MpiHandle(MpiHandle&& other) noexcept : handle_(std::exchange(other.handle_, Traits::null())) {}
  MpiHandle& operator=(MpiHandle&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~MpiHandle() {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (handle_ != Traits::null() && finalized == 0) Traits::close(&handle_);
  }
  type get() const { return handle_; }
  type* out() { return &handle_; }
  explicit operator bool() const { return handle_ != Traits::null(); }

 private:
  type handle_ = Traits::null();
};

struct MpiCommTraits {
  using type = MPI_Comm;
  static type null() { return MPI_COMM_NULL; }
  static void close(type* comm) noexcept { (void)MPI_Comm_free(comm); }
};
using MpiComm = MpiHandle<MpiCommTraits>;

struct MpiOpTraits {
  using type = MPI_Op;
  static type null() { return MPI_OP_NULL; }
  static void close(type* op) noexcept { (void)MPI_Op_free(op); }
};
using MpiOp = MpiHandle<MpiOpTraits>;

}  // namespace plumbline
