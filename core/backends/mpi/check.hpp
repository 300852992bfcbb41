// Turns MPI return codes into errors that carry the call, the place and MPI's own words.
#pragma once

#include "core/backends/mpi/mpi_header.hpp"

namespace plumbline {

/// Throws Error "mpi_file.cpp:12: MPI_Send: MPI_ERR_TRUNCATE: message truncated" unless `code` is
/// MPI_SUCCESS.
/// `file` and `line` are the caller's.
void check_mpi(int code, const char* call, const char* file = __builtin_FILE(), int line = __builtin_LINE());

}  // namespace plumbline
