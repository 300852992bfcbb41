// Progress of a job: a bar with the time left on a terminal, lines otherwise.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>

namespace plumbline {

class Progress {
 public:
  /// `total` pieces, `done_before` of which need no work. Draws on `out`, a bar when it is a terminal;
  /// nothing at all, not even messages, when it is null.
  Progress(int total, int done_before, std::FILE* out = stderr);
  Progress(int total, int done_before, std::FILE* out, bool terminal);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void begin(const std::string& cell);
  /// For jobs that only count: `done` of `total` pieces of `what`. A bar appears once the job has taken a
  /// second; without a terminal, an occasional line in long jobs.
  void update(int done, int total, const std::string& what);
  /// Other words for the pieces of update(), drawn at once.
  void show(const std::string& what);
  /// Redraws a bar; call as often as you like.
  void tick();
  /// The cell that was begun is done; `outcome` is "ok" or a status with its reason.
  void end(std::string_view outcome);
  /// A line that stays.
  void say(std::string_view line);

 private:
  using Clock = std::chrono::steady_clock;
  std::string left() const;
  void draw();
  void clear();

  int total_;
  int done_;
  int done_before_;
  std::FILE* out_;
  bool terminal_;
  std::string cell_;
  Clock::time_point started_ = Clock::now();
  Clock::time_point cell_started_ = started_;
  Clock::time_point drawn_ = started_;
};

/// "42 s", "3 min 10 s", "2 h 05 min".
std::string readable_duration(double seconds);
/// Columns of the terminal behind `out`, 0 when it is none or the width is unknown.
int terminal_width(std::FILE* out);

}  // namespace plumbline
