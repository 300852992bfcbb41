#include "core/checkpoints/zip_archive.hpp"

#include <fmt/format.h>
#include <minizip/unzip.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"

namespace plumbline {
namespace {

constexpr std::uint64_t kMostEntries = std::uint64_t{1} << 20;
constexpr std::size_t kLongestEntryName = 1000;
constexpr std::size_t kLongestZipPath = 400;

/// minizip's position in the mapped file.
struct ZipReading {
  std::span<const std::byte> file;
  std::uint64_t at = 0;
};

void* open_reading(void* opaque, const void* /*name*/, int /*mode*/) {
  return opaque;
}
uLong read_some(void* opaque, void* /*stream*/, void* to, uLong bytes) {
  auto& reading = *static_cast<ZipReading*>(opaque);
  if (reading.at >= reading.file.size()) return 0;
  const std::size_t count = std::min<std::size_t>(bytes, reading.file.size() - reading.at);
  std::memcpy(to, reading.file.data() + reading.at, count);
  reading.at += count;
  return count;
}
ZPOS64_T tell_reading(void* opaque, void* /*stream*/) {
  return static_cast<ZipReading*>(opaque)->at;
}
long seek_reading(void* opaque, void* /*stream*/, ZPOS64_T offset, int origin) {
  auto& reading = *static_cast<ZipReading*>(opaque);
  const std::uint64_t size = reading.file.size();
  const std::uint64_t base = origin == ZLIB_FILEFUNC_SEEK_SET   ? 0
                             : origin == ZLIB_FILEFUNC_SEEK_CUR ? reading.at
                                                                : size;
  if (base > size || offset > size - base) return -1;
  reading.at = base + offset;
  return 0;
}
int close_reading(void* /*opaque*/, void* /*stream*/) {
  return 0;
}
int no_error(void* /*opaque*/, void* /*stream*/) {
  return 0;
}

struct CloseZip {
  void operator()(void* zip) const { unzClose(zip); }
};

/// Neither an absolute path nor one that climbs.
bool leads_out(std::string_view name) {
  if (name.empty() || name.front() == '/' || name.find('\\') != std::string_view::npos ||
      name.find('\0') != std::string_view::npos) {
    return true;
  }
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('/', at), name.size());
    if (name.substr(at, end - at) == "..") return true;
    at = end + 1;
  }
  return false;
}

class ZipDirectory {
 public:
  ZipDirectory(std::span<const std::byte> file, const std::string& path)
      : path_(printable(path, kLongestZipPath)), reading_{file, 0} {
    zlib_filefunc64_def functions = {};
    functions.zopen64_file = open_reading;
    functions.zread_file = read_some;
    functions.ztell64_file = tell_reading;
    functions.zseek64_file = seek_reading;
    functions.zclose_file = close_reading;
    functions.zerror_file = no_error;
    functions.opaque = &reading_;
    zip_.reset(unzOpen2_64("", &functions));
    if (!zip_) fail("no zip archive, or truncated: its directory is missing");
  }

  std::vector<ZipEntry> entries() {
    unz_global_info64 info = {};
    if (unzGetGlobalInfo64(zip_.get(), &info) != UNZ_OK || info.number_entry > kMostEntries) {
      fail(fmt::format("a zip archive of {} entries, expected at most {}", info.number_entry, kMostEntries));
    }
    std::vector<ZipEntry> found;
    std::set<std::string_view> names;
    int status = info.number_entry == 0 ? UNZ_END_OF_LIST_OF_FILE : unzGoToFirstFile(zip_.get());
    for (; status == UNZ_OK; status = unzGoToNextFile(zip_.get())) {
      if (found.size() == info.number_entry) fail("more entries in its directory than the directory says");
      found.push_back(entry());
    }
    if (status != UNZ_END_OF_LIST_OF_FILE || found.size() != info.number_entry)
      fail("its directory is damaged");
    for (const ZipEntry& each : found) {
      if (!names.insert(each.name).second) refuse(each.name, "there twice");
    }
    refuse_overlaps(found);
    return found;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(fmt::format("{}: {}; expected a file of torch.save", path_, what));
  }
  [[noreturn]] void refuse(const std::string& entry, const std::string& what) const {
    throw InputError(fmt::format("{}: entry \"{}\": {}", path_, printable(entry), what));
  }

  ZipEntry entry() {
    unz_file_info64 info = {};
    std::string name(kLongestEntryName, '\0');
    if (unzGetCurrentFileInfo64(zip_.get(), &info, name.data(), name.size(), nullptr, 0, nullptr, 0) !=
        UNZ_OK) {
      fail("its directory is damaged");
    }
    if (info.size_filename == 0 || info.size_filename >= name.size())
      fail("an entry whose name is empty or too long");
    name.resize(info.size_filename);
    if (leads_out(name)) refuse(name, "a name that leads out of the archive");
    if ((info.flag & 1U) != 0) refuse(name, "encrypted; expected stored bytes");
    if (info.compression_method != 0 || info.compressed_size != info.uncompressed_size) {
      refuse(name, fmt::format("compressed ({} bytes from {}); expected stored bytes, as torch.save writes",
                               info.uncompressed_size, info.compressed_size));
    }
    if (unzOpenCurrentFile2(zip_.get(), nullptr, nullptr, 1) != UNZ_OK)
      refuse(name, "its header is damaged or truncated");
    const std::uint64_t begin = unzGetCurrentFileZStreamPos64(zip_.get());
    unzCloseCurrentFile(zip_.get());
    const std::uint64_t size = reading_.file.size();
    if (begin > size || info.uncompressed_size > size - begin) {
      refuse(name, fmt::format("{} bytes from byte {} of a file of {}: truncated", info.uncompressed_size,
                               begin, size));
    }
    return {std::move(name), reading_.file.subspan(begin, info.uncompressed_size)};
  }

  void refuse_overlaps(const std::vector<ZipEntry>& entries) const {
    std::vector<const ZipEntry*> by_place;
    by_place.reserve(entries.size());
    for (const ZipEntry& each : entries) {
      if (!each.bytes.empty()) by_place.push_back(&each);
    }
    std::sort(by_place.begin(), by_place.end(),
              [](const ZipEntry* a, const ZipEntry* b) { return a->bytes.data() < b->bytes.data(); });
    for (std::size_t i = 1; i < by_place.size(); ++i) {
      const std::span<const std::byte> before = by_place[i - 1]->bytes;
      if (before.data() + before.size() > by_place[i]->bytes.data())
        refuse(by_place[i]->name, fmt::format("overlaps \"{}\"", printable(by_place[i - 1]->name)));
    }
  }

  std::string path_;
  ZipReading reading_;
  std::unique_ptr<void, CloseZip> zip_;
};

}  // namespace

std::vector<ZipEntry> read_zip(std::span<const std::byte> file, const std::string& path) {
  return ZipDirectory(file, path).entries();
}

}  // namespace plumbline
