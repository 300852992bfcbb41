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

/// Every entry, in the order of the archive's directory; `path` stands for the file in messages. Throws InputError when it
/// is no zip or is truncated, and for entries that are compressed or encrypted (PyTorch has none, and a small file
/// cannot become a large one), overlap each other, have one name, or a name that leads out of the archive. Checksums
/// are not looked at.
std::vector<ZipEntry> read_zip(std::span<const std::byte> file, const std::string& path);

}  // namespace plumbline
