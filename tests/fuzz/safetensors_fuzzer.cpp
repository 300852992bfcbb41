// libFuzzer target: any folder of safetensors files with an index, and any single file, is read or throws
// InputError; every byte of every tensor is there. The input is the index, a line "---", and up to two files
// a.safetensors and b.safetensors, with such a line between them; without one it is a single file.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/base/error.hpp"
#include "core/files/safetensors.hpp"
#include "tests/fuzz/scratch_files.hpp"

namespace {

using namespace plumbline;

void touch(const TensorFile& file) {
  volatile unsigned sum = 0;
  for (const std::string& name : file.names()) {
    const StoredTensor& tensor = file.get(name);
    if (tensor.elements() * size_of(tensor.type) != static_cast<std::int64_t>(tensor.bytes.size()))
      std::abort();
    for (const std::byte each : tensor.bytes) sum = sum + std::to_integer<unsigned>(each);
    if (tensor.no_weights().empty() && tensor.elements() > 0) (void)tensor.at(tensor.elements() - 1);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::vector<std::string> parts = fuzz::parts_of(data, size);
  const bool single = parts.size() == 1;
  constexpr const char* kNames[] = {"index/model.safetensors.index.json", "index/a.safetensors",
                                    "index/b.safetensors"};
  for (std::size_t i = 0; i < std::size(kNames) && !single; ++i)
    fuzz::scratch().write(kNames[i], i < parts.size() ? parts[i] : "");
  const std::string path =
      single ? fuzz::scratch().write("single.safetensors", parts.front()) : fuzz::scratch().at("index");
  try {
    touch(TensorFile(path));
  } catch (const InputError&) {
  }
  return 0;
}
