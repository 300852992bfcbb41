#include "core/base/byte_text.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>

namespace plumbline {

std::string ByteUnit::of(Bytes bytes) const {
  return fmt::format("{:.{}f}", static_cast<double>(bytes.value) / static_cast<double>(size.value), digits);
}

ByteUnit readable_unit(double bytes) {
  return std::abs(bytes) < kBytesPerGiB ? ByteUnit{"MiB", kMiB, 2} : ByteUnit{"GiB", kGiB, 3};
}

std::string readable_bytes(double bytes) {
  const ByteUnit unit = readable_unit(bytes);
  return fmt::format("{:.{}f} {}", bytes / static_cast<double>(unit.size.value), unit.digits, unit.name);
}

std::string brief_bytes(Bytes bytes) {
  ByteUnit unit = readable_unit(static_cast<double>(bytes.value));
  unit.digits = 2;
  return fmt::format("{} {}", unit.of(bytes), unit.name);
}

std::string mebibytes(Bytes bytes) {
  return fmt::format("{:.4g} MiB", static_cast<double>(bytes.value) / static_cast<double>(kMiB.value));
}

ByteUnit column_unit(Bytes size) {
  if (size < kMiB) return {"KiB", kKiB};
  return size < kGiB ? ByteUnit{"MiB", kMiB} : ByteUnit{"GiB", kGiB};
}

std::string signed_digits(std::int64_t value) {
  std::string text = std::to_string(value < 0 ? -value : value);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<std::size_t>(at), 1, ' ');
  }
  return fmt::format("{}{}", value < 0 ? '-' : '+', text);
}

}  // namespace plumbline
