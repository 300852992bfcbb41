// libFuzzer target: whatever the bytes, the readers of pickles and of torch.save's archives return what they read or
// throw InputError.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/base/error.hpp"
#include "core/checkpoints/pickle.hpp"
#include "core/checkpoints/torch_file.hpp"

namespace {

using namespace plumbline;

/// A file in memory under a name of its own.
const std::string& scratch_file() {
  static const std::string path = "/dev/shm/plumbline_checkpoints_fuzzer." + std::to_string(::getpid());
  return path;
}

void write_scratch(const std::uint8_t* data, std::size_t size) {
  static std::FILE* const file = std::fopen(scratch_file().c_str(), "w+b");
  if (file == nullptr) std::abort();
  std::rewind(file);
  if (::ftruncate(::fileno(file), 0) != 0 || std::fwrite(data, 1, size, file) != size ||
      std::fflush(file) != 0)
    std::abort();
}

/// Every byte of every tensor is there.
void touch(const TorchFile& file, std::string_view key) {
  volatile unsigned sum = 0;
  for (const auto& [name, tensor] : file.tensors(key)) {
    if (tensor.elements() * size_of(tensor.type) != static_cast<std::int64_t>(tensor.bytes.size()))
      std::abort();
    for (const std::byte each : tensor.bytes) sum = sum + std::to_integer<unsigned>(each);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::uint8_t what = data[0] % 2;
  ++data;
  --size;
  try {
    if (what == 0) {
      const Pickle pickle = read_pickle({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
      if (pickle.root >= pickle.values.size()) std::abort();
      return 0;
    }
    write_scratch(data, size);
    const TorchFile file(scratch_file());
    for (const std::string& key : file.keys()) {
      try {
        touch(file, key);
      } catch (const InputError&) {
        continue;
      }
    }
    touch(file, "");
  } catch (const InputError&) {
    return 0;
  }
  return 0;
}
