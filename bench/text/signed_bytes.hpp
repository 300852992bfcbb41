// How the out-of-memory table writes bytes.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/units.hpp"

namespace plumbline {

/// GiB, or less for small amounts.
struct ByteUnit {
  const char* name;
  Bytes size;
  std::string of(Bytes bytes) const {
    return fmt::format("{:.3f}", static_cast<double>(bytes.value) / static_cast<double>(size.value));
  }
};

/// For figures of about `size`.
inline ByteUnit unit_for(Bytes size) {
  if (size < kMiB) return {"KiB", kKiB};
  return size < kGiB ? ByteUnit{"MiB", kMiB} : ByteUnit{"GiB", kGiB};
}

/// With its sign and spaces between thousands: +1 234 567.
inline std::string digits(std::int64_t value) {
  std::string text = std::to_string(value < 0 ? -value : value);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<std::size_t>(at), 1, ' ');
  }
  return fmt::format("{}{}", value < 0 ? '-' : '+', text);
}

}  // namespace plumbline
