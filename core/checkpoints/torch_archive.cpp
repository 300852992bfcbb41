#include "core/checkpoints/torch_archive.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/files/safetensors_header.hpp"

namespace plumbline {
namespace {

constexpr std::string_view kPickle = "data.pkl";
constexpr std::size_t kMostDimensions = 8;

struct NamedStorage {
  std::string_view global;
  StoredType type;
};
constexpr NamedStorage kStorages[] = {{"torch FloatStorage", StoredType::fp32},
                                      {"torch BFloat16Storage", StoredType::bf16},
                                      {"torch HalfStorage", StoredType::fp16},
                                      {"torch IntStorage", StoredType::int32},
                                      {"torch LongStorage", StoredType::int64}};

/// The folder in the archive that holds the pickle; empty when there is none.
std::string archive_folder(const std::vector<ZipEntry>& entries) {
  for (const ZipEntry& entry : entries) {
    const std::size_t slash = entry.name.find('/');
    if (slash != std::string::npos && entry.name.substr(slash + 1) == kPickle)
      return entry.name.substr(0, slash + 1);
  }
  return "";
}

bool is_row_major(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides) {
  std::int64_t expected = 1;
  for (std::size_t i = shape.size(); i > 0; --i) {
    if (shape[i - 1] != 1 && strides[i - 1] != expected) return false;
    if (__builtin_mul_overflow(expected, shape[i - 1], &expected)) return false;
  }
  return true;
}

}  // namespace

TorchArchive::TorchArchive(std::span<const std::byte> bytes, std::string path) : path_(std::move(path)) {
  if (bytes.size() > 1 && bytes[0] == std::byte{0x80}) {
    throw InputError(fmt::format(
        "{}: a bare pickle, as torch.save wrote before PyTorch 1.6; expected a zip archive: load and save it "
        "again with a newer one",
        printable(path_, 400)));
  }
  std::vector<ZipEntry> entries = read_zip(bytes, path_);
  const std::string folder = archive_folder(entries);
  if (folder.empty()) {
    throw InputError(fmt::format("{}: a zip archive without {}; expected a file of torch.save",
                                 printable(path_, 400), kPickle));
  }
  for (const ZipEntry& entry : entries) {
    if (entry.name.starts_with(folder)) entries_.emplace(entry.name.substr(folder.size()), entry.bytes);
  }
  const auto order = entries_.find("byteorder");
  if (order != entries_.end() && std::string_view(reinterpret_cast<const char*>(order->second.data()),
                                                  order->second.size()) != "little") {
    throw InputError(
        fmt::format("{}: of a big-endian machine; expected little-endian tensors", printable(path_, 400)));
  }
  pickle_ = read_pickle(entries_.find(kPickle)->second, path_);
}

void TorchArchive::refuse(const std::string& name, const std::string& what) const {
  const std::string which = name.empty() ? "its tensor" : fmt::format("tensor \"{}\"", printable(name));
  throw InputError(fmt::format("{}: {}: {}", printable(path_, 400), which, what));
}

/// Alternating keys and values, of a dictionary or an ordered one.
const std::vector<std::uint32_t>& TorchArchive::entries_of(std::uint32_t value, std::string_view what) const {
  const PickleValue& found = pickle_[value];
  const bool ordered =
      found.kind == PickleKind::object && pickle_[found.called.front()].text == "collections OrderedDict";
  if ((!ordered && found.kind != PickleKind::dict) || found.items.size() % 2 != 0) {
    throw InputError(fmt::format("{}: {} is no dictionary; expected names and their tensors",
                                 printable(path_, 400), what));
  }
  return found.items;
}

std::vector<std::string> TorchArchive::keys() const {
  std::vector<std::string> names;
  const std::vector<std::uint32_t>& entries = entries_of(pickle_.root, "the file");
  names.reserve(entries.size() / 2);
  for (std::size_t i = 0; i < entries.size(); i += 2) {
    if (pickle_[entries[i]].kind == PickleKind::text) names.push_back(pickle_[entries[i]].text);
  }
  return names;
}

std::map<std::string, StoredTensor> TorchArchive::tensors(std::string_view key) const {
  std::uint32_t dictionary = pickle_.root;
  if (!key.empty()) {
    const std::vector<std::uint32_t>& top = entries_of(pickle_.root, "the file");
    std::size_t at = 0;
    while (at < top.size() && (pickle_[top[at]].kind != PickleKind::text || pickle_[top[at]].text != key))
      at += 2;
    if (at == top.size()) {
      throw InputError(fmt::format("{}: has no \"{}\"; it has {}", printable(path_, 400), key,
                                   printable(fmt::format("{}", fmt::join(keys(), ", ")), 200)));
    }
    dictionary = top[at + 1];
  }
  std::map<std::string, StoredTensor> found;
  const std::vector<std::uint32_t>& entries = entries_of(dictionary, key.empty() ? "the file" : key);
  for (std::size_t i = 0; i < entries.size(); i += 2) {
    const PickleValue& name = pickle_[entries[i]];
    const PickleValue* call = tensor_call(entries[i + 1]);
    if (name.kind != PickleKind::text || call == nullptr || name.text.ends_with("_extra_state")) continue;
    if (!found.emplace(name.text, tensor(*call, name.text)).second) refuse(name.text, "given twice");
  }
  return found;
}

StoredTensor TorchArchive::only_tensor() const {
  const PickleValue* const call = tensor_call(pickle_.root);
  if (call == nullptr)
    throw InputError(fmt::format("{}: holds something else than one tensor", printable(path_, 400)));
  return tensor(*call, "");
}

/// The call that makes a tensor of it; nullptr if it is none.
const PickleValue* TorchArchive::tensor_call(std::uint32_t value) const {
  const PickleValue* object = &pickle_[value];
  // A parameter is made of a tensor.
  for (int depth = 0; depth < 2; ++depth) {
    if (object->kind != PickleKind::object) return nullptr;
    const std::string& made_by = pickle_[object->called.front()].text;
    if (made_by == "torch._utils _rebuild_tensor_v2") return object;
    const PickleValue& arguments = pickle_[object->called[1]];
    if (made_by != "torch._utils _rebuild_parameter" || arguments.items.empty()) return nullptr;
    object = &pickle_[arguments.items.front()];
  }
  return nullptr;
}

std::vector<std::int64_t> TorchArchive::integers(std::uint32_t value, const std::string& name) const {
  const PickleValue* tuple = &pickle_[value];
  if (tuple->kind == PickleKind::object && pickle_[tuple->called.front()].text == "torch Size") {
    const PickleValue& arguments = pickle_[tuple->called[1]];
    if (!arguments.items.empty()) tuple = &pickle_[arguments.items.front()];
  }
  if (tuple->kind != PickleKind::tuple || tuple->items.size() > kMostDimensions)
    refuse(name, "a shape that is none");
  std::vector<std::int64_t> found;
  found.reserve(tuple->items.size());
  for (const std::uint32_t item : tuple->items) {
    if (pickle_[item].kind != PickleKind::integer || pickle_[item].integer < 0)
      refuse(name, "a shape that is none");
    found.push_back(pickle_[item].integer);
  }
  return found;
}

std::span<const std::byte> TorchArchive::storage(std::uint32_t reference, StoredType& type,
                                                 const std::string& name) const {
  const PickleValue& persistent = pickle_[reference];
  if (persistent.kind != PickleKind::persistent) refuse(name, "its bytes are not in the archive");
  const PickleValue& id = pickle_[persistent.items.front()];
  if (id.kind != PickleKind::tuple || id.items.size() != 5 || pickle_[id.items[0]].text != "storage")
    refuse(name, "a reference to its bytes that is none");
  const std::string& global = pickle_[id.items[1]].text;
  const auto* const known = std::find_if(std::begin(kStorages), std::end(kStorages),
                                         [&](const NamedStorage& each) { return each.global == global; });
  if (known == std::end(kStorages)) {
    refuse(name, fmt::format("elements of {}, expected torch.FloatStorage, BFloat16Storage or HalfStorage",
                             printable(global)));
  }
  type = known->type;
  const auto entry = entries_.find("data/" + pickle_[id.items[2]].text);
  if (entry == entries_.end())
    refuse(name, fmt::format("its bytes data/{} are missing", printable(pickle_[id.items[2]].text)));
  return entry->second;
}

StoredTensor TorchArchive::tensor(const PickleValue& call, const std::string& name) const {
  const PickleValue& arguments = pickle_[call.called[1]];
  if (arguments.kind != PickleKind::tuple || arguments.items.size() < 4)
    refuse(name, "made of what is no tensor");
  StoredTensor made;
  const std::span<const std::byte> bytes = storage(arguments.items[0], made.type, name);
  const PickleValue& offset = pickle_[arguments.items[1]];
  made.shape = integers(arguments.items[2], name);
  const std::vector<std::int64_t> strides = integers(arguments.items[3], name);
  const std::int64_t elements = elements_of(made.shape);
  if (offset.kind != PickleKind::integer || offset.integer < 0 || elements < 0 ||
      strides.size() != made.shape.size())
    refuse(name, "a shape that is none");
  if (!is_row_major(made.shape, strides)) {
    refuse(name, fmt::format("shape [{}] with strides [{}], expected a contiguous tensor",
                             fmt::join(made.shape, ", "), fmt::join(strides, ", ")));
  }
  const auto held = static_cast<std::int64_t>(bytes.size()) / size_of(made.type);
  if (offset.integer > held || elements > held - offset.integer) {
    refuse(name, fmt::format("{} elements from element {} of {} bytes: truncated", elements, offset.integer,
                             bytes.size()));
  }
  made.bytes = bytes.subspan(static_cast<std::size_t>(offset.integer * size_of(made.type)),
                             static_cast<std::size_t>(elements * size_of(made.type)));
  return made;
}

}  // namespace plumbline
