#include <limits>

#include "core/checkpoints/pickle.hpp"

namespace plumbline {
namespace {

void append_little(std::string& text, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
}

}  // namespace

PickleWriter::PickleWriter() : text_("\x80\x02") {}

void PickleWriter::integer(std::int64_t value) {
  if (value >= std::numeric_limits<std::int32_t>::min() &&
      value <= std::numeric_limits<std::int32_t>::max()) {
    text_ += 'J';
    append_little(text_, static_cast<std::uint64_t>(value), 4);
  } else {
    text_ += "\x8a\x08";
    append_little(text_, static_cast<std::uint64_t>(value), 8);
  }
}

void PickleWriter::text(std::string_view value) {
  text_ += 'X';
  append_little(text_, value.size(), 4);
  text_ += value;
}

void PickleWriter::global(std::string_view module, std::string_view name) {
  text_ += 'c';
  text_ += module;
  text_ += '\n';
  text_ += name;
  text_ += '\n';
}

void PickleWriter::integers(const std::vector<std::int64_t>& values) {
  begin_tuple();
  for (const std::int64_t value : values) integer(value);
  end_tuple();
}

std::string PickleWriter::finish() {
  text_ += '.';
  return text_;
}

}  // namespace plumbline
