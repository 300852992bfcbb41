// 8-bit floating point numbers written out once more, from table 1 of Micikevicius et al. 2022,
// arXiv:2209.05433: values by powers of two in double, codes by comparison with every value.
#pragma once

#include <cstdint>

#include "core/tensor/dtype.hpp"

namespace plumbline::test {

/// The value of a code.
double fp8_value(DType type, std::uint8_t code);
/// The code whose finite value is nearest, of two the even one; 0x7F for NaN.
std::uint8_t fp8_code(DType type, double value);

}  // namespace plumbline::test
