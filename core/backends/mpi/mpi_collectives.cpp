// Collectives of the MPI communicator: each is started with a ticket. An awaited one uses MPI's blocking form
// if it is quicker, which is when every rank has a processor to spin on.
#include <cstring>
#include <numeric>
#include <span>
#include <string>

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

/// The place of member `member` in `whole`, which is split into pieces of `count` elements.
Matrix place(const Matrix& whole, int member, std::int64_t count) {
  const Matrix line(whole.data, 1, whole.elements(), whole.dtype);
  return {line.at(0, member * count), 1, count, whole.dtype};
}

/// Throws Error when input and output of a collective overlap.
void expect_apart(const Collective& call, const char* what) {
  if (!overlap(call.input, call.output)) return;
  throw Error(std::string(call.awaited ? "" : "start_").append(name_of(call.kind)).append(": ").append(what));
}

/// True if the input of an all-gather is member `mine`'s own place in the output; throws Error when they
/// overlap otherwise.
bool in_place(const Collective& call, int mine) {
  if (place(call.output, mine, call.input.elements()).data == call.input.data) return true;
  expect_apart(call, "the input must lie outside the output or in this rank's own place of it");
  return false;
}

void copy_bytes(const Matrix& from, const Matrix& to) {
  std::memmove(to.data, from.data, static_cast<std::size_t>(from.bytes().value));
}

/// The input of an all-reduce whose piece at `output` is asked for: MPI_IN_PLACE, or as far into the input.
const void* summand_of(const Collective& call, const void* output) {
  if (call.input.data == call.output.data) return MPI_IN_PLACE;
  const auto offset = static_cast<const std::byte*>(output) - static_cast<const std::byte*>(call.output.data);
  return static_cast<const std::byte*>(call.input.data) + offset;
}

constexpr const char* kOutputOutside = "the output must lie outside the input";

}  // namespace

Ticket MpiCommunicator::begin(const Collective& call) {
  const bool cuttable = call.kind == CollectiveKind::all_reduce || call.kind == CollectiveKind::broadcast;
  if (call.kind == CollectiveKind::all_to_all) return begin_all_to_all(call);
  if (call.kind == CollectiveKind::all_reduce && call.input.data != call.output.data)
    expect_apart(call, kOutputOutside);
  if (call.awaited && !waiter_.crowded() && (cuttable || call.part().elements() <= longest_call_)) {
    run_now(call);
    return {};
  }
  switch (call.kind) {
    case CollectiveKind::all_gather:
      return begin_all_gather(call);
    case CollectiveKind::reduce_scatter:
      return begin_reduce_scatter(call);
    case CollectiveKind::broadcast: {
      const Ticket ticket = open("MPI_Ibcast");
      add_broadcast(call.group, place_in(call.group, call.root), call.input, ticket);
      return ticket;
    }
    case CollectiveKind::reduce: {
      expect_apart(call, kOutputOutside);
      const Ticket ticket = open("MPI_Ireduce");
      add_reduce(call.group, place_in(call.group, call.root), call.input, call.output, ticket);
      return ticket;
    }
    case CollectiveKind::all_to_all:
    case CollectiveKind::all_reduce:
      break;
  }
  const Ticket ticket = open("MPI_Iallreduce");
  add_all_reduce(call, ticket);
  return ticket;
}

void MpiCommunicator::run_now(const Collective& call) {
  const MPI_Comm group = comm(call.group);
  const MPI_Datatype type = mpi_type(call.input.dtype);
  switch (call.kind) {
    case CollectiveKind::all_reduce: {
      const MPI_Op op = ops_.get(call.input.dtype, call.op);
      for_pieces(call.output, [&](void* data, int elements) {
        check_mpi(MPI_Allreduce(summand_of(call, data), data, elements, type, op, group), "MPI_Allreduce");
      });
      return;
    }
    case CollectiveKind::all_gather: {
      const void* from = in_place(call, place_in(call.group, rank())) ? MPI_IN_PLACE : call.input.data;
      const auto elements = static_cast<int>(call.input.elements());
      check_mpi(MPI_Allgather(from, elements, type, call.output.data, elements, type, group),
                "MPI_Allgather");
      return;
    }
    case CollectiveKind::reduce_scatter:
      expect_apart(call, kOutputOutside);
      check_mpi(MPI_Reduce_scatter_block(call.input.data, call.output.data,
                                         static_cast<int>(call.output.elements()), type,
                                         ops_.get(call.input.dtype, ReduceOp::sum), group),
                "MPI_Reduce_scatter_block");
      return;
    case CollectiveKind::broadcast: {
      const int root = place_in(call.group, call.root);
      for_pieces(call.input, [&](void* data, int elements) {
        check_mpi(MPI_Bcast(data, elements, type, root, group), "MPI_Bcast");
      });
      return;
    }
    case CollectiveKind::reduce:
      expect_apart(call, kOutputOutside);
      check_mpi(MPI_Reduce(call.input.data, call.output.data, static_cast<int>(call.input.elements()), type,
                           ops_.get(call.input.dtype, ReduceOp::sum), place_in(call.group, call.root), group),
                "MPI_Reduce");
      return;
    case CollectiveKind::all_to_all:
      return;  // of messages: begin_all_to_all
  }
}

void MpiCommunicator::add_all_reduce(const Collective& call, const Ticket& ticket) {
  const MPI_Datatype type = mpi_type(call.input.dtype);
  const MPI_Op op = ops_.get(call.input.dtype, call.op);
  for_pieces(call.output, [&](void* data, int elements) {
    check_mpi(MPI_Iallreduce(summand_of(call, data), data, elements, type, op, comm(call.group),
                             new_request(ticket)),
              "MPI_Iallreduce");
  });
}

void MpiCommunicator::add_broadcast(Group group, int root, const Matrix& buffer, const Ticket& ticket) {
  for_pieces(buffer, [&](void* data, int elements) {
    check_mpi(MPI_Ibcast(data, elements, mpi_type(buffer.dtype), root, comm(group), new_request(ticket)),
              "MPI_Ibcast");
  });
}

void MpiCommunicator::add_reduce(Group group, int root, const Matrix& input, const Matrix& output,
                                 const Ticket& ticket) {
  const MPI_Datatype type = mpi_type(input.dtype);
  const MPI_Op sum = ops_.get(input.dtype, ReduceOp::sum);
  for_pieces(input, [&](void* data, int length) {
    const std::ptrdiff_t offset = static_cast<std::byte*>(data) - static_cast<std::byte*>(input.data);
    check_mpi(MPI_Ireduce(data, static_cast<std::byte*>(output.data) + offset, length, type, sum, root,
                          comm(group), new_request(ticket)),
              "MPI_Ireduce");
  });
}

Ticket MpiCommunicator::begin_all_gather(const Collective& call) {
  const int mine = place_in(call.group, rank());
  const bool already_there = in_place(call, mine);
  const std::int64_t elements = call.input.elements();
  const Ticket ticket = open("MPI_Iallgather");
  if (elements > longest_call_) {
    if (!already_there) copy_bytes(call.input, place(call.output, mine, elements));
    const auto ranks = static_cast<int>(members(call.group).size());
    for (int root = 0; root < ranks; ++root) {
      add_broadcast(call.group, root, place(call.output, root, elements), ticket);
    }
    return ticket;
  }
  const MPI_Datatype type = mpi_type(call.input.dtype);
  check_mpi(MPI_Iallgather(already_there ? MPI_IN_PLACE : call.input.data, static_cast<int>(elements), type,
                           call.output.data, static_cast<int>(elements), type, comm(call.group),
                           new_request(ticket)),
            "MPI_Iallgather");
  return ticket;
}

Ticket MpiCommunicator::begin_reduce_scatter(const Collective& call) {
  expect_apart(call, kOutputOutside);
  const std::int64_t elements = call.output.elements();
  const MPI_Datatype type = mpi_type(call.input.dtype);
  const MPI_Op sum = ops_.get(call.input.dtype, ReduceOp::sum);
  if (elements > longest_call_) {
    const Ticket ticket = open("MPI_Ireduce");
    const auto ranks = static_cast<int>(members(call.group).size());
    for (int root = 0; root < ranks; ++root) {
      add_reduce(call.group, root, place(call.input, root, elements), call.output, ticket);
    }
    return ticket;
  }
  const Ticket ticket = open("MPI_Ireduce_scatter_block");
  check_mpi(MPI_Ireduce_scatter_block(call.input.data, call.output.data, static_cast<int>(elements), type,
                                      sum, comm(call.group), new_request(ticket)),
            "MPI_Ireduce_scatter_block");
  return ticket;
}

Ticket MpiCommunicator::begin_all_to_all(const Collective& call) {
  expect_apart(call, kOutputOutside);
  const int mine = place_in(call.group, rank());
  const auto ranks = static_cast<int>(members(call.group).size());
  const std::int64_t equal = call.input.elements() / ranks;
  const auto piece = [&](const Matrix& all, std::span<const std::int64_t> sizes, int member) {
    if (!call.uneven()) return place(all, member, equal);
    const auto at = sizes.begin() + member;
    const std::int64_t first = std::accumulate(sizes.begin(), at, std::int64_t{0});
    return Matrix(all.reshaped(1, all.elements()).at(0, first), 1, *at, all.dtype);
  };
  const MPI_Datatype type = mpi_type(call.input.dtype);
  const MPI_Comm group = comm(call.group);
  const Ticket ticket = open("MPI_Isend");
  // Receives first; every rank begins with another peer.
  for (int distance = 1; distance < ranks; ++distance) {
    const int peer = (mine + ranks - distance) % ranks;
    for_pieces(piece(call.output, call.received, peer), [&](void* data, int count) {
      check_mpi(MPI_Irecv(data, count, type, peer, 0, group, new_request(ticket)), "MPI_Irecv");
    });
  }
  for (int distance = 1; distance < ranks; ++distance) {
    const int peer = (mine + distance) % ranks;
    for_pieces(piece(call.input, call.sent, peer), [&](void* data, int count) {
      check_mpi(MPI_Isend(data, count, type, peer, 0, group, new_request(ticket)), "MPI_Isend");
    });
  }
  const Matrix own = piece(call.input, call.sent, mine);
  if (!own.empty()) copy_bytes(own, piece(call.output, call.received, mine));
  return ticket;
}

void MpiCommunicator::copy(const Collective& call) {
  if (call.kind == CollectiveKind::all_gather) (void)in_place(call, 0);
  copy_bytes(call.input, call.output);
}

void MpiCommunicator::barrier(Group group) {
  if (members(group).size() == 1) return;
  if (!waiter_.crowded()) {
    check_mpi(MPI_Barrier(comm(group)), "MPI_Barrier");
    return;
  }
  Ticket ticket = open("MPI_Ibarrier");
  check_mpi(MPI_Ibarrier(comm(group), new_request(ticket)), "MPI_Ibarrier");
  wait(ticket);
}

}  // namespace plumbline
