// Pace of a job's slowest GPU, for which all others wait.
#pragma once

namespace plumbline {

/// Standard deviation of the time of matrix products over GPUs of one model, as a share of the mean. On
/// five clusters performance varies by 8 % on average (Sinha et al. 2022, arXiv:2208.11035): between the
/// whiskers of box plots, as we read it. Memory-bound kernels vary less, which is left out.
inline constexpr double kGpuSpread = 0.08 / (2 * 2.698);

/// Expected maximum of `count` draws from the standard normal distribution, cut off at the whiskers of its
/// box plot (2.698 deviations): what lies beyond are slow machines (slow_machines.hpp). Within 8 % for two or
/// three, 3 % for more (Chen and Tyler 1999, "Accurate approximation to the extreme order statistics of
/// Gaussian samples").
double expected_maximum(int count);

/// Mean time of matrix products on the slowest of `gpus`, as a multiple of that on a typical one.
double slowest_gpu(int gpus);

}  // namespace plumbline
