// The .metadata of torch.distributed.checkpoint: a checkpoint's tensors, and the places of their parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace plumbline {

/// A box of a tensor, [offsets, offsets + sizes), and the bytes [begin, begin + length) of a file in the
/// folder that hold it: a file of torch.save of its own.
struct DistributedChunk {
  std::vector<std::int64_t> offsets;
  std::vector<std::int64_t> sizes;
  std::string file;
  std::uint64_t begin = 0;
  std::uint64_t length = 0;
};

struct DistributedTensor {
  std::vector<std::int64_t> shape;
  std::vector<DistributedChunk> chunks;
};

/// Every tensor by name; other entries (states as bytes) are left out. `path` names the bytes in messages.
/// Throws InputError for another pickle, a box outside its tensor, given twice or in no file, a file that is
/// not in the folder, and bytes that were transformed before they were written.
std::map<std::string, DistributedTensor> read_distributed_metadata(std::span<const std::byte> bytes,
                                                                   const std::string& path);

/// True if the boxes of a tensor of at most four dimensions cover it without holes and overlaps. Every box
/// counts +1 or -1 at each of its corners; the cover is exact if the sum is nonzero only at the corners of
/// the whole.
bool covers_whole(const DistributedTensor& tensor);

}  // namespace plumbline
