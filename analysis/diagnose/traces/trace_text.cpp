#include "analysis/diagnose/traces/trace_text.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr unsigned kBlock = 1U << 18;

/// Bytes as the parser sees them.
constexpr std::array<char, 256> seen_bytes() {
  std::array<char, 256> seen{};
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const bool line = i == '\n' || i == '\r' || i == '\t';
    seen[i] = i >= 0x7f ? '?' : i < 0x20 && !line ? ' ' : static_cast<char>(i);
  }
  return seen;
}

constexpr std::array<char, 256> kSeen = seen_bytes();

}  // namespace

struct TraceText::File {
  gzFile gz = nullptr;
  std::array<char, kBlock> block{};
};

TraceText::TraceText(const std::string& path, std::string origin)
    : file_(std::make_unique<File>()), origin_(std::move(origin)) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status))
    throw InputError(fmt::format("{}: found no such file, expected a trace; change the path", origin_));
  if (!std::filesystem::is_regular_file(status))
    throw InputError(fmt::format("{}: found no regular file, expected a trace; change the path", origin_));
  file_->gz = gzopen(path.c_str(), "rb");
  if (file_->gz == nullptr)
    throw InputError(fmt::format("{}: found a file that cannot be opened, expected a trace", origin_));
  gzbuffer(file_->gz, kBlock);
}

TraceText::~TraceText() {
  if (file_->gz != nullptr) gzclose(file_->gz);
}

bool TraceText::fill() {
  const int bytes = gzread(file_->gz, file_->block.data(), kBlock);
  int error = Z_OK;
  gzerror(file_->gz, &error);
  if (bytes < 0 || (bytes == 0 && error != Z_OK && error != Z_STREAM_END)) {
    throw InputError(fmt::format("{}: found broken compression after {} bytes, expected a whole .gz file",
                                 origin_, read_));
  }
  if (bytes == 0) return false;
  read_ += bytes;
  if (read_ > kMostTraceBytes) {
    throw InputError(fmt::format("{}: found more than {} GiB of text, expected fewer; profile fewer steps",
                                 origin_, kMostTraceBytes >> 30));
  }
  std::int64_t since_quote = without_quote_;
  char before = before_;
  for (int i = 0; i < bytes; ++i) {
    char& c = file_->block[static_cast<std::size_t>(i)];
    c = kSeen[static_cast<unsigned char>(c)];
    since_quote = c == '"' && before != '\\' ? 0 : since_quote + 1;
    before = c;
  }
  before_ = before;
  without_quote_ = since_quote;
  if (without_quote_ > kLongestTraceText) {
    throw InputError(fmt::format("{}: found {} MiB of text without a quote, expected the JSON of a trace",
                                 origin_, kLongestTraceText >> 20));
  }
  next_ = file_->block.data();
  end_ = next_ + bytes;
  return true;
}

}  // namespace plumbline
