// Collectives and messages of a communicator, timed and checked as a step uses them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "bench/measure/collectives/benched_buffers.hpp"
#include "bench/record/collective_row.hpp"
#include "core/run/communicator.hpp"
#include "core/tensor/arena.hpp"
#include "kernels/operators.hpp"

namespace plumbline {

/// Largest buffer that is benchmarked.
inline constexpr std::int64_t kMostBenchedBytes = std::int64_t{64} << 30;

struct BenchedSizes {
  std::int64_t smallest = 8;  // bytes
  std::int64_t largest = std::int64_t{16} << 20;
  std::int64_t factor = 2;

  std::vector<std::int64_t> all() const;
};

struct BenchRequest {
  std::vector<BenchedCall> calls;
  BenchedSizes sizes;
  DType type = DType::fp32;
  Group group = Group::world;
  double limit_s = 0.5;  // of the timing of one size
};

/// True if a step starts a group's collectives and waits for them later (gradients, parameters); others are
/// awaited at once.
bool starts_in_steps(Group group);

/// Every size of every benchmark of the request, all groups at once. A size is warmed up, timed in blocks of
/// calls until the interval of the median is within 2 % or the limit is over, then checked on every element.
/// World rank 0 calls `on_row` with each row. The communicator and `operators` find their matrices in
/// `memory`. Returns the wrong elements of all ranks. Collective over MPI_COMM_WORLD.
std::int64_t bench_collectives(Communicator& communicator, Operators& operators, MemorySource& memory,
                               const BenchRequest& request,
                               const std::function<void(const CollectiveRow&)>& on_row);

}  // namespace plumbline
