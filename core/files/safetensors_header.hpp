// The JSON header of a safetensors file, checked against the length of the file's data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/stored_type.hpp"

namespace plumbline {

/// A tensor's place in the data that follows the header.
struct HeaderEntry {
  std::string name;
  StoredType type = StoredType::fp32;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Elements of a shape, or -1 when the count (or a size) overflows or is negative.
std::int64_t elements_of(const std::vector<std::int64_t>& shape);

/// Parses `json` and checks every entry: known type, shape and offsets that agree, names given once, the data
/// [0, data_bytes) covered without overlap or hole. Throws InputError naming `file` and the tensor.
std::vector<HeaderEntry> parse_safetensors_header(std::string_view json, std::int64_t data_bytes,
                                                  const std::string& file);

}  // namespace plumbline
