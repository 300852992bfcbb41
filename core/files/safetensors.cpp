#include "core/files/safetensors.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <set>

#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/text_input.hpp"
#include "core/files/block_scales.hpp"
#include "core/files/safetensors_header.hpp"

namespace plumbline {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor files are little-endian");

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr std::size_t kMaxIndexBytes = std::size_t{16} << 20;

/// A shard's name is a plain file name: it cannot lead out of the folder.
bool is_plain_file_name(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.find_first_of("/\\") == std::string::npos &&
         name.find('\0') == std::string::npos && name.ends_with(".safetensors");
}

}  // namespace

TensorFile::TensorFile(const std::string& file_or_folder) : path_(file_or_folder) {
  add_all(file_or_folder);
  attach_block_scales(path_, tensors_);
}

void TensorFile::add_all(const std::string& file_or_folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(file_or_folder, error)) {
    add_file(file_or_folder);
    return;
  }
  const fs::path folder(file_or_folder);
  const fs::path single = folder / "model.safetensors";
  const fs::path index = folder / "model.safetensors.index.json";
  if (fs::exists(single, error)) {
    add_file(single.string());
  } else if (fs::exists(index, error)) {
    add_shards(file_or_folder, index.string());
  } else {
    throw InputError(
        fmt::format("{}: holds neither model.safetensors nor model.safetensors.index.json; expected a "
                    "Hugging Face checkpoint",
                    printable(file_or_folder, 400)));
  }
}

void TensorFile::add_file(const std::string& file) {
  MappedFile mapped(file);
  const std::span<const std::byte> bytes = mapped.bytes();
  constexpr std::size_t kLengthBytes = 8;
  if (bytes.size() < kLengthBytes) {
    throw InputError(fmt::format("{}: {} bytes long, expected the 8 bytes of a header length at least", file,
                                 bytes.size()));
  }
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  const std::uint64_t rest = bytes.size() - kLengthBytes;
  if (header_bytes > kMaxHeaderBytes || header_bytes > rest) {
    throw InputError(fmt::format(
        "{}: header length {}, expected at most {} and no more than the {} bytes that follow; the "
        "file is truncated or no safetensors file",
        file, header_bytes, kMaxHeaderBytes, rest));
  }
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes,
                                static_cast<std::size_t>(header_bytes));
  const std::span<const std::byte> data = bytes.subspan(kLengthBytes + header.size());
  for (HeaderEntry& entry : parse_safetensors_header(header, static_cast<std::int64_t>(data.size()), file)) {
    StoredTensor tensor{entry.type, std::move(entry.shape),
                        data.subspan(static_cast<std::size_t>(entry.begin),
                                     static_cast<std::size_t>(entry.end - entry.begin))};
    if (!tensors_.emplace(entry.name, std::move(tensor)).second) {
      throw InputError(
          fmt::format("{}: tensor \"{}\": given by another shard too", file, printable(entry.name)));
    }
  }
  files_.push_back(std::move(mapped));
}

void TensorFile::add_shards(const std::string& folder, const std::string& index_file) {
  const Json index = parse_json_object(read_text_file(index_file, kMaxIndexBytes), index_file, 4);
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object()) {
    throw InputError(fmt::format("{}: weight_map: expected a mapping of tensors to files", index_file));
  }
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string() || !is_plain_file_name(shard.get<std::string>())) {
      throw InputError(
          fmt::format("{}: weight_map: tensor \"{}\": found {}, expected the name of a .safetensors file in "
                      "the same folder",
                      index_file, printable(tensor), JsonKeys::shown(shard)));
    }
    shards.insert(shard.get<std::string>());
  }
  for (const std::string& shard : shards) {
    const std::string file = (std::filesystem::path(folder) / shard).string();
    std::set<std::string> before;
    for (const auto& [name, tensor] : tensors_) before.insert(name);
    add_file(file);
    for (const auto& [name, tensor] : tensors_) {
      if (before.contains(name)) continue;
      const auto mapped = map->find(name);
      if (mapped == map->end() || mapped->get<std::string>() != shard) {
        throw InputError(fmt::format("{}: tensor \"{}\": weight_map of {} does not put it there", file,
                                     printable(name), index_file));
      }
    }
  }
  for (const auto& [tensor, shard] : map->items()) {
    if (!tensors_.contains(tensor)) {
      throw InputError(fmt::format("{}: weight_map: tensor \"{}\" is not in {}", index_file,
                                   printable(tensor), JsonKeys::shown(shard)));
    }
  }
}

std::vector<std::string> TensorFile::names() const {
  std::vector<std::string> names;
  names.reserve(tensors_.size());
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

const StoredTensor* TensorFile::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

const StoredTensor& TensorFile::get(const std::string& name) const {
  if (const StoredTensor* tensor = find(name)) return *tensor;
  std::vector<std::string_view> known;
  for (const auto& [existing, tensor] : tensors_) known.push_back(existing);
  throw InputError(fmt::format("{}: tensor \"{}\": missing; the nearest name is \"{}\"", path_,
                               printable(name), printable(nearest_name(name, known))));
}

}  // namespace plumbline
