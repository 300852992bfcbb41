// `plumbline calibrate --backend cuda`: measures the GPU memory that a CUDA process uses besides tensors.
#pragma once

#include "bench/calibrate/calibrate.hpp"

namespace plumbline {

/// Starts two ranks of plumbline-cuda and writes the profile of an accelerator (options.hardware, or what the
/// device's name says) with the bytes that they measured: context, cuBLASLt, kernels, NCCL. Two ranks on one
/// GPU talk over sockets, so their communicators have other buffers than over NVLink; with two GPUs they have
/// one each. With options.part "device" this process is one of the ranks. Returns the exit code; throws
/// InputError without a usable device.
int calibrate_cuda(const CalibrateOptions& options);

}  // namespace plumbline
