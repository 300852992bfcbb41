// Drawing of progress.
#include "bench/show/text/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "core/base/one_line.hpp"
#include "core/base/standard_streams.hpp"

namespace plumbline {
namespace {

constexpr int kBarWidth = 24;
constexpr int kDefaultWidth = 80;
constexpr std::size_t kLongestCell = 300;
constexpr std::chrono::milliseconds kRedraw{200};
constexpr std::chrono::seconds kPatience{1};
constexpr std::chrono::seconds kBetweenLines{10};

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

std::string readable_duration(double seconds) {
  const auto whole = static_cast<long long>(std::ceil(std::clamp(seconds, 0.0, 1e9)));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

int terminal_width(std::FILE* out) {
  winsize size{};
  if (isatty(fileno(out)) == 0 || ioctl(fileno(out), TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

Progress::Progress(int total, int done_before, std::FILE* out)
    : Progress(total, done_before, out, out != nullptr && isatty(fileno(out)) != 0) {}

Progress::Progress(int total, int done_before, std::FILE* out, bool terminal)
    : total_(total), done_(done_before), done_before_(done_before), out_(out), terminal_(terminal) {}

Progress::~Progress() {
  clear();
}

void Progress::begin(const std::string& cell) {
  cell_ = printable(cell, kLongestCell);
  cell_started_ = Clock::now();
  draw();
}

void Progress::update(int done, int total, const std::string& what) {
  done_ = done;
  total_ = total;
  cell_ = what;
  const Clock::time_point now = Clock::now();
  if (terminal_) {
    if (now - started_ > kPatience && now - drawn_ > kRedraw) draw();
    if (done_ >= total_) clear();
  } else if (now - drawn_ > kBetweenLines && done_ < total_) {
    drawn_ = now;
    const std::string remaining = left();
    say(fmt::format("[{}/{}] {}{}", done_, total_, cell_, remaining.empty() ? "" : ", " + remaining));
  }
}

void Progress::show(const std::string& what) {
  cell_ = what;
  draw();
}

void Progress::tick() {
  if (Clock::now() - drawn_ > kRedraw) draw();
}

void Progress::end(std::string_view outcome) {
  ++done_;
  const double took = seconds_between(cell_started_, Clock::now());
  const std::string remaining = left();
  say(fmt::format("[{}/{}] {}: {} ({:.1f} s){}", done_, total_, cell_, outcome, took,
                  remaining.empty() ? "" : ", " + remaining));
  draw();
}

void Progress::say(std::string_view line) {
  if (out_ == nullptr) return;
  clear();
  plumbline::say(fmt::format("{}\n", one_line(line)), out_);
}

std::string Progress::left() const {
  const int worked = done_ - done_before_;
  if (worked == 0 || done_ >= total_) return "";
  const double each = seconds_between(started_, Clock::now()) / worked;
  return fmt::format("about {} left", readable_duration(each * (total_ - done_)));
}

void Progress::draw() {
  if (!terminal_ || done_ >= total_) return;
  drawn_ = Clock::now();
  const int filled = total_ > 0 ? static_cast<int>(static_cast<long long>(kBarWidth) * done_ / total_) : 0;
  const std::string remaining = left();
  std::string line = fmt::format("[{}{}] {}/{} {} {}", std::string(static_cast<std::size_t>(filled), '#'),
                                 std::string(static_cast<std::size_t>(kBarWidth - filled), '.'), done_,
                                 total_, remaining.empty() ? "" : remaining + ",", cell_);
  line += fmt::format(" {:.0f} s", seconds_between(cell_started_, drawn_));
  const int width = terminal_width(out_);
  // One column stays free: a full line would wrap and could not be taken back.
  line.resize(std::min(line.size(), static_cast<std::size_t>((width > 0 ? width : kDefaultWidth) - 1)));
  plumbline::say(fmt::format("\r\033[K{}", line), out_);
}

void Progress::clear() {
  if (!terminal_) return;
  plumbline::say("\r\033[K", out_);
}

}  // namespace plumbline
