// The one inclusion of Open MPI's header: its long-removed C++ bindings stay out.
#pragma once

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
