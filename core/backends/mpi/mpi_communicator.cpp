// Collectives, messages and tickets of the MPI communicator.
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

template <class Call>
void MpiCommunicator::for_pieces(const Matrix& buffer, Call call) const {
  const Matrix line = flat(buffer);
  for (std::int64_t first = 0; first < line.cols; first += longest_call_) {
    const std::int64_t count = std::min(longest_call_, line.cols - first);
    call(line.at(0, first), static_cast<int>(count));
  }
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

Ticket MpiCommunicator::send(Matrix buffer, int to, int tag) {
  const Members& world = members(Group::world);
  expect(buffer.contiguous(), "send", "the matrix must be contiguous");
  expect(to != rank_ && to >= 0 && to < layout_.world(), "send",
         "the receiver must be another rank of the world");
  traffic_.messages_sent += 1;
  traffic_.point_to_point_sent += buffer.bytes();
  const Ticket ticket = open("MPI_Isend");
  for_pieces(buffer, [&](void* data, int count) {
    Part& part = pending(ticket).parts.emplace_back();
    check_mpi(MPI_Isend(data, count, mpi_type(buffer.dtype), to, tag, world.comm.get(), &part.request),
              "MPI_Isend");
  });
  return ticket;
}

Ticket MpiCommunicator::receive(Matrix buffer, int from, int tag) {
  const Members& world = members(Group::world);
  expect(buffer.contiguous(), "receive", "the matrix must be contiguous");
  expect(from != rank_ && from >= 0 && from < layout_.world(), "receive",
         "the sender must be another rank of the world");
  const Ticket ticket = open("MPI_Irecv");
  for_pieces(buffer, [&](void* data, int count) {
    Part& part = pending(ticket).parts.emplace_back();
    part.expected = count;
    part.type = mpi_type(buffer.dtype);
    check_mpi(MPI_Irecv(data, count, part.type, from, tag, world.comm.get(), &part.request), "MPI_Irecv");
  });
  return ticket;
}

Ticket MpiCommunicator::open(const char* call) {
  std::int64_t id = 0;
  if (free_.empty()) {
    id = static_cast<std::int64_t>(pending_.size());
    pending_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  pending_[static_cast<std::size_t>(id)].call = call;
  return {id};
}

void MpiCommunicator::wait(Ticket& ticket) {
  if (!ticket) return;
  Pending& waiting = pending(ticket);
  for (Part& part : waiting.parts) {
    MPI_Status status;
    waiter_.wait(part.request, part.expected >= 0 ? &status : MPI_STATUS_IGNORE, waiting.call);
    if (part.expected < 0) continue;
    int received = 0;
    check_mpi(MPI_Get_count(&status, part.type, &received), "MPI_Get_count");
    if (received != part.expected) {
      throw Error(fmt::format("rank {} expected {} elements from rank {} with tag {}, but {} came", rank_,
                              part.expected, status.MPI_SOURCE, status.MPI_TAG, received));
    }
  }
  waiting.parts.clear();
  free_.push_back(ticket.id);
  ticket = {};
}

void MpiCommunicator::progress() {
  if (free_.size() == pending_.size()) return;  // nothing is under way
  // A probe drives everything that is under way, at the cost of one pass of the progress engine.
  int found = 0;
  check_mpi(
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, members(Group::world).comm.get(), &found, MPI_STATUS_IGNORE),
      "MPI_Iprobe");
}

}  // namespace plumbline
