// Output of mpirun and its ranks: split into lines, labelled by rank, kept within bounds.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "bench/processes/launch/launch_result.hpp"

namespace plumbline {

/// Text of bounded size: keeps the beginning and the end, and the size of the omitted part.
class BoundedText {
 public:
  explicit BoundedText(std::size_t limit) : limit_(limit / 2) {}
  void append(std::string_view text);
  std::string text() const;

 private:
  std::size_t limit_;  // of each half
  std::string head_;
  std::string tail_;
  std::size_t dropped_ = 0;
};

/// Splits a stream of `mpirun --tag-output` ("[1,3]<stderr>:text") into lines.
class LineSplitter {
 public:
  LineSplitter(bool error_stream, std::function<void(const OutputLine&)> sink)
      : error_stream_(error_stream), sink_(std::move(sink)) {}
  void feed(std::string_view bytes);
  /// Passes on a last line without a line end.
  void finish();

 private:
  void emit(std::string_view line) const;
  bool error_stream_;
  std::function<void(const OutputLine&)> sink_;
  std::string partial_;
};

/// "step 2 of 5", rank 0's line after every step: the step and the number of steps.
std::optional<std::pair<int, int>> step_of(const OutputLine& line);

/// True if a line of mpirun's own begins its report that a rank failed and that it ends the others.
bool says_that_a_rank_failed(std::string_view line);

/// Fills the known facts of a rank that failed when mpirun reported it and then did not end by itself.
void decode_hang(LaunchResult& result);

/// Fills ending, exit code, signal, culprit and rank from mpirun's wait status and its words in
/// `result.mpirun_output`.
void decode_ending(int wait_status, LaunchResult& result);

}  // namespace plumbline
