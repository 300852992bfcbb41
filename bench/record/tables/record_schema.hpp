// The keys of the record as text: for results/record.schema.json and results/README.md.
#pragma once

#include <string>
#include <vector>

#include "bench/record/tables/fields.hpp"

namespace plumbline {

/// Every object of the record with its keys; the record first.
std::vector<ObjectText> record_objects();
/// results/record.schema.json: JSON Schema, a line per key.
std::string record_schema();

}  // namespace plumbline
