// libFuzzer target: for any bytes, the readers of pickles, of torch.save's archives and of .metadata return a
// result or throw InputError. Everything is in memory: no file slows it down.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/base/error.hpp"
#include "core/checkpoints/distributed_metadata.hpp"
#include "core/checkpoints/pickle.hpp"
#include "core/checkpoints/torch_archive.hpp"

namespace {

using namespace plumbline;

/// Every byte of the tensor is there.
void touch(const StoredTensor& tensor) {
  volatile unsigned sum = 0;
  if (tensor.elements() * size_of(tensor.type) != static_cast<std::int64_t>(tensor.bytes.size()))
    std::abort();
  for (const std::byte each : tensor.bytes) sum = sum + std::to_integer<unsigned>(each);
}

void touch_all(const TorchArchive& archive, std::string_view key) {
  for (const auto& [name, tensor] : archive.tensors(key)) touch(tensor);
}

void read_archive(std::span<const std::byte> bytes) {
  const TorchArchive archive(bytes, "fuzz");
  try {
    touch(archive.only_tensor());
  } catch (const InputError&) {  // no single tensor
  }
  for (const std::string& key : archive.keys()) {
    try {
      touch_all(archive, key);
    } catch (const InputError&) {
      continue;
    }
  }
  touch_all(archive, "");
}

void read_metadata(std::span<const std::byte> bytes) {
  for (const auto& [name, tensor] : read_distributed_metadata(bytes, "fuzz")) {
    for (const DistributedChunk& chunk : tensor.chunks) {
      if (chunk.offsets.size() != tensor.shape.size() || chunk.sizes.size() != tensor.shape.size() ||
          chunk.file.empty() || chunk.file.find('/') != std::string::npos)
        std::abort();
    }
    covers_whole(tensor);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  try {
    switch (data[0] % 3) {
      case 0: {
        const Pickle pickle = read_pickle(bytes, "fuzz");
        if (pickle.root >= pickle.values.size()) std::abort();
        break;
      }
      case 1:
        read_archive(bytes);
        break;
      default:
        read_metadata(bytes);
        break;
    }
  } catch (const InputError&) {
    return 0;
  }
  return 0;
}
