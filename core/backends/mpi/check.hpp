// Turns MPI return codes into errors that carry the call, the place and MPI's own words.
#pragma once

#include <source_location>

#include "core/backends/mpi/mpi_header.hpp"

namespace plumbline {

/// Throws Error "mpi_file.cpp:12: MPI_Send: MPI_ERR_TRUNCATE: message truncated" unless `code` is
/// MPI_SUCCESS.
void check_mpi(int code, const char* call, std::source_location at = std::source_location::current());

}  // namespace plumbline
