// Groups and collectives of the MPI communicator.
#include "core/backends/mpi/mpi_communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/backends/mpi/check.hpp"
#include "core/error.hpp"

namespace plumbline {
namespace {

void expect(bool good, const char* call, const char* what) {
  if (!good) throw Error(fmt::format("{}: {}", call, what));
}

bool overlap(const Matrix& a, const Matrix& b) {
  const auto* first = static_cast<const std::byte*>(a.data);
  const auto* second = static_cast<const std::byte*>(b.data);
  return first < second + b.bytes().value && second < first + a.bytes().value;
}

Matrix flat(const Matrix& matrix) {
  return {matrix.data, 1, matrix.elements(), matrix.dtype};
}

/// Checks an all-gather (part, whole) or reduce-scatter (whole, part) pair; `whole` is members × `part`.
void expect_pair(const Matrix& part, const Matrix& whole, std::size_t members, const char* call) {
  expect(part.contiguous() && whole.contiguous(), call, "the matrices must be contiguous");
  expect(part.dtype == whole.dtype, call, "input and output must have one element type");
  expect(whole.elements() == part.elements() * static_cast<std::int64_t>(members), call,
         "the larger matrix must have members x the elements of the smaller one");
}

}  // namespace

MpiCommunicator::MpiCommunicator(const Layout& layout, const MpiOptions& options)
    : layout_(layout),
      longest_call_(options.longest_call),
      waiter_(options.crowded ? *options.crowded : host_is_crowded(MPI_COMM_WORLD)),
      clock_(common_clock(MPI_COMM_WORLD)) {
  int started = 0;
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &started), "MPI_Comm_size");
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  if (started != layout.world()) {
    throw InputError(
        fmt::format("{} ranks were started, but tensor {} x pipeline {} x data {} needs {}: change the sizes "
                    "or the number "
                    "of ranks",
                    started, layout.tensor, layout.pipeline, layout.data, layout.world()));
  }
  for (int i = 0; i < kGroups; ++i) {
    Members& group = groups_[static_cast<std::size_t>(i)];
    group.ranks = layout.members(static_cast<Group>(i), rank_);
    const auto mine = std::find(group.ranks.begin(), group.ranks.end(), rank_);
    group.mine = static_cast<int>(mine - group.ranks.begin());
    // A split is collective, so ranks outside the group and in groups of one take part with no colour.
    const int color = group.ranks.size() > 1 ? group.ranks.front() : MPI_UNDEFINED;
    check_mpi(MPI_Comm_split(MPI_COMM_WORLD, color, rank_, group.comm.out()), "MPI_Comm_split");
    if (group.comm) {
      check_mpi(MPI_Comm_set_errhandler(group.comm.get(), MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    }
  }
}

const MpiCommunicator::Members& MpiCommunicator::members(Group group) const {
  const Members& found = groups_[static_cast<std::size_t>(group)];
  if (found.ranks.empty()) throw Error(fmt::format("rank {} is not in the {} group", rank_, name_of(group)));
  return found;
}

void MpiCommunicator::finish(MPI_Request& request, const char* call) const {
  waiter_.wait(request, MPI_STATUS_IGNORE, call);
}

void MpiCommunicator::all_reduce(Group group, Matrix buffer, ReduceOp op) {
  if (waiter_.crowded()) {
    Ticket ticket = start_all_reduce(group, buffer, op);
    wait(ticket);
    return;
  }
  const Members& in = members(group);
  expect(buffer.contiguous(), "all_reduce", "the matrix must be contiguous");
  traffic_.all_reduced += buffer.bytes();
  if (!in.comm) return;
  for_pieces(buffer, [&](void* data, int count) {
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, data, count, mpi_type(buffer.dtype), ops_.get(buffer.dtype, op),
                            in.comm.get()),
              "MPI_Allreduce");
  });
}

Ticket MpiCommunicator::start_all_reduce(Group group, Matrix buffer, ReduceOp op) {
  const Members& in = members(group);
  expect(buffer.contiguous(), "start_all_reduce", "the matrix must be contiguous");
  traffic_.all_reduced += buffer.bytes();
  if (!in.comm || buffer.empty()) return {};
  const Ticket ticket = open("MPI_Iallreduce");
  for_pieces(buffer, [&](void* data, int count) {
    Part& part = pending(ticket).parts.emplace_back();
    check_mpi(MPI_Iallreduce(MPI_IN_PLACE, data, count, mpi_type(buffer.dtype), ops_.get(buffer.dtype, op),
                             in.comm.get(), &part.request),
              "MPI_Iallreduce");
  });
  return ticket;
}

void MpiCommunicator::all_gather(Group group, Matrix input, Matrix output) {
  const Members& in = members(group);
  expect_pair(input, output, in.ranks.size(), "all_gather");
  traffic_.all_gathered += input.bytes();
  if (input.empty()) return;
  const Matrix line = flat(output);
  const std::int64_t count = input.elements();
  const Matrix own(line.at(0, in.mine * count), 1, count, input.dtype);
  const bool in_place = own.data == input.data;
  expect(in_place || !overlap(input, output), "all_gather",
         "the input must lie outside the output or in this rank's own place of it");
  if (!in.comm || count > longest_call_) {
    if (!in_place) std::memcpy(own.data, input.data, static_cast<std::size_t>(input.bytes().value));
    for (std::size_t root = 0; root < in.ranks.size(); ++root) {
      const auto first = static_cast<std::int64_t>(root) * count;
      broadcast_pieces(in, static_cast<int>(root), Matrix(line.at(0, first), 1, count, input.dtype));
    }
    return;
  }
  const MPI_Datatype type = mpi_type(input.dtype);
  const void* from = in_place ? MPI_IN_PLACE : input.data;
  const int elements = static_cast<int>(count);
  if (!waiter_.crowded()) {
    check_mpi(MPI_Allgather(from, elements, type, output.data, elements, type, in.comm.get()),
              "MPI_Allgather");
    return;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallgather(from, elements, type, output.data, elements, type, in.comm.get(), &request),
            "MPI_Iallgather");
  finish(request, "MPI_Iallgather");
}

void MpiCommunicator::reduce_scatter(Group group, Matrix input, Matrix output) {
  const Members& in = members(group);
  expect_pair(output, input, in.ranks.size(), "reduce_scatter");
  traffic_.reduce_scattered += input.bytes();
  if (input.empty()) return;
  if (!in.comm) {
    std::memmove(output.data, input.data, static_cast<std::size_t>(input.bytes().value));
    return;
  }
  expect(!overlap(input, output), "reduce_scatter", "the output must lie outside the input");
  const std::int64_t count = output.elements();
  if (count > longest_call_) {
    for (std::size_t root = 0; root < in.ranks.size(); ++root) {
      const auto first = static_cast<std::int64_t>(root) * count;
      const Matrix piece(flat(input).at(0, first), 1, count, input.dtype);
      reduce_pieces(in, static_cast<int>(root), piece, output);
    }
    return;
  }
  const MPI_Datatype type = mpi_type(input.dtype);
  const MPI_Op sum = ops_.get(input.dtype, ReduceOp::sum);
  const int elements = static_cast<int>(count);
  if (!waiter_.crowded()) {
    check_mpi(MPI_Reduce_scatter_block(input.data, output.data, elements, type, sum, in.comm.get()),
              "MPI_Reduce_scatter_block");
    return;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ireduce_scatter_block(input.data, output.data, elements, type, sum, in.comm.get(), &request),
            "MPI_Ireduce_scatter_block");
  finish(request, "MPI_Ireduce_scatter_block");
}

void MpiCommunicator::reduce_pieces(const Members& group, int root, const Matrix& input,
                                    const Matrix& output) {
  for_pieces(input, [&](void* data, int count) {
    const std::ptrdiff_t offset = static_cast<std::byte*>(data) - static_cast<std::byte*>(input.data);
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ireduce(data, static_cast<std::byte*>(output.data) + offset, count, mpi_type(input.dtype),
                          ops_.get(input.dtype, ReduceOp::sum), root, group.comm.get(), &request),
              "MPI_Ireduce");
    finish(request, "MPI_Ireduce");
  });
}

void MpiCommunicator::broadcast_pieces(const Members& group, int root, const Matrix& buffer) {
  if (!group.comm) return;
  for_pieces(buffer, [&](void* data, int count) {
    const MPI_Datatype type = mpi_type(buffer.dtype);
    if (!waiter_.crowded()) {
      check_mpi(MPI_Bcast(data, count, type, root, group.comm.get()), "MPI_Bcast");
      return;
    }
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ibcast(data, count, type, root, group.comm.get(), &request), "MPI_Ibcast");
    finish(request, "MPI_Ibcast");
  });
}

void MpiCommunicator::broadcast(Group group, int root_world_rank, Matrix buffer) {
  const Members& in = members(group);
  expect(buffer.contiguous(), "broadcast", "the matrix must be contiguous");
  const auto root = std::find(in.ranks.begin(), in.ranks.end(), root_world_rank);
  expect(root != in.ranks.end(), "broadcast", "the root must be in the group");
  traffic_.broadcast += buffer.bytes();
  broadcast_pieces(in, static_cast<int>(root - in.ranks.begin()), buffer);
}

void MpiCommunicator::barrier(Group group) {
  const Members& in = members(group);
  if (!in.comm) return;
  if (!waiter_.crowded()) {
    check_mpi(MPI_Barrier(in.comm.get()), "MPI_Barrier");
    return;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(in.comm.get(), &request), "MPI_Ibarrier");
  finish(request, "MPI_Ibarrier");
}

}  // namespace plumbline
