#include "core/files/npy_header.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

/// Reads the Python literal {'descr': '<i4', 'fortran_order': False, 'shape': (3, 4), }, and nothing else.
class DictReader {
 public:
  DictReader(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  NpyHeader read() {
    NpyHeader header;
    bool seen[3] = {};
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      const int which = key == "descr" ? 0 : key == "fortran_order" ? 1 : key == "shape" ? 2 : -1;
      if (which < 0 || seen[which]) fail(fmt::format("key '{}' unknown or given twice", printable(key)));
      seen[which] = true;
      if (which == 0) header.type = quoted();
      if (which == 1) header.fortran_order = boolean();
      if (which == 2) header.shape = tuple();
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (!seen[0] || !seen[1] || !seen[2]) fail("expected descr, fortran_order and shape");
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(fmt::format("{}: .npy header: {}", printable(path_, 400), what));
  }
  void skip_spaces() {
    while (!text_.empty() && text_.front() == ' ') text_.remove_prefix(1);
  }
  bool accept(char c) {
    skip_spaces();
    if (text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(fmt::format("expected '{}' before \"{}\"", c, printable(text_, 20)));
  }
  std::string quoted() {
    skip_spaces();
    const char quote = text_.empty() ? '\0' : text_.front();
    const std::size_t end = quote == '\'' || quote == '"' ? text_.find(quote, 1) : std::string_view::npos;
    if (end == std::string_view::npos)
      fail(fmt::format("expected a quoted text at \"{}\"", printable(text_, 20)));
    std::string value(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return value;
  }
  bool boolean() {
    skip_spaces();
    for (const std::string_view name : {"True", "False"}) {
      if (!text_.starts_with(name)) continue;
      text_.remove_prefix(name.size());
      return name == "True";
    }
    fail("fortran_order: expected True or False");
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> numbers;
    expect('(');
    while (!accept(')')) {
      skip_spaces();
      std::int64_t number = -1;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), number);
      if (error != std::errc() || number < 0) fail("shape: expected whole numbers from 0");
      text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
      numbers.push_back(number);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return numbers;
  }

  std::string_view text_;
  const std::string& path_;
};

}  // namespace

bool has_npy_magic(std::span<const std::byte> file) {
  return file.size() >= kMagic.size() && std::memcmp(file.data(), kMagic.data(), kMagic.size()) == 0;
}

NpyHeader parse_npy_header(std::span<const std::byte> file, const std::string& path) {
  const auto fail = [&](const std::string& what) {
    throw InputError(fmt::format("{}: .npy header: {}", printable(path, 400), what));
  };
  if (!has_npy_magic(file)) fail("missing; expected a file written by numpy.save");
  const std::size_t version = file.size() > kMagic.size() ? static_cast<std::size_t>(file[kMagic.size()]) : 0;
  if (version != 1 && version != 2) fail(fmt::format("version {}, supported are 1 and 2", version));
  const std::size_t length_at = kMagic.size() + 2;
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  if (file.size() < length_at + length_bytes) fail("truncated");
  std::uint32_t length = 0;
  std::memcpy(&length, file.data() + length_at, length_bytes);
  const std::size_t start = length_at + length_bytes;
  constexpr std::uint32_t kMaxHeader = 65536;
  if (length > kMaxHeader || length > file.size() - start) fail("truncated or longer than 65536 bytes");
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + start, length);
  NpyHeader header = DictReader(text, path).read();
  header.data_offset = start + length;
  return header;
}

}  // namespace plumbline
