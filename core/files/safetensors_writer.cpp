// Writes safetensors files: all sizes are known before the first byte, so tensors may come in any order.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>

#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/files/safetensors.hpp"
#include "core/files/safetensors_header.hpp"

namespace plumbline {
namespace {

void write_at(int file, const void* data, std::size_t bytes, std::int64_t offset, const std::string& path) {
  constexpr std::size_t kChunk = std::size_t{1} << 30;  // a single call writes less than 2 GiB
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::pwrite(file, from, std::min(bytes, kChunk), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      throw OutputError(
          fmt::format("{}: cannot be written at byte {}: {}", path, offset, std::strerror(errno)));
    }
    from += written;
    bytes -= static_cast<std::size_t>(written);
    offset += written;
  }
}

}  // namespace

TensorFileWriter::TensorFileWriter(std::string path, std::vector<Entry> entries) : path_(std::move(path)) {
  // Widest elements first keeps every tensor aligned to its element size.
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return size_of(a.type) > size_of(b.type); });
  // Readers of checkpoints look for the format that the tensors were saved from before they trust names and
  // layouts; ours are PyTorch's.
  std::string header = R"({"__metadata__":{"format":"pt"})";
  std::int64_t offset = 0;
  for (const Entry& entry : entries) {
    const std::int64_t elements = elements_of(entry.shape);
    std::int64_t bytes = 0;
    std::int64_t end = 0;
    if (elements < 0 || __builtin_mul_overflow(elements, size_of(entry.type), &bytes) ||
        __builtin_add_overflow(offset, bytes, &end)) {
      throw InputError(fmt::format("{}: tensor \"{}\": shape [{}] overflows", path_, printable(entry.name),
                                   fmt::join(entry.shape, ", ")));
    }
    if (!slots_.emplace(entry.name, Slot{offset, bytes}).second) {
      throw InputError(fmt::format("{}: tensor \"{}\": given twice", path_, printable(entry.name)));
    }
    header += fmt::format(R"(,{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                          nlohmann::json(entry.name).dump(), name_of(entry.type), fmt::join(entry.shape, ","),
                          offset, end);
    offset = end;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');

  try {
    partial_.emplace(path_);
  } catch (const std::system_error& error) {
    throw OutputError(fmt::format("{}: cannot be written: {}; expected a path in a writable folder", path_,
                                  std::strerror(error.code().value())));
  }
  const int file = partial_->descriptor();
  const std::uint64_t length = header.size();
  write_at(file, &length, sizeof length, 0, path_);
  write_at(file, header.data(), header.size(), sizeof length, path_);
  for (auto& [name, slot] : slots_)
    slot.offset += static_cast<std::int64_t>(sizeof(std::uint64_t) + header.size());
}

TensorFileWriter::Slot& TensorFileWriter::slot(const std::string& name) {
  const auto found = slots_.find(name);
  if (found == slots_.end() || !partial_) {
    throw Error(fmt::format("{}: tensor \"{}\" was not announced", path_, printable(name)));
  }
  return found->second;
}

void TensorFileWriter::write(const std::string& name, std::span<const std::byte> bytes) {
  Slot& whole = slot(name);
  if (static_cast<std::int64_t>(bytes.size()) != whole.bytes) {
    throw Error(fmt::format("{}: tensor \"{}\": found {} bytes, announced were {}", path_, printable(name),
                            bytes.size(), whole.bytes));
  }
  whole.written = 0;
  append(name, bytes);
}

void TensorFileWriter::append(const std::string& name, std::span<const std::byte> bytes) {
  Slot& part = slot(name);
  const auto count = static_cast<std::int64_t>(bytes.size());
  if (count > part.bytes - part.written) {
    throw Error(fmt::format("{}: tensor \"{}\": found {} bytes, announced were {}", path_, printable(name),
                            part.written + count, part.bytes));
  }
  write_at(partial_->descriptor(), bytes.data(), bytes.size(), part.offset + part.written, path_);
  part.written += count;
  part.whole = part.written == part.bytes;
}

void TensorFileWriter::finish() {
  for (const auto& [name, slot] : slots_) {
    if (!slot.whole) throw Error(fmt::format("{}: tensor \"{}\" was not written", path_, printable(name)));
  }
  if (!partial_) throw Error(fmt::format("{}: already finished", path_));
  try {
    if (::fsync(partial_->descriptor()) != 0) throw std::system_error(errno, std::generic_category());
    partial_->commit();
    partial_.reset();
  } catch (const std::system_error& error) {
    partial_.reset();
    throw OutputError(fmt::format("{}: cannot be written: {}", path_, std::strerror(error.code().value())));
  }
}

}  // namespace plumbline
