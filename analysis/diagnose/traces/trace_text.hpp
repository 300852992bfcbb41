// Bytes of a trace, plain or compressed, a block at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>

namespace plumbline {

inline constexpr std::int64_t kMostTraceBytes = std::int64_t{16} << 30;  // decompressed
inline constexpr std::int64_t kLongestTraceText = std::int64_t{16} << 20;

/// A file or its decompressed bytes. Bytes that are not ASCII become '?', and control characters blanks:
/// names of kernels in traces are not always UTF-8.
class TraceText {
 public:
  /// Throws InputError when the file is missing, no regular file or unreadable.
  TraceText(const std::string& path, std::string origin);
  ~TraceText();
  TraceText(const TraceText&) = delete;
  TraceText& operator=(const TraceText&) = delete;

  /// True if there is another byte. Throws InputError for broken compression, for more bytes than
  /// kMostTraceBytes, and for kLongestTraceText without a quote.
  bool more() { return next_ < end_ || fill(); }
  char peek() const { return *next_; }
  void skip() { ++next_; }

 private:
  bool fill();

  struct File;
  std::unique_ptr<File> file_;
  std::string origin_;
  const char* next_ = nullptr;
  const char* end_ = nullptr;
  std::int64_t read_ = 0;
  std::int64_t without_quote_ = 0;
  char before_ = ' ';
};

/// One pass over a TraceText, for parsers that take iterators.
class TraceTextIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  TraceTextIterator() = default;
  explicit TraceTextIterator(TraceText& text) : text_(&text) {}
  char operator*() const { return text_->peek(); }
  TraceTextIterator& operator++() {
    text_->skip();
    return *this;
  }
  TraceTextIterator operator++(int) {
    const TraceTextIterator before = *this;
    text_->skip();
    return before;
  }
  friend bool operator==(const TraceTextIterator& a, const TraceTextIterator& b) {
    return a.at_end() == b.at_end();
  }
  friend bool operator!=(const TraceTextIterator& a, const TraceTextIterator& b) { return !(a == b); }

 private:
  bool at_end() const { return text_ == nullptr || !text_->more(); }

  TraceText* text_ = nullptr;
};

}  // namespace plumbline
