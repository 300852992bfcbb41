#include "bench/measure/collectives/collective_bench.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "core/backends/mpi/check.hpp"
#include "core/base/statistics.hpp"
#include "core/run/monotonic_clock.hpp"

namespace plumbline {
namespace {

constexpr double kNarrow = 0.02;  // half of the interval, relative
constexpr int kFewestBlocks = 5;
constexpr int kBlocksOfLimit = 25;  // a block takes this part of the limit
constexpr int kMostCalls = 10'000;  // of a block
constexpr int kLooks = 4;           // at the time of a call
constexpr int kFirstCalls = 8;
constexpr std::int64_t kLarge = std::int64_t{4} << 20;  // bytes: one look is enough
constexpr int kTag = 82;

const char* nccl_type_name(DType type) {
  return type == DType::bf16 ? "bfloat16" : type == DType::int32 ? "int32" : "float";
}

double mean_over_ranks(double value, int ranks) {
  value /= ranks;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
  return value;
}

/// Rank 0's decision.
bool agreed(bool decision) {
  int value = decision ? 1 : 0;
  check_mpi(MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Bcast");
  return value == 1;
}

CollectiveKind collective_of(BenchedCall call) {
  switch (call) {
    case BenchedCall::all_gather:
      return CollectiveKind::all_gather;
    case BenchedCall::reduce_scatter:
      return CollectiveKind::reduce_scatter;
    case BenchedCall::all_to_all:
    case BenchedCall::all_to_all_uneven:
      return CollectiveKind::all_to_all;
    case BenchedCall::broadcast:
      return CollectiveKind::broadcast;
    default:
      return CollectiveKind::all_reduce;
  }
}

/// One size of one benchmark.
class BenchedSize {
 public:
  BenchedSize(Communicator& communicator, Operators& operators, const BenchedKind& kind,
              const BenchedGroup& group, const BenchedBuffers& buffers)
      : communicator_(communicator), operators_(operators), kind_(kind), group_(group), buffers_(buffers) {}

  /// Seconds of one call, and the number of calls.
  std::pair<MedianInterval, std::int64_t> time(double limit_s) {
    operators_.fill(buffers_.input, 0);  // sums of sums stay finite
    (void)block(1);                      // connections are made, pages are there
    const int calls = calls_of_block(limit_s / kBlocksOfLimit);
    std::vector<double> seconds;
    const Seconds start = monotonic_now();
    do {
      seconds.push_back(block(calls));
    } while (agreed((monotonic_now() - start).value < limit_s &&
                    (seconds.size() < kFewestBlocks || median_interval(seconds).spread() > kNarrow)));
    return {median_interval(seconds), std::int64_t{calls} * static_cast<std::int64_t>(seconds.size())};
  }

  std::int64_t wrong() {
    buffers_.fill(operators_);
    call();
    std::int64_t wrong = buffers_.wrong(operators_);
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
    return wrong;
  }

 private:
  /// As many as take that long. A disturbance makes them seem slow: fewer are tried again.
  int calls_of_block(double seconds) {
    int calls = 1;
    for (int look = 0; look < kLooks; ++look) {
      double least = block(calls);
      for (int again = 0; buffers_.size() < kLarge && again < 2; ++again)
        least = std::min(least, block(calls));
      const double each = std::max(least * calls_within(), 1e-9);
      const int wanted = std::clamp(static_cast<int>(seconds / each), 1, kMostCalls);
      if (wanted < 2 * calls) return std::max(calls, 1);
      calls = look == 0 ? std::min(wanted, kFirstCalls) : wanted;
    }
    return calls;
  }

  double block(int calls) {
    operators_.synchronize();
    communicator_.barrier(Group::world);
    const Seconds start = monotonic_now();
    for (int i = 0; i < calls; ++i) call();
    operators_.synchronize();
    const double each = (monotonic_now() - start).value / calls / calls_within();
    return mean_over_ranks(each, communicator_.layout().world());
  }

  /// Messages one after another in a call, whose time is one of them.
  double calls_within() const {
    if (kind_.call == BenchedCall::latency) return 2;  // there and back
    return kind_.call == BenchedCall::bandwidth ? kMessageWindow : 1;
  }

  void call() {
    switch (kind_.call) {
      case BenchedCall::send_receive:
        return pass_on();
      case BenchedCall::latency:
        return ping_pong();
      case BenchedCall::bandwidth:
        return send_window();
      default:
        break;
    }
    Collective asked{collective_of(kind_.call), group_.group, buffers_.input, buffers_.output};
    asked.sent = buffers_.sent;
    asked.received = buffers_.received;
    if (kind_.rooted) asked.root = group_.members.front();
    if (!starts_in_steps(group_.group)) return communicator_.run(asked);
    Ticket ticket = communicator_.start(asked);
    communicator_.wait(ticket);
  }

  void send(const Matrix& buffer, int to) {
    Ticket ticket = communicator_.send(buffer, to, kTag);
    communicator_.wait(ticket);
  }
  void receive(const Matrix& buffer, int from) {
    Ticket ticket = communicator_.receive(buffer, from, kTag);
    communicator_.wait(ticket);
  }

  /// To the next rank of the ring, from the one before, at once.
  void pass_on() {
    Ticket in = communicator_.receive(buffers_.output, group_.previous(), kTag);
    Ticket out = communicator_.send(buffers_.input, group_.next(), kTag);
    communicator_.wait(in);
    communicator_.wait(out);
  }

  void ping_pong() {
    const int peer = group_.partner();
    if (peer < 0) return;
    const bool first = group_.place % 2 == 0;
    if (first) send(buffers_.input, peer);
    receive(buffers_.output, peer);
    if (!first) send(buffers_.input, peer);
  }

  /// Many messages of one direction, and an answer of one element (osu_bw).
  void send_window() {
    const int peer = group_.partner();
    if (peer < 0) return;
    const bool sends = group_.place % 2 == 0;
    std::array<Ticket, kMessageWindow> tickets;
    for (Ticket& ticket : tickets) {
      ticket = sends ? communicator_.send(buffers_.input, peer, kTag)
                     : communicator_.receive(buffers_.output, peer, kTag);
    }
    for (Ticket& ticket : tickets) communicator_.wait(ticket);
    if (sends) {
      receive(buffers_.output.columns(0, 1), peer);
    } else {
      send(buffers_.input.columns(0, 1), peer);
    }
  }

  Communicator& communicator_;
  Operators& operators_;
  const BenchedKind& kind_;
  const BenchedGroup& group_;
  const BenchedBuffers& buffers_;
};

/// Hosts that a group's ranks are on.
int hosts_of(const BenchedGroup& group, int world) {
  MPI_Comm host = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host),
            "MPI_Comm_split_type");
  int first = 0;  // rank of the host
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &first), "MPI_Comm_rank");
  check_mpi(MPI_Bcast(&first, 1, MPI_INT, 0, host), "MPI_Bcast");
  check_mpi(MPI_Comm_free(&host), "MPI_Comm_free");
  std::vector<int> firsts(static_cast<std::size_t>(world));
  check_mpi(MPI_Allgather(&first, 1, MPI_INT, firsts.data(), 1, MPI_INT, MPI_COMM_WORLD), "MPI_Allgather");
  std::set<int> hosts;
  for (const int member : group.members) hosts.insert(firsts[static_cast<std::size_t>(member)]);
  return static_cast<int>(hosts.size());
}

}  // namespace

std::vector<std::int64_t> BenchedSizes::all() const {
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = smallest; size <= largest; size *= factor) sizes.push_back(size);
  return sizes;
}

bool starts_in_steps(Group group) {
  switch (group) {
    case Group::data:
    case Group::expert_data:
    case Group::zero_param:
    case Group::optimizer_instance:
    case Group::between_instances:
    case Group::embedding:
      return true;
    default:
      return false;
  }
}

std::int64_t bench_collectives(Communicator& communicator, Operators& operators, MemorySource& memory,
                               const BenchRequest& request,
                               const std::function<void(const CollectiveRow&)>& on_row) {
  const int rank = communicator.rank();
  const Layout& layout = communicator.layout();
  BenchedGroup group{request.group, layout.members(request.group, rank), 0};
  group.place =
      static_cast<int>(std::find(group.members.begin(), group.members.end(), rank) - group.members.begin());
  const int hosts = hosts_of(group, layout.world());
  const Bytes bytes{BenchedBuffers::bytes_needed(std::max<std::int64_t>(request.sizes.largest, 8))};
  auto* const data = static_cast<std::byte*>(memory.allocate(bytes));
  std::int64_t wrong = 0;
  for (const BenchedCall call : request.calls) {
    const BenchedKind& kind = kind_of(call);
    for (const bool in_place : {false, true}) {
      if (!(in_place ? kind.in_place : kind.out_of_place)) continue;
      for (const std::int64_t asked : request.sizes.all()) {
        const BenchedBuffers buffers(kind, group, in_place, request.type, asked, data);
        if (buffers.empty()) continue;
        BenchedSize size(communicator, operators, kind, group, buffers);
        CollectiveRow row{.call = call, .in_place = in_place, .group = std::string(name_of(request.group))};
        const auto [interval, calls] = size.time(request.limit_s);
        row.ranks = group.size();
        row.groups = layout.world() / group.size();
        row.ranks_per_node = (group.size() + hosts - 1) / hosts;
        row.nodes = hosts;
        row.size = buffers.size();
        row.count = buffers.count();
        row.type = nccl_type_name(request.type);
        row.root = kind.rooted ? 0 : -1;
        row.seconds = interval.median;
        row.low_s = interval.low;
        row.high_s = interval.high;
        row.calls = calls;
        row.bus_factor = buffers.bus_factor();
        row.wrong = size.wrong();
        wrong += row.wrong;
        if (rank == 0) on_row(row);
      }
    }
  }
  memory.release(data, bytes);
  return wrong;
}

}  // namespace plumbline
