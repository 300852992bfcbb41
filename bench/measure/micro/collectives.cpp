#include "bench/measure/micro/collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "bench/processes/launch/launch.hpp"
#include "core/backends/mpi/check.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr double kBlockSeconds = 0.2;  // how long one line is measured
constexpr int kWarmUp = 3;
constexpr int kRoot = 0;
constexpr std::int64_t kSmallest = 8;  // bytes
constexpr std::int64_t kFactor = 4;    // from one size to the next

/// Buffers of a rank in one matrix of the device: input and output may be the same.
struct Buffers {
  Matrix input;
  Matrix output;
};

/// Place of a call's output: that of its input, around it, or elsewhere.
enum class Placement { same, around, apart };

struct BenchedCollective {
  std::string_view name;
  Placement placement;
  bool reduces;
  bool rooted;
  bool input_is_piece;                       // the input is a rank's share of the size
  bool output_is_piece;                      // the output is
  std::function<double(double)> bus_factor;  // of the number of ranks
  std::function<void(Communicator&, const Buffers&)> call;
  /// Element i of the result on `rank`, when rank r hands in value(r, i).
  std::function<int(int rank, int ranks, std::int64_t i, std::int64_t count)> expected;
};

/// Small enough that sums over 85 ranks are exact in bf16.
int value(int rank, std::int64_t i) {
  return static_cast<int>((i * 7 + std::int64_t{3} * rank) % 4);
}
int sum(int ranks, std::int64_t i) {
  int total = 0;
  for (int rank = 0; rank < ranks; ++rank) total += value(rank, i);
  return total;
}

/// Share of the data that comes from other ranks.
double others_share(double ranks) {
  return (ranks - 1) / ranks;
}
void all_gather(Communicator& communicator, const Buffers& buffers) {
  communicator.all_gather(Group::world, buffers.input, buffers.output);
}
int gathered(int /*rank*/, int /*ranks*/, std::int64_t i, std::int64_t piece) {
  return value(static_cast<int>(i / piece), i % piece);
}
/// To the next rank, from the one before, at once.
void pass_on(Communicator& communicator, const Buffers& buffers) {
  const int ranks = communicator.layout().world();
  const int rank = communicator.rank();
  if (ranks == 1) return all_gather(communicator, buffers);  // a copy: nobody is there
  Ticket in = communicator.receive(buffers.output, (rank + ranks - 1) % ranks, 0);
  Ticket out = communicator.send(buffers.input, (rank + 1) % ranks, 0);
  communicator.wait(in);
  communicator.wait(out);
}

const std::vector<BenchedCollective>& collectives() {
  static const std::vector<BenchedCollective> all = {
      {"all_reduce", Placement::same, true, false, false, false, [](double n) { return 2 * (n - 1) / n; },
       [](Communicator& c, const Buffers& b) { c.all_reduce(Group::world, b.output, ReduceOp::sum); },
       [](int, int ranks, std::int64_t i, std::int64_t) { return sum(ranks, i); }},
      {"all_gather", Placement::around, false, false, true, false, others_share, all_gather, gathered},
      {"all_gather", Placement::apart, false, false, true, false, others_share, all_gather, gathered},
      {"all_to_all", Placement::apart, false, false, false, false, others_share,
       [](Communicator& c, const Buffers& b) { c.all_to_all(Group::world, b.input, b.output); },
       [](int rank, int, std::int64_t i, std::int64_t piece) {
         return value(static_cast<int>(i / piece), rank * piece + i % piece);
       }},
      {"send and receive", Placement::apart, false, false, false, false, [](double) { return 1.0; }, pass_on,
       [](int rank, int ranks, std::int64_t i, std::int64_t) {
         return value((rank + ranks - 1) % ranks, i);
       }},
      {"reduce_scatter", Placement::apart, true, false, false, true, others_share,
       [](Communicator& c, const Buffers& b) { c.reduce_scatter(Group::world, b.input, b.output); },
       [](int rank, int ranks, std::int64_t i, std::int64_t piece) { return sum(ranks, rank * piece + i); }},
      {"broadcast", Placement::same, false, true, false, false, [](double) { return 1.0; },
       [](Communicator& c, const Buffers& b) { c.broadcast(Group::world, kRoot, b.output); },
       [](int, int, std::int64_t i, std::int64_t) { return value(kRoot, i); }}};
  return all;
}

/// The bits of small whole numbers in a storage type, exact.
std::vector<std::byte> encoded(const std::vector<int>& numbers, DType type) {
  const auto width = static_cast<std::size_t>(size_of(type));
  std::vector<std::byte> bytes(numbers.size() * width);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto number = static_cast<float>(numbers[i]);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &number, sizeof bits);
    if (type == DType::bf16) bits >>= 16;  // its upper half; the lower is zero for such numbers
    std::memcpy(bytes.data() + i * width, &bits, width);
  }
  return bytes;
}

/// The output comes first; the input at the next border that suits every transport.
std::int64_t input_at(const CollectiveSizes& sizes) {
  return (sizes.largest + 511) / 512 * 512;
}

template <class F>
std::vector<int> numbers_of(std::int64_t count, F number) {
  std::vector<int> numbers(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) numbers[static_cast<std::size_t>(i)] = number(i);
  return numbers;
}

std::int64_t number_in(std::string_view text, std::int64_t least, std::int64_t most) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least || number > most) {
    throw InputError(
        fmt::format("arguments: found \"{}\", expected a number from {} to {}", text, least, most));
  }
  return number;
}

class Bench {
 public:
  Bench(Communicator& communicator, Operators& operators, const CollectiveSizes& sizes)
      : communicator_(communicator), operators_(operators), sizes_(sizes) {}

  std::int64_t run(const BenchedCollective& collective, DType type, std::byte* memory) {
    const int ranks = communicator_.layout().world();
    title(collective, type);
    std::int64_t wrong = 0;
    for (std::int64_t size = kSmallest; size <= sizes_.largest; size *= kFactor) {
      const std::int64_t piece = size / size_of(type) / ranks;
      if (piece == 0) continue;  // too small to be split
      const std::int64_t whole = piece * ranks;
      Buffers buffers;
      buffers.output = Matrix(memory, 1, collective.output_is_piece ? piece : whole, type);
      buffers.input = buffers.output;
      if (collective.placement == Placement::around) {
        buffers.input = buffers.output.columns(communicator_.rank() * piece, piece);
      } else if (collective.placement == Placement::apart) {
        buffers.input = Matrix(memory + input_at(sizes_), 1, collective.input_is_piece ? piece : whole, type);
      }
      const std::int64_t errors = check(collective, buffers, piece);
      const double seconds = time(collective, buffers);
      wrong += errors;
      const double bytes = static_cast<double>(whole * size_of(type));
      if (communicator_.rank() == 0) {
        fmt::print("{:>12}  {:>12}  {:>8}  {:>6}  {:>4}  {:>10.2f}  {:>8.3f}  {:>8.3f}  {:>6}\n",
                   whole * size_of(type), std::min(buffers.input.cols, buffers.output.cols),
                   type == DType::fp32 ? "float" : "bfloat16", collective.reduces ? "sum" : "none",
                   collective.rooted ? kRoot : -1, seconds * 1e6, bytes / seconds * 1e-9,
                   bytes / seconds * 1e-9 * collective.bus_factor(ranks), errors);
      }
    }
    return wrong;
  }

 private:
  void title(const BenchedCollective& collective, DType type) const {
    if (communicator_.rank() != 0) return;
    fmt::print("# {}, {}, {} ranks, {}\n#{:>11}  {:>12}  {:>8}  {:>6}  {:>4}  {:>10}  {:>8}  {:>8}  {:>6}\n",
               collective.name, name_of(type), communicator_.layout().world(),
               collective.placement == Placement::apart ? "out of place" : "in place", "size (B)", "count",
               "type", "redop", "root", "time (us)", "algbw", "busbw", "#wrong");
  }

  /// Wrong elements of all ranks.
  std::int64_t check(const BenchedCollective& collective, const Buffers& buffers, std::int64_t piece) {
    const int rank = communicator_.rank();
    const DType type = buffers.input.dtype;
    operators_.fill(buffers.output, -1);
    const std::vector<std::byte> before =
        encoded(numbers_of(buffers.input.cols, [&](std::int64_t i) { return value(rank, i); }), type);
    operators_.upload(before.data(), buffers.input);
    collective.call(communicator_, buffers);
    std::vector<std::byte> after(static_cast<std::size_t>(buffers.output.bytes().value));
    operators_.download(buffers.output, after.data());
    const int ranks = communicator_.layout().world();
    const std::vector<std::byte> exact =
        encoded(numbers_of(buffers.output.cols,
                           [&](std::int64_t i) { return collective.expected(rank, ranks, i, piece); }),
                type);
    std::int64_t wrong = 0;
    const auto width = static_cast<std::size_t>(size_of(type));
    for (std::size_t at = 0; at < exact.size(); at += width) {
      wrong += std::memcmp(after.data() + at, exact.data() + at, width) != 0 ? 1 : 0;
    }
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
    return wrong;
  }

  /// Seconds of one call, mean over calls and ranks.
  double time(const BenchedCollective& collective, const Buffers& buffers) {
    operators_.fill(buffers.input, 0);  // sums of sums stay finite
    double first = mean_time(collective, buffers, kWarmUp);
    check_mpi(MPI_Bcast(&first, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD), "MPI_Bcast");
    return mean_time(collective, buffers, std::clamp(static_cast<int>(kBlockSeconds / first), 5, 10'000));
  }

  double mean_time(const BenchedCollective& collective, const Buffers& buffers, int calls) {
    operators_.synchronize();
    communicator_.barrier(Group::world);
    const Seconds start = communicator_.now();
    for (int i = 0; i < calls; ++i) collective.call(communicator_, buffers);
    operators_.synchronize();
    double seconds = (communicator_.now() - start).value / calls / communicator_.layout().world();
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
    return seconds;
  }

  Communicator& communicator_;
  Operators& operators_;
  CollectiveSizes sizes_;
};

}  // namespace

int collectives_main(int argc, char** argv,
                     const std::function<std::int64_t(const MpiSession&, const CollectiveSizes&)>& measure) {
  if (const auto code = launch_entry(argc, argv)) return *code;
  if (already_launched_by() == nullptr) {
    try {
      LaunchSpec spec;
      spec.program = self_path();
      spec.ranks = argc > 1 ? static_cast<int>(number_in(argv[1], 1, 4096)) : 2;
      spec.arguments.assign(argv + 1, argv + argc);
      if (argc > 2) (void)number_in(argv[2], kSmallest, std::int64_t{1} << 40);
      if (argc > 3 && std::string_view(argv[3]) != "registered")
        throw InputError(fmt::format("arguments: found \"{}\", expected registered or nothing", argv[3]));
      spec.on_line = [](const OutputLine& line) {
        fmt::print("{}\n", line.text);
        std::fflush(stdout);  // a run that is cut off has printed its results so far
      };
      const LaunchResult result = launch(spec);
      if (result.ok()) return 0;
      fmt::print(stderr, "{}\n", result.reason());
      return result.ending == Ending::exited && result.exit_code == 1 ? 1 : 4;
    } catch (const InputError& error) {
      fmt::print(stderr, "{}\n", error.what());
      return 2;
    }
  }
  const MpiSession session(argc, argv);
  return session.guard([&] {
    CollectiveSizes sizes;
    if (argc > 2) sizes.largest = number_in(argv[2], kSmallest, std::int64_t{1} << 40);
    sizes.registered = argc > 3;
    return measure(session, sizes) == 0 ? 0 : 1;
  });
}

std::int64_t measure_collectives(Communicator& communicator, Operators& operators, MemorySource& memory,
                                 const CollectiveSizes& sizes) {
  const Bytes bytes{input_at(sizes) + sizes.largest};
  void* data = memory.allocate(bytes);
  Bench bench(communicator, operators, sizes);
  std::int64_t wrong = 0;
  for (const BenchedCollective& collective : collectives()) {
    for (const DType type : {DType::fp32, DType::bf16}) {
      wrong += bench.run(collective, type, static_cast<std::byte*>(data));
    }
  }
  memory.release(data, bytes);
  if (communicator.rank() == 0) fmt::print("# wrong elements: {}\n", wrong);
  return wrong;
}

}  // namespace plumbline
