#include "core/checkpoints/distributed_metadata.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/checkpoints/pickle.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMostAxes = 8;
constexpr std::size_t kCoveredAxes = 4;
// Values may be shared, so that a small file can be a large one.
constexpr std::size_t kMostStates = 4;  // of an object
constexpr std::size_t kMostMembers = 64;
constexpr std::size_t kMostParts = std::size_t{1} << 21;
using Sizes = std::vector<std::int64_t>;

/// Place where a box of a tensor is stored, by the tensor's name and the box's offsets.
struct StoredPlace {
  std::string file;
  std::int64_t begin = 0;
  std::int64_t length = 0;
};
using StoredPlaces = std::map<std::pair<std::string, Sizes>, StoredPlace>;

/// The pickle is that of an object whose members are dictionaries of objects.
class DistributedMetadata {
 public:
  DistributedMetadata(std::span<const std::byte> bytes, const std::string& path)
      : path_(printable(path, 400)), pickle_(read_pickle(bytes, path)) {}

  std::map<std::string, DistributedTensor> tensors() const {
    const StoredPlaces places = stored_places();
    std::map<std::string, DistributedTensor> found;
    std::size_t parts = 0;
    for (const auto& [key, value] : entries(member(pickle_.root, "state_dict_metadata"))) {
      if (!is_made_by(value, "TensorStorageMetadata")) continue;
      const std::string& name = text(key, "a name");
      parts += pickle_[member(value, "chunks")].items.size();
      if (parts > kMostParts) fail(fmt::format("more than {} parts of tensors", kMostParts));
      if (!found.emplace(name, tensor(name, value, places)).second) refuse(name, "given twice");
    }
    return found;
  }

 private:
  using Index = std::uint32_t;
  static constexpr Index kNothing = ~Index{0};

  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(fmt::format("{}: {}; expected what torch.distributed.checkpoint writes", path_, what));
  }
  [[noreturn]] void refuse(const std::string& name, const std::string& what) const {
    throw InputError(fmt::format("{}: tensor \"{}\": {}", path_, printable(name, 200), what));
  }

  bool is_made_by(Index value, std::string_view type) const {
    const PickleValue& object = pickle_[value];
    return object.kind == PickleKind::object && pickle_[object.called.front()].text.ends_with(type);
  }
  /// Keys and values.
  std::vector<std::pair<Index, Index>> entries(Index value) const {
    const PickleValue& dictionary = pickle_[value];
    if (dictionary.kind != PickleKind::dict) fail("members that are no dictionary");
    std::vector<std::pair<Index, Index>> found;
    found.reserve(dictionary.items.size() / 2);
    for (std::size_t i = 0; i + 1 < dictionary.items.size(); i += 2)
      found.emplace_back(dictionary.items[i], dictionary.items[i + 1]);
    return found;
  }
  /// Member of an object; kNothing if it is absent or None.
  Index find_member(Index value, std::string_view name) const {
    const PickleValue& object = pickle_[value];
    if (object.kind != PickleKind::object || object.called.size() > 2 + kMostStates)
      fail("no object where there should be one");
    for (std::size_t i = 2; i < object.called.size(); ++i) {
      const PickleValue& state = pickle_[object.called[i]];
      if (state.kind != PickleKind::dict) continue;
      if (state.items.size() > 2 * kMostMembers) fail("an object of too many members");
      for (const auto& [key, held] : entries(object.called[i])) {
        if (pickle_[key].kind == PickleKind::text && pickle_[key].text == name)
          return pickle_[held].kind == PickleKind::none ? kNothing : held;
      }
    }
    return kNothing;
  }
  Index member(Index value, std::string_view name) const {
    const Index found = find_member(value, name);
    if (found == kNothing) fail(fmt::format("an object without {}", name));
    return found;
  }
  const std::string& text(Index value, std::string_view what) const {
    if (pickle_[value].kind != PickleKind::text) fail(fmt::format("{} that is no text", what));
    return pickle_[value].text;
  }
  std::int64_t count(Index value, std::string_view what) const {
    const PickleValue& number = pickle_[value];
    if (number.kind != PickleKind::integer || number.integer < 0)
      fail(fmt::format("{} that is no count", what));
    return number.integer;
  }
  /// A torch.Size, or a tuple.
  Sizes sizes(Index value) const {
    const PickleValue* tuple = &pickle_[value];
    if (is_made_by(value, "torch Size")) {
      const PickleValue& arguments = pickle_[tuple->called[1]];
      if (!arguments.items.empty()) tuple = &pickle_[arguments.items.front()];
    }
    if (tuple->kind != PickleKind::tuple || tuple->items.size() > kMostAxes) fail("a shape that is none");
    Sizes found;
    found.reserve(tuple->items.size());
    for (const Index item : tuple->items) found.push_back(count(item, "a size"));
    return found;
  }

  StoredPlaces stored_places() const {
    StoredPlaces places;
    for (const auto& [key, value] : entries(member(pickle_.root, "storage_data"))) {
      const Index offset = find_member(key, "offset");
      if (offset == kNothing) continue;  // no tensor
      const std::string& name = text(member(key, "fqn"), "a name");
      if (find_member(value, "transform_descriptors") != kNothing)
        refuse(name, "transformed before it was written (compressed, say); expected its bytes as they are");
      StoredPlace place{text(member(value, "relative_path"), "a file"),
                        count(member(value, "offset"), "a place in a file"),
                        count(member(value, "length"), "a length")};
      if (place.file.empty() || place.file.front() == '.' ||
          place.file.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos) {
        refuse(name, fmt::format("is in \"{}\", expected the name of a file in the same folder",
                                 printable(place.file)));
      }
      if (!places.emplace(std::pair(name, sizes(offset)), std::move(place)).second)
        refuse(name, fmt::format("has two parts at [{}]", fmt::join(sizes(offset), ", ")));
    }
    return places;
  }

  DistributedTensor tensor(const std::string& name, Index value, const StoredPlaces& places) const {
    DistributedTensor made;
    made.shape = sizes(member(value, "size"));
    const PickleValue& chunks = pickle_[member(value, "chunks")];
    if (chunks.kind != PickleKind::list) refuse(name, "has no list of parts");
    made.chunks.reserve(chunks.items.size());
    for (const Index item : chunks.items) {
      DistributedChunk chunk;
      chunk.offsets = sizes(member(item, "offsets"));
      chunk.sizes = sizes(member(item, "sizes"));
      const auto shown = [&] {
        return fmt::format("the part of [{}] at [{}]", fmt::join(chunk.sizes, ", "),
                           fmt::join(chunk.offsets, ", "));
      };
      if (!lies_in(chunk, made.shape)) {
        refuse(name, fmt::format("{} does not lie in its [{}]", shown(), fmt::join(made.shape, ", ")));
      }
      const auto place = places.find({name, chunk.offsets});
      if (place == places.end()) refuse(name, fmt::format("{} is in no file", shown()));
      chunk.file = place->second.file;
      chunk.begin = static_cast<std::uint64_t>(place->second.begin);
      chunk.length = static_cast<std::uint64_t>(place->second.length);
      made.chunks.push_back(std::move(chunk));
    }
    return made;
  }

  static bool lies_in(const DistributedChunk& chunk, const Sizes& shape) {
    if (chunk.offsets.size() != shape.size() || chunk.sizes.size() != shape.size()) return false;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (chunk.sizes[i] > shape[i] || chunk.offsets[i] > shape[i] - chunk.sizes[i]) return false;
    }
    return true;
  }

  std::string path_;
  Pickle pickle_;
};

using Corner = std::array<std::int64_t, kCoveredAxes>;

/// `sign` times the box's corners.
void add_corners(const Sizes& offsets, const Sizes& sizes, int sign,
                 std::vector<std::pair<Corner, int>>& corners) {
  for (std::size_t which = 0; which < (std::size_t{1} << offsets.size()); ++which) {
    Corner corner{};
    int here = sign;
    for (std::size_t axis = 0; axis < offsets.size(); ++axis) {
      const bool far = (which >> axis & 1U) != 0;
      corner[axis] = offsets[axis] + (far ? sizes[axis] : 0);
      if (far) here = -here;
    }
    corners.emplace_back(corner, here);
  }
}

}  // namespace

std::map<std::string, DistributedTensor> read_distributed_metadata(std::span<const std::byte> bytes,
                                                                   const std::string& path) {
  return DistributedMetadata(bytes, path).tensors();
}

bool covers_whole(const DistributedTensor& tensor) {
  if (tensor.shape.size() > kCoveredAxes) return false;
  std::vector<std::pair<Corner, int>> corners;
  corners.reserve((tensor.chunks.size() + 1) << tensor.shape.size());
  for (const DistributedChunk& chunk : tensor.chunks) add_corners(chunk.offsets, chunk.sizes, 1, corners);
  add_corners(Sizes(tensor.shape.size(), 0), tensor.shape, -1, corners);
  std::sort(corners.begin(), corners.end());
  for (std::size_t i = 0; i < corners.size();) {
    std::int64_t sum = 0;
    const Corner& here = corners[i].first;
    for (; i < corners.size() && corners[i].first == here; ++i) sum += corners[i].second;
    if (sum != 0) return false;
  }
  return true;
}

}  // namespace plumbline
