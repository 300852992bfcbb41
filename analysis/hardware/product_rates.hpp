// Rates of products by the type of their operands, from an accelerator's constants.
#pragma once

#include <string>

#include "analysis/hardware/device.hpp"
#include "analysis/silicon/product_model.hpp"

namespace plumbline::silicon {

struct TypeRate {
  double flops_per_s;  // of large products
  double operand_bytes;
};
/// bf16, fp8, fp8_block (scaled by the units where they can) or nvfp4. Throws InputError for any other type,
/// and for one that the accelerator lacks.
TypeRate rate_of(const Device& device, const std::string& type);

/// Bytes that quantizing an element moves: 2 for the largest value of a tensor, then 2 and the result.
double quantized_bytes(const std::string& type);

/// Quantizing, and the slower of arithmetic and memory, at the rates of large operators: without steps.
ProductModel product_model(const Device& device, const std::string& type);

}  // namespace plumbline::silicon
