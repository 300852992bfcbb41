// Times and ratios as people read them; bytes: core/base/byte_text.hpp.
#pragma once

#include <string>

namespace plumbline {

/// "12.5 us", "3.42 ms", "1.702 s".
std::string readable_time(double seconds);
/// Four significant digits or all of a whole number's, commas between thousands, no exponent: "64,330",
/// "388", "0.06112".
std::string readable_number(double value);
/// Whole, with commas between thousands: "686,134".
std::string grouped_digits(double value);
/// The number with an SI prefix: "989.4 T", "1.5 µ".
std::string prefixed_number(double value);
/// A relative difference: "+1.3 %".
std::string readable_percent(double fraction);
/// The least of 1, 2, 5, 10, 20, … times a power of ten that is not below `least`: steps of an axis.
double round_step(double least);

}  // namespace plumbline
