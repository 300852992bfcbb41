#include "analysis/hardware/logs/benchmark_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "analysis/hardware/logs/log_lines.hpp"
#include "analysis/hardware/logs/rccl_records.hpp"
#include "core/base/error.hpp"
#include "core/base/one_line.hpp"

namespace plumbline {
namespace {

constexpr double kMostLogSize = 0x1p50;  // bytes
constexpr double kMostLogSeconds = 1e5;
constexpr double kMostLogRanks = 1 << 20;
constexpr std::size_t kMostSweeps = 10'000;
constexpr std::size_t kMostPoints = 1'000'000;
constexpr double kMebibyte = 0x1p20;  // perftest's MB

using Words = std::vector<std::string_view>;

/// Names of programs in command lines and headers; longer ones first.
LogOperation operation_in(std::string_view line) {
  constexpr std::array<std::pair<std::string_view, LogOperation>, 9> kPrograms = {
      {{"reduce_scatter_perf", LogOperation::reduce_scatter},
       {"all_reduce_perf", LogOperation::all_reduce},
       {"all_gather_perf", LogOperation::all_gather},
       {"alltoallv_perf", LogOperation::unknown},
       {"alltoall_perf", LogOperation::all_to_all},
       {"broadcast_perf", LogOperation::broadcast},
       {"sendrecv_perf", LogOperation::ring},
       {"scatter_perf", LogOperation::unknown},
       {"reduce_perf", LogOperation::reduce}}};
  for (const auto& [program, operation] : kPrograms) {
    if (contains_word(line, program)) return operation;
  }
  return LogOperation::unknown;
}

/// Bytes of an element of NCCL's and RCCL's types; 0: none of them.
double element_bytes(std::string_view type) {
  constexpr std::array<std::pair<std::string_view, double>, 20> kTypes = {
      {{"float", 4},  {"half", 2},    {"bfloat16", 2}, {"double", 8},   {"int8", 1},
       {"uint8", 1},  {"int32", 4},   {"uint32", 4},   {"int64", 8},    {"uint64", 8},
       {"char", 1},   {"int", 4},     {"fp8_e4m3", 1}, {"fp8_e5m2", 1}, {"f8e4m3", 1},
       {"f8e5m2", 1}, {"float16", 2}, {"fp16", 2},     {"bf16", 2},     {"float32", 4}}};
  for (const auto& [name, bytes] : kTypes) {
    if (name == type) return bytes;
  }
  return 0;
}

/// One row of nccl-tests, as far as it tells the operation.
struct NcclRow {
  bool sums = false;
  bool rooted = false;
  bool unchecked_in_place = false;  // as those that have no place of their own: messages, all-to-all
  double pieces = 1;                // of the size in a rank's count
};

/// Reads a log line by line; a table ends where another begins.
class LogReader {
 public:
  LogReader(std::string_view text, const std::string& origin) : text_(text), origin_(origin) {}

  std::vector<LogSweep> read() {
    for (std::size_t first = 0; first < text_.size();) {
      const std::size_t end = std::min(text_.find('\n', first), text_.size());
      ++line_;
      take(text_.substr(first, end - first));
      first = end + 1;
    }
    end_table();
    return std::move(sweeps_);
  }

 private:
  enum class Table { none, nccl, osu, perftest };

  [[noreturn]] void refuse(std::string_view found, const char* expected) const {
    throw InputError(fmt::format("{}:{}: found {}, expected {}; remove the line", origin_, line_,
                                 printable(found), expected));
  }

  void take(std::string_view line) {
    constexpr std::size_t kLongestLine = 4096;  // of a table
    if (line.size() > kLongestLine) return;
    const Words words = words_of(line);
    if (words.empty() || take_name(line) || take_rank(words) || take_nccl(words)) return;
    if (contains_word(line, "rccl-tests")) nccl_tool_ = "rccl-tests";
    if (contains_word(line, "Out of bounds values")) return end_table();
    if (contains_word(line, "nThread") || contains_word(line, "Using devices")) return begin_run();
    if (take_osu_head(line, words) || take_perftest_head(line, words)) return;
    if (table_ == Table::osu || table_ == Table::perftest) take_row(words);
  }

  /// A command line, or the line that newer versions print before and after.
  bool take_name(std::string_view line) {
    const LogOperation named = operation_in(line);
    if (named == LogOperation::unknown) return false;
    if (contains_word(line, "concluded")) {
      if (named_ == LogOperation::unknown) named_ = named;
      end_table();
      return true;
    }
    end_table();
    named_ = named;
    named_used_ = false;
    return true;
  }

  /// A program's first lines, which every process may print.
  void begin_run() {
    end_table();
    if (named_used_) named_ = LogOperation::unknown;
    if (!ranks_used_) return;
    ranks_.clear();
    hosts_.clear();
    device_.clear();
    ranks_used_ = named_used_ = false;
  }

  /// "#  Rank  0 Group  0 Pid   1887 on   worker-1 device  0 [0x8d] NVIDIA H100 80GB HBM3".
  bool take_rank(const Words& words) {
    const auto rank = std::find(words.begin(), words.end(), "Rank");
    const auto on = std::find(rank, words.end(), "on");
    const auto device = std::find(on, words.end(), "device");
    if (words.end() - rank < 2 || words.end() - on < 2 || words.end() - device < 2) return false;
    const auto number = number_of(*(rank + 1));
    if (!number || *number >= kMostLogRanks) return false;
    if (ranks_used_) begin_run();
    ranks_.insert(static_cast<int>(*number));
    hosts_.emplace(*(on + 1));
    std::string name;
    for (auto word = device + 2; word != words.end(); ++word) {
      if (word->starts_with('[')) continue;
      name += (name.empty() ? "" : " ") + std::string(*word);
    }
    device_ = printable(name, 100);
    if (device_.starts_with("AMD")) nccl_tool_ = "rccl-tests";
    return true;
  }

  /// size, count, type, redop and root where there are any, then time, algbw, busbw, #wrong of both places.
  bool take_nccl(const Words& words) {
    const double width = words.size() < 7 ? 0 : element_bytes(words[2]);
    if (width == 0) return false;
    const double size = number_of(words[0]).value_or(-1);
    const double count = number_of(words[1]).value_or(-1);
    if (size < 0 || count < 0 || size != std::floor(size)) return false;
    std::size_t first = 3;
    row_ = {};
    if (!number_of(words[first]) && words[first] != "N/A" && words[first] != "-1") {
      row_.sums = words[first] != "none";
      ++first;
    }
    // Four figures, or twice four; before them a root where one is left over. Our own table has three more.
    const std::size_t left = words.size() - first;
    const bool own = left == 8 && (words[first] == "-1" || words[first] == "0");
    if (left % 4 == 1 || own) {
      row_.rooted = words[first] != "-1";
      ++first;
    }
    if (count > 0) row_.pieces = size / count / width;
    const bool both = words.size() >= first + 8;
    row_.unchecked_in_place = both && words[first + 7] == "N/A" && words[first + 3] != "N/A";
    if (table_ != Table::nccl) end_table();
    table_ = Table::nccl;
    ranks_used_ = true;
    add_nccl(words, first, size, points_, factor_);
    if (both) add_nccl(words, first + 4, size, in_place_, factor_in_place_);
    return true;
  }

  void add_nccl(const Words& words, std::size_t first, double size, std::vector<LogPoint>& points,
                double& factor) {
    if (first + 3 > words.size() || words[first] == "N/A") return;
    const auto time = number_of(words[first]);
    const auto algorithm = number_of(words[first + 1]);
    const auto bus = number_of(words[first + 2]);
    if (!time || !algorithm || !bus) refuse(words[first], "a time in us and two rates");
    if (*algorithm >= 1) factor = *bus / *algorithm;  // smaller ones are rounded to two digits
    add(points, size, *time * 1e-6);
  }

  void add(std::vector<LogPoint>& points, double bytes, double seconds) {
    if (bytes > kMostLogSize) refuse(fmt::format("{:.6g} bytes", bytes), "2^50 at most");
    if (seconds > kMostLogSeconds) refuse(fmt::format("{:.6g} s", seconds), "1e5 s at most");
    if (points.size() >= kMostPoints) refuse("more", "1,000,000 lines at most");
    if (bytes > 0 && seconds > 0) points.push_back({bytes, seconds});
  }

  /// "# OSU MPI-CUDA Bandwidth Test v7.2", "# OSU MPI All-to-All Personalized Exchange Latency Test v5.6".
  bool take_osu_head(std::string_view line, const Words& words) {
    if (!words.front().starts_with('#')) return false;
    if (contains_word(line, "OSU") && contains_word(line, "Test")) {
      end_table();
      table_ = contains_word(line, "Bi-Directional") ? Table::none : Table::osu;
      pairs_ = 1;
      osu_rate_ = contains_word(line, "Bandwidth");
      named_ = osu_rate_ ? LogOperation::stream : LogOperation::message;
      constexpr std::array<std::pair<std::string_view, LogOperation>, 7> kTests = {
          {{"Allreduce", LogOperation::all_reduce},
           {"Allgather", LogOperation::all_gather},
           {"Reduce_scatter", LogOperation::reduce_scatter},
           {"Alltoall", LogOperation::all_to_all},
           {"All-to-All", LogOperation::all_to_all},
           {"Broadcast", LogOperation::broadcast},
           {"Reduce", LogOperation::reduce}}};
      for (const auto& [test, operation] : kTests) {
        if (!contains_word(line, test)) continue;
        named_ = operation;
        break;
      }
      return true;
    }
    if (table_ != Table::osu) return false;
    for (std::size_t i = 0; i + 1 < words.size(); ++i) {  // "# [ pairs: 48 ] [ window size: 64 ]"
      const auto pairs = number_of(words[i + 1]);
      if (words[i] == "pairs:" && pairs && *pairs >= 1) pairs_ = *pairs;
    }
    return true;
  }

  bool take_perftest_head(std::string_view line, const Words& words) {
    if (words.front() != "#bytes" || words.size() < 3) return false;
    end_table();
    table_ = Table::perftest;
    const bool rate = contains_word(line, "BW average");
    named_ = rate ? LogOperation::stream : LogOperation::message;
    perftest_unit_ = contains_word(line, "Gb/sec") ? 1e9 / 8 : kMebibyte;
    return true;
  }

  void take_row(const Words& words) {
    const auto size = number_of(words.front());
    if (!size || *size != std::floor(*size)) return;
    // OSU: size, figure. perftest: bytes, iterations, peak, average, rate; or min, max, typical, average.
    const bool rate = named_ == LogOperation::stream;
    const std::size_t column = table_ == Table::osu ? 1 : rate ? 3 : 4;
    if (words.size() <= column) return;
    const auto value = number_of(words[column]);
    if (!value) refuse(words[column], "a figure");
    if (!(*value > 0)) return;
    const double per_second = table_ == Table::osu ? *value / pairs_ * 1e6 : *value * perftest_unit_;
    add(points_, *size, rate ? *size / per_second : *value * 1e-6);
  }

  void end_table() {
    put(points_, factor_, false);
    put(in_place_, factor_in_place_, true);
    points_.clear();
    in_place_.clear();
    factor_ = factor_in_place_ = 0;
    table_ = Table::none;
  }

  void put(std::vector<LogPoint>& points, double factor, bool in_place) {
    if (points.empty()) return;
    if (sweeps_.size() >= kMostSweeps) refuse("more", "10,000 tables at most");
    LogSweep sweep;
    sweep.operation = named_;
    sweep.in_place = in_place;
    sweep.bus_factor = factor;
    named_used_ = true;
    if (table_ == Table::nccl) {
      sweep.tool = nccl_tool_;
      sweep.device = device_;
      sweep.ranks = ranks_.empty() ? 0 : *ranks_.rbegin() + 1;
      // A log that names some of its ranks only leaves the hosts open.
      if (static_cast<int>(ranks_.size()) == sweep.ranks) sweep.nodes = static_cast<int>(hosts_.size());
      if (named_ == LogOperation::unknown) sweep.operation = guessed(factor, sweep.ranks);
    } else {
      sweep.tool = table_ == Table::osu ? "osu" : "perftest";
      const bool pair = named_ == LogOperation::message || named_ == LogOperation::stream;
      sweep.ranks = pair ? 2 : 0;
      sweep.nodes = table_ == Table::perftest ? 2 : 0;
      sweep.of_one_peer =
          sweep.operation == LogOperation::all_gather || sweep.operation == LogOperation::all_to_all;
    }
    std::sort(points.begin(), points.end(),
              [](const LogPoint& a, const LogPoint& b) { return a.bytes < b.bytes; });
    sweep.points = std::move(points);
    sweeps_.push_back(std::move(sweep));
  }

  /// Columns of a table without a name tell sums from copies, and pieces from whole buffers. All-gather and
  /// all-to-all look alike.
  LogOperation guessed(double factor, int ranks) const {
    if (ranks < 2 || factor <= 0) return LogOperation::unknown;
    const auto near = [](double a, double b) { return std::abs(a / b - 1) < 0.03; };
    if (row_.rooted) return row_.sums ? LogOperation::reduce : LogOperation::broadcast;
    const bool pieces = near(row_.pieces, ranks);
    if (row_.sums && pieces && near(factor, bus_factor_of(LogOperation::reduce_scatter, ranks)))
      return LogOperation::reduce_scatter;
    if (row_.unchecked_in_place && !pieces && near(factor, 1)) return LogOperation::ring;
    if (row_.sums && !row_.unchecked_in_place && near(row_.pieces, 1) &&
        near(factor, bus_factor_of(LogOperation::all_reduce, ranks)))
      return LogOperation::all_reduce;
    return LogOperation::unknown;
  }

  std::string_view text_;
  const std::string& origin_;
  std::size_t line_ = 0;
  std::vector<LogSweep> sweeps_;
  // The table that is read.
  Table table_ = Table::none;
  std::vector<LogPoint> points_, in_place_;
  double factor_ = 0, factor_in_place_ = 0;
  NcclRow row_;
  bool osu_rate_ = false;
  double pairs_ = 1;
  double perftest_unit_ = 0;
  // The run that it belongs to.
  LogOperation named_ = LogOperation::unknown;
  bool named_used_ = false;  // by a table
  std::set<int> ranks_;
  bool ranks_used_ = false;
  std::set<std::string, std::less<>> hosts_;
  std::string device_;
  std::string nccl_tool_ = "nccl-tests";
};

}  // namespace

void complete(LogSweep& sweep, LogOperation operation, int ranks, int nodes, const std::string& origin) {
  if (operation != LogOperation::unknown) sweep.operation = operation;
  if (ranks > 0) sweep.ranks = ranks;
  if (nodes > 0) sweep.nodes = nodes;
  if (sweep.operation == LogOperation::unknown) {
    throw InputError(fmt::format(
        "{}: found a table without its collective, expected its name; add --collective all-gather or another",
        origin));
  }
  if (sweep.ranks < 2) {
    throw InputError(fmt::format("{}: found {} ranks, expected 2 or more; add --ranks", origin, sweep.ranks));
  }
  if (sweep.nodes < 1) {
    throw InputError(fmt::format("{}: found no hosts of all {} ranks, expected their number; add --nodes",
                                 origin, sweep.ranks));
  }
  if (sweep.ranks % sweep.nodes != 0) {
    throw InputError(fmt::format("{}: found {} ranks on {} hosts, expected as many on each; add --nodes",
                                 origin, sweep.ranks, sweep.nodes));
  }
  if (!sweep.of_one_peer) return;
  for (LogPoint& point : sweep.points) point.bytes *= sweep.ranks;
  sweep.of_one_peer = false;
}

std::vector<LogSweep> read_benchmark_log(std::string_view text, const std::string& origin) {
  std::vector<LogSweep> sweeps =
      looks_like_records(text) ? read_records(text, origin) : LogReader(text, origin).read();
  if (sweeps.empty()) {
    throw InputError(fmt::format(
        "{}: found no table, expected the output of nccl-tests, rccl-tests, OSU's benchmarks or ib_write_bw",
        origin));
  }
  return sweeps;
}

}  // namespace plumbline
