// `plumbline calibrate --backend cuda`: measures a card's operators, and the memory of a CUDA process besides
// tensors.
#pragma once

#include "bench/measure/calibrate/calibrate.hpp"

namespace plumbline {

/// Starts ranks of plumbline-cuda and writes the profile of an accelerator (options.hardware, or the one that
/// the device's name implies). It has the operator times that one rank measured (gpu_operator_times.hpp), and
/// the bytes that two measured: context, cuBLASLt, kernels, NCCL. Two ranks on one GPU communicate over
/// sockets, so their communicators have other buffers than over NVLink; with two GPUs they have one each.
/// Messages and collectives keep the accelerator's constants. With options.part "operators" or "device" this
/// process is one of the ranks. Returns the exit code; throws InputError without a usable device.
int calibrate_cuda(const CalibrateOptions& options);

}  // namespace plumbline
