// Mark of a function for the host and for a device.
#pragma once

// On the host always inlined: into loops that are compiled for several instruction sets (cpu/simd.hpp).
#ifdef __CUDACC__
#define PLUMBLINE_HOST_DEVICE __host__ __device__
#else
#define PLUMBLINE_HOST_DEVICE __attribute__((always_inline))
#endif
