// Collectives of the MPI communicator: each is started with a ticket; blocking calls use MPI's blocking form
// where it is quicker, which is when every rank has a processor to spin on.
#include <algorithm>
#include <cstring>

#include "core/backends/mpi/check.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

bool overlap(const Matrix& a, const Matrix& b) {
  const auto* first = static_cast<const std::byte*>(a.data);
  const auto* second = static_cast<const std::byte*>(b.data);
  return first < second + b.bytes().value && second < first + a.bytes().value;
}

/// Checks an all-gather (part, whole) or reduce-scatter (whole, part) pair; `whole` is members × `part`.
void expect_pair(const Matrix& part, const Matrix& whole, std::size_t members, const char* call) {
  expect_argument(part.contiguous() && whole.contiguous(), call, "the matrices must be contiguous");
  expect_argument(part.dtype == whole.dtype, call, "input and output must have one element type");
  expect_argument(whole.elements() == part.elements() * static_cast<std::int64_t>(members), call,
                  "the larger matrix must have members x the elements of the smaller one");
}

/// The place of member `member` in `whole`, which is cut in pieces of `count` elements.
Matrix place(const Matrix& whole, std::size_t member, std::int64_t count) {
  const Matrix line(whole.data, 1, whole.elements(), whole.dtype);
  return {line.at(0, static_cast<std::int64_t>(member) * count), 1, count, whole.dtype};
}

/// Whether `input` is this rank's own place in `output`; throws when it overlaps it otherwise.
bool in_place(const Matrix& input, const Matrix& output, const Matrix& own, const char* call) {
  if (own.data == input.data) return true;
  expect_argument(!overlap(input, output), call,
                  "the input must lie outside the output or in this rank's own place of it");
  return false;
}

void copy_bytes(const Matrix& from, const Matrix& to) {
  std::memmove(to.data, from.data, static_cast<std::size_t>(from.bytes().value));
}

}  // namespace

void MpiCommunicator::all_reduce(Group group, Matrix buffer, ReduceOp op) {
  const Members& in = members(group);
  if (waiter_.crowded() || !in.comm) {
    Ticket ticket = start_all_reduce(group, buffer, op);
    wait(ticket);
    return;
  }
  expect_argument(buffer.contiguous(), "all_reduce", "the matrix must be contiguous");
  count(group, &GroupTraffic::all_reduced, buffer.bytes());
  for_pieces(buffer, [&](void* data, int elements) {
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, data, elements, mpi_type(buffer.dtype), ops_.get(buffer.dtype, op),
                            in.comm.get()),
              "MPI_Allreduce");
  });
}

Ticket MpiCommunicator::start_all_reduce(Group group, Matrix buffer, ReduceOp op) {
  const Members& in = members(group);
  expect_argument(buffer.contiguous(), "start_all_reduce", "the matrix must be contiguous");
  count(group, &GroupTraffic::all_reduced, buffer.bytes());
  if (!in.comm || buffer.empty()) return {};
  const Ticket ticket = open("MPI_Iallreduce");
  all_reduce_pieces(in, buffer, op, ticket);
  return ticket;
}

void MpiCommunicator::all_reduce_pieces(const Members& group, const Matrix& buffer, ReduceOp op,
                                        const Ticket& ticket) {
  for_pieces(buffer, [&](void* data, int elements) {
    check_mpi(MPI_Iallreduce(MPI_IN_PLACE, data, elements, mpi_type(buffer.dtype), ops_.get(buffer.dtype, op),
                             group.comm.get(), new_request(ticket)),
              "MPI_Iallreduce");
  });
}

void MpiCommunicator::all_gather(Group group, Matrix input, Matrix output) {
  const Members& in = members(group);
  const std::int64_t elements = input.elements();
  if (waiter_.crowded() || !in.comm || elements > longest_call_ || input.empty()) {
    Ticket ticket = start_all_gather(group, input, output);
    wait(ticket);
    return;
  }
  expect_pair(input, output, in.ranks.size(), "all_gather");
  const Matrix own = place(output, static_cast<std::size_t>(in.mine), elements);
  const void* from = in_place(input, output, own, "all_gather") ? MPI_IN_PLACE : input.data;
  count(group, &GroupTraffic::all_gathered, output.bytes());
  const MPI_Datatype type = mpi_type(input.dtype);
  check_mpi(MPI_Allgather(from, static_cast<int>(elements), type, output.data, static_cast<int>(elements),
                          type, in.comm.get()),
            "MPI_Allgather");
}

Ticket MpiCommunicator::start_all_gather(Group group, Matrix input, Matrix output) {
  const Members& in = members(group);
  expect_pair(input, output, in.ranks.size(), "start_all_gather");
  if (input.empty()) return {};
  const std::int64_t elements = input.elements();
  const Matrix own = place(output, static_cast<std::size_t>(in.mine), elements);
  const bool already_there = in_place(input, output, own, "start_all_gather");
  count(group, &GroupTraffic::all_gathered, output.bytes());
  if (!in.comm) {
    if (!already_there) copy_bytes(input, own);
    return {};
  }
  const Ticket ticket = open("MPI_Iallgather");
  if (elements > longest_call_) {
    if (!already_there) copy_bytes(input, own);
    for (std::size_t root = 0; root < in.ranks.size(); ++root) {
      broadcast_pieces(in, static_cast<int>(root), place(output, root, elements), ticket);
    }
    return ticket;
  }
  const MPI_Datatype type = mpi_type(input.dtype);
  check_mpi(MPI_Iallgather(already_there ? MPI_IN_PLACE : input.data, static_cast<int>(elements), type,
                           output.data, static_cast<int>(elements), type, in.comm.get(), new_request(ticket)),
            "MPI_Iallgather");
  return ticket;
}

void MpiCommunicator::reduce_scatter(Group group, Matrix input, Matrix output) {
  const Members& in = members(group);
  if (waiter_.crowded() || !in.comm || output.elements() > longest_call_ || input.empty()) {
    Ticket ticket = start_reduce_scatter(group, input, output);
    wait(ticket);
    return;
  }
  expect_pair(output, input, in.ranks.size(), "reduce_scatter");
  expect_argument(!overlap(input, output), "reduce_scatter", "the output must lie outside the input");
  count(group, &GroupTraffic::reduce_scattered, input.bytes());
  check_mpi(
      MPI_Reduce_scatter_block(input.data, output.data, static_cast<int>(output.elements()),
                               mpi_type(input.dtype), ops_.get(input.dtype, ReduceOp::sum), in.comm.get()),
      "MPI_Reduce_scatter_block");
}

Ticket MpiCommunicator::start_reduce_scatter(Group group, Matrix input, Matrix output) {
  const Members& in = members(group);
  expect_pair(output, input, in.ranks.size(), "start_reduce_scatter");
  if (input.empty()) return {};
  count(group, &GroupTraffic::reduce_scattered, input.bytes());
  if (!in.comm) {
    copy_bytes(input, output);
    return {};
  }
  expect_argument(!overlap(input, output), "start_reduce_scatter", "the output must lie outside the input");
  const std::int64_t elements = output.elements();
  const MPI_Datatype type = mpi_type(input.dtype);
  const MPI_Op sum = ops_.get(input.dtype, ReduceOp::sum);
  if (elements > longest_call_) {
    const Ticket ticket = open("MPI_Ireduce");
    for (std::size_t root = 0; root < in.ranks.size(); ++root) {
      const Matrix piece = place(input, root, elements);
      for_pieces(piece, [&](void* data, int length) {
        const std::ptrdiff_t offset = static_cast<std::byte*>(data) - static_cast<std::byte*>(piece.data);
        check_mpi(MPI_Ireduce(data, static_cast<std::byte*>(output.data) + offset, length, type, sum,
                              static_cast<int>(root), in.comm.get(), new_request(ticket)),
                  "MPI_Ireduce");
      });
    }
    return ticket;
  }
  const Ticket ticket = open("MPI_Ireduce_scatter_block");
  check_mpi(MPI_Ireduce_scatter_block(input.data, output.data, static_cast<int>(elements), type, sum,
                                      in.comm.get(), new_request(ticket)),
            "MPI_Ireduce_scatter_block");
  return ticket;
}

void MpiCommunicator::broadcast_pieces(const Members& group, int root, const Matrix& buffer,
                                       const Ticket& ticket) {
  for_pieces(buffer, [&](void* data, int elements) {
    check_mpi(MPI_Ibcast(data, elements, mpi_type(buffer.dtype), root, group.comm.get(), new_request(ticket)),
              "MPI_Ibcast");
  });
}

int MpiCommunicator::root_of(const Members& group, int root_world_rank) {
  const auto found = std::find(group.ranks.begin(), group.ranks.end(), root_world_rank);
  expect_argument(found != group.ranks.end(), "broadcast", "the root must be in the group");
  return static_cast<int>(found - group.ranks.begin());
}

Ticket MpiCommunicator::start_broadcast(Group group, int root_world_rank, Matrix buffer) {
  const Members& in = members(group);
  expect_argument(buffer.contiguous(), "start_broadcast", "the matrix must be contiguous");
  const int root = root_of(in, root_world_rank);
  count(group, &GroupTraffic::broadcast, buffer.bytes());
  if (!in.comm || buffer.empty()) return {};
  const Ticket ticket = open("MPI_Ibcast");
  broadcast_pieces(in, root, buffer, ticket);
  return ticket;
}

void MpiCommunicator::broadcast(Group group, int root_world_rank, Matrix buffer) {
  if (waiter_.crowded()) {
    Ticket ticket = start_broadcast(group, root_world_rank, buffer);
    wait(ticket);
    return;
  }
  const Members& in = members(group);
  expect_argument(buffer.contiguous(), "broadcast", "the matrix must be contiguous");
  const int root = root_of(in, root_world_rank);
  count(group, &GroupTraffic::broadcast, buffer.bytes());
  if (!in.comm) return;
  for_pieces(buffer, [&](void* data, int elements) {
    check_mpi(MPI_Bcast(data, elements, mpi_type(buffer.dtype), root, in.comm.get()), "MPI_Bcast");
  });
}

void MpiCommunicator::barrier(Group group) {
  const Members& in = members(group);
  if (!in.comm) return;
  if (!waiter_.crowded()) {
    check_mpi(MPI_Barrier(in.comm.get()), "MPI_Barrier");
    return;
  }
  Ticket ticket = open("MPI_Ibarrier");
  check_mpi(MPI_Ibarrier(in.comm.get(), new_request(ticket)), "MPI_Ibarrier");
  wait(ticket);
}

}  // namespace plumbline
