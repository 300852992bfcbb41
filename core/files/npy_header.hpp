// The header of NumPy's array files (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace plumbline {

struct NpyHeader {
  std::string type;  // "<i4"
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
  std::size_t data_offset = 0;  // at most the file's length
};

bool has_npy_magic(std::span<const std::byte> file);

/// Versions 1 and 2. Throws InputError naming `path` when the header is truncated or not as NumPy writes it.
NpyHeader parse_npy_header(std::span<const std::byte> file, const std::string& path);

}  // namespace plumbline
