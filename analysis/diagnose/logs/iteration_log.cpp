#include "analysis/diagnose/logs/iteration_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <system_error>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kLongestLine = 16384;

/// The number at the begin of a text, behind blanks and signs of lists; commas between thousands are skipped.
std::optional<double> leading_number(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t:='");
  if (begin == text.npos) return std::nullopt;
  std::string digits;
  for (const char c : text.substr(begin, 40)) {
    if (c == ',' && !digits.empty()) continue;
    const bool part = (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E';
    if (!part) break;
    digits += c;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end == digits.data() || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// The number behind a key; nothing where the key is missing.
std::optional<double> number_after(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == line.npos) return std::nullopt;
  return leading_number(line.substr(at + key.size()));
}

double value_or_none(const std::optional<double>& value) {
  return value && *value >= 0 ? *value : kNone;
}

std::int64_t whole(const std::optional<double>& value) {
  return value && *value >= 0 && *value < 9e15 ? static_cast<std::int64_t>(*value) : -1;
}

bool read_megatron(std::string_view line, IterationLine& read) {
  if (line.find("elapsed time per iteration (ms):") == line.npos) return false;
  read.step_s = value_or_none(number_after(line, "elapsed time per iteration (ms):")) / 1e3;
  read.iteration = whole(number_after(line, "iteration "));
  read.tflops_per_gpu = value_or_none(number_after(line, "throughput per GPU (TFLOP/s/GPU):"));
  read.loss = value_or_none(number_after(line, "lm loss:"));
  return true;
}

bool read_nemo(std::string_view line, IterationLine& read) {
  constexpr std::string_view kStep = "train_step_timing in s";
  if (line.find(kStep) == line.npos) return false;
  read.step_s = value_or_none(number_after(line, kStep));
  read.iteration = whole(number_after(line, "global_step"));
  if (read.iteration < 0) read.iteration = whole(number_after(line, "iteration "));
  read.tflops_per_gpu = value_or_none(number_after(line, "TFLOPS_per_GPU"));
  read.loss = value_or_none(number_after(line, "reduced_train_loss"));
  return true;
}

bool read_titan(std::string_view line, IterationLine& read) {
  if (line.find("step:") == line.npos || line.find("tps:") == line.npos || line.find("loss:") == line.npos)
    return false;
  read.iteration = whole(number_after(line, "step:"));
  read.tokens_per_s = value_or_none(number_after(line, "tps:"));
  read.tflops_per_gpu = value_or_none(number_after(line, "tflops:"));
  read.loss = value_or_none(number_after(line, "loss:"));
  read.memory_bytes = value_or_none(number_after(line, "memory:")) * 1024 * 1024 * 1024;
  return true;
}

bool read_deepspeed(std::string_view line, IterationLine& read) {
  if (line.find("CurrSamplesPerSec=") != line.npos) {
    read.samples_per_s = value_or_none(number_after(line, "CurrSamplesPerSec="));
    read.iteration = whole(number_after(line, "global_step="));
    read.memory_bytes = value_or_none(number_after(line, "MaxMemAllocated=")) * 1024 * 1024 * 1024;
    return true;
  }
  if (line.find("iter time (s):") == line.npos) return false;
  read.step_s = value_or_none(number_after(line, "iter time (s):"));
  read.samples_per_s = value_or_none(number_after(line, "samples/sec:"));
  read.iteration = whole(number_after(line, "steps:"));
  read.loss = value_or_none(number_after(line, " loss:"));
  return true;
}

bool read_trainer(std::string_view line, IterationLine& read) {
  // tqdm: " 10/100 [00:12<01:50,  1.23s/it]", or "4.56it/s".
  const std::size_t comma = line.rfind(',');
  const std::size_t seconds = line.rfind("s/it]");
  const std::size_t rate = line.rfind("it/s]");
  const std::size_t end = seconds != line.npos ? seconds : rate;
  if (end == line.npos) return false;
  const std::size_t bracket = line.rfind('[', end);
  const std::size_t from = comma != line.npos && comma < end ? comma : bracket;
  if (bracket == line.npos || from == line.npos || from < bracket) return false;
  const auto value = leading_number(line.substr(from + 1, end - from - 1));
  if (!value || *value <= 0) return false;
  read.step_s = seconds != line.npos ? *value : 1 / *value;
  const std::size_t slash = line.rfind('/', bracket);
  if (slash != line.npos && slash > 0) {
    std::size_t begin = slash;
    while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
    read.iteration = whole(leading_number(line.substr(begin, slash - begin)));
  }
  return true;
}

struct LogFramework {
  std::string_view name;
  bool (*read)(std::string_view line, IterationLine& read);
};
constexpr LogFramework kLogFrameworks[] = {{"megatron-lm", read_megatron},
                                           {"nemo", read_nemo},
                                           {"torchtitan", read_titan},
                                           {"deepspeed", read_deepspeed},
                                           {"trainer", read_trainer}};

/// The line without the escapes that colour it.
std::string without_colours(std::string_view line) {
  std::string plain;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b' && i + 1 < line.size() && line[i + 1] == '[') {
      while (i < line.size() && (line[i] < '@' || line[i] == '[')) ++i;
      continue;
    }
    plain += line[i];
  }
  return plain;
}

}  // namespace

bool read_iteration(std::string_view line, IterationLine& read, std::string_view& framework) {
  const std::string plain = without_colours(line.substr(0, kLongestLine));
  for (const LogFramework& each : kLogFrameworks) {
    read = {-1, kNone, kNone, kNone, kNone, kNone, kNone};
    if (!each.read(plain, read)) continue;
    const bool timed = read.step_s > 0 || read.tokens_per_s > 0 || read.samples_per_s > 0;
    if (!timed) return false;
    framework = each.name;
    return true;
  }
  return false;
}

IterationLog read_iteration_log(const std::string& path) {
  const std::string origin = printable(path, 200);
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    throw InputError(fmt::format("--log: found no regular file {}, expected a training log", origin));
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(fmt::format("--log: found {} unreadable, expected a training log", origin));
  std::map<std::string_view, std::vector<IterationLine>> found;
  std::string line;
  std::size_t lines = 0;
  const auto take = [&] {
    IterationLine read{};
    std::string_view framework;
    if (!line.empty() && read_iteration(line, read, framework)) {
      if (++lines > kMostLogLines) {
        throw InputError(
            fmt::format("--log: found more than {} iterations in {}, expected fewer", kMostLogLines, origin));
      }
      found[framework].push_back(read);
    }
    line.clear();
  };
  // Progress bars write their lines over each other, with carriage returns between.
  constexpr std::size_t kRead = std::size_t{1} << 16;
  std::string block(kRead, '\0');
  while (file) {
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    const auto bytes = static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount()));
    for (const char c : std::string_view(block).substr(0, bytes)) {
      if (c == '\n' || c == '\r')
        take();
      else if (line.size() < kLongestLine)
        line += c;
    }
  }
  take();
  const auto most = std::max_element(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
  if (most == found.end()) {
    throw InputError(
        fmt::format("--log: found no iteration in {}, expected lines of Megatron-LM, NeMo, torchtitan, "
                    "DeepSpeed or Trainer",
                    origin));
  }
  return {std::string(most->first), std::move(most->second)};
}

}  // namespace plumbline
