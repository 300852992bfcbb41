// Plain host values between ranks, for measurements outside of steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <vector>

#include "core/run/communicator.hpp"

namespace plumbline::training {

constexpr std::size_t kWordBytes = sizeof(std::int32_t);  // values travel as words

/// Distributes the values of `source` to every rank; all must have as many.
template <class T>
void broadcast_values(Communicator& communicator, int source, std::vector<T>& values) {
  static_assert(sizeof(T) % kWordBytes == 0 && std::is_trivially_copyable_v<T>);
  constexpr std::int64_t kWords = sizeof(T) / kWordBytes;
  communicator.broadcast(Group::world, source,
                         Matrix(values.data(), 1, kWords * std::ssize(values), DType::int32));
}

/// World rank 0's value, on every rank.
template <class T>
T from_first_rank(Communicator& communicator, const T& value) {
  std::vector<T> values{value};
  broadcast_values(communicator, 0, values);
  return values.front();
}

/// Every rank's value, on every rank, by world rank.
template <class T>
std::vector<T> from_every_rank(Communicator& communicator, const T& mine) {
  static_assert(sizeof(T) % kWordBytes == 0 && std::is_trivially_copyable_v<T>);
  constexpr std::int64_t kWords = sizeof(T) / kWordBytes;
  std::vector<T> all(static_cast<std::size_t>(communicator.layout().world()));
  T copy = mine;
  communicator.all_gather(Group::world, Matrix(&copy, 1, kWords, DType::int32),
                          Matrix(all.data(), 1, kWords * std::ssize(all), DType::int32));
  return all;
}

}  // namespace plumbline::training
