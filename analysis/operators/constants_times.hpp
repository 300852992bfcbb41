// The same times from an accelerator's constants alone, in seconds: for sizes and accelerators without a
// table. Throw InputError if the accelerator lacks the type.
#pragma once

#include "analysis/hardware/machine.hpp"
#include "analysis/operators/operator_shapes.hpp"

namespace plumbline::silicon {

double product_by_constants(const Device& device, const ProductShape& shape);
double attention_by_constants(const Device& device, const AttentionShape& shape);
double experts_by_constants(const Device& device, const ExpertsShape& shape);
double collective_by_constants(const Network& network, const CollectiveShape& shape);
double cast_by_constants(const Device& device, const CastShape& shape);
double exchange_by_constants(const Network& network, const ExchangeShape& shape);

/// The slower of arithmetic and memory, both at the rates of large operators: without steps.
double experts_roofline(const Device& device, const ExpertsShape& shape);

}  // namespace plumbline::silicon
