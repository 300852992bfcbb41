// Zip archives of stored entries, as PyTorch writes them; read through minizip, trusting nothing.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace plumbline {

struct ZipEntry {
  std::string name;
  std::span<const std::byte> bytes;  // in the archive
};

/// Every entry, in the order of the archive's directory; `path` names the file in messages. Throws InputError
/// when it is no zip or is truncated, and for entries that overlap, repeat a name, or have a name that leads
/// out of the archive. Also for compressed or encrypted ones: PyTorch has none, and a small file cannot
/// become a large one. Checksums are not checked.
std::vector<ZipEntry> read_zip(std::span<const std::byte> file, const std::string& path);

}  // namespace plumbline
