// Bytes as people read them.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/units.hpp"

namespace plumbline {

/// A unit of bytes, and how many digits of it follow the point.
struct ByteUnit {
  const char* name;
  Bytes size;
  int digits = 3;

  /// The figure alone: "12.500".
  std::string of(Bytes bytes) const;
};

/// MiB with two digits below a GiB, GiB with three from there on, by the absolute size.
ByteUnit readable_unit(double bytes);

/// "12.50 MiB" below a GiB, "1.234 GiB" from there on.
std::string readable_bytes(double bytes);
/// "12.50 MiB" and "1.23 GiB".
std::string brief_bytes(Bytes bytes);

/// "160 MiB", "0.5 MiB": four significant digits at most, as budgets are given.
std::string mebibytes(Bytes bytes);

/// One unit for a column of figures of about `size`, three digits each: KiB, MiB or GiB.
ByteUnit column_unit(Bytes size);

/// Every digit with its sign, spaces between thousands: "+1 234 567".
std::string signed_digits(std::int64_t value);

}  // namespace plumbline
