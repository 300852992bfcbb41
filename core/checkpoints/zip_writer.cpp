#include "core/checkpoints/zip_writer.hpp"

#include <fmt/format.h>
#include <minizip/zip.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/error.hpp"

namespace plumbline {

struct ZipWriter::State {
  int descriptor = -1;
  std::string path;
  std::uint64_t at = 0;
  std::uint64_t length = 0;
  int error = 0;
  zipFile zip = nullptr;
};

namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint64_t kLocalHeader = 30;
constexpr std::uint64_t kZip64Field = 20;  // of sizes from 4 GiB on, behind the other extra fields
constexpr std::int64_t kFirstZip64Size = 0xffffffff;
constexpr std::size_t kMostAtOnce = std::size_t{64} << 20;

template <class State>
uLong write_file(State& state, const void* from, uLong bytes) {
  const char* next = static_cast<const char*>(from);
  uLong left = bytes;
  while (left > 0) {
    const ssize_t written = ::pwrite(state.descriptor, next, left, static_cast<off_t>(state.at));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      state.error = written == 0 ? ENOSPC : errno;
      return bytes - left;
    }
    next += written;
    left -= static_cast<uLong>(written);
    state.at += static_cast<std::uint64_t>(written);
    state.length = std::max(state.length, state.at);
  }
  return bytes;
}

template <class State>
uLong read_file(State& state, void* to, uLong bytes) {
  const ssize_t count = ::pread(state.descriptor, to, bytes, static_cast<off_t>(state.at));
  if (count < 0) return 0;
  state.at += static_cast<std::uint64_t>(count);
  return static_cast<uLong>(count);
}

template <class State>
long seek_file(State& state, ZPOS64_T offset, int origin) {
  const std::uint64_t base = origin == ZLIB_FILEFUNC_SEEK_SET   ? 0
                             : origin == ZLIB_FILEFUNC_SEEK_CUR ? state.at
                                                                : state.length;
  state.at = base + offset;
  return 0;
}

template <class State>
zlib_filefunc64_def file_functions(State& state) {
  zlib_filefunc64_def functions = {};
  functions.zopen64_file = [](void* opaque, const void*, int) { return opaque; };
  functions.zread_file = [](void* opaque, void*, void* to, uLong bytes) {
    return read_file(*static_cast<State*>(opaque), to, bytes);
  };
  functions.zwrite_file = [](void* opaque, void*, const void* from, uLong bytes) {
    return write_file(*static_cast<State*>(opaque), from, bytes);
  };
  functions.ztell64_file = [](void* opaque, void*) -> ZPOS64_T { return static_cast<State*>(opaque)->at; };
  functions.zseek64_file = [](void* opaque, void*, ZPOS64_T offset, int origin) {
    return seek_file(*static_cast<State*>(opaque), offset, origin);
  };
  functions.zclose_file = [](void*, void*) { return 0; };
  functions.zerror_file = [](void* opaque, void*) { return static_cast<State*>(opaque)->error; };
  functions.opaque = &state;
  return functions;
}

}  // namespace

ZipWriter::ZipWriter(int descriptor, std::string path) : state_(std::make_unique<State>()) {
  state_->descriptor = descriptor;
  state_->path = std::move(path);
  zlib_filefunc64_def functions = file_functions(*state_);
  state_->zip = zipOpen2_64("", APPEND_STATUS_CREATE, nullptr, &functions);
  check(state_->zip == nullptr ? ZIP_ERRNO : ZIP_OK, "begun");
}

ZipWriter::~ZipWriter() {
  if (state_->zip != nullptr) zipClose(state_->zip, nullptr);  // its memory; the file is thrown away
}

void ZipWriter::check(int status, const char* what) const {
  if (status == ZIP_OK && state_->error == 0) return;
  throw Error(
      fmt::format("{}: cannot be {}: {}", state_->path, what,
                  state_->error != 0 ? std::strerror(state_->error) : fmt::format("zip error {}", status)));
}

void ZipWriter::begin(const std::string& name, std::int64_t bytes) {
  const bool large = bytes >= kFirstZip64Size;
  // Padding as torch writes it: a field "FB" of the local header.
  const std::uint64_t bare = state_->at + kLocalHeader + name.size() + 4 + (large ? kZip64Field : 0);
  std::string padding("FB\0\0", 4);
  padding.append((kAlignment - bare % kAlignment) % kAlignment, 'Z');
  padding[2] = static_cast<char>(padding.size() - 4);
  zip_fileinfo info = {};
  info.dosDate = (1U << 21) | (1U << 16);  // the first day that a zip can name: the same bytes on every run
  check(zipOpenNewFileInZip4_64(state_->zip, name.c_str(), &info, padding.data(),
                                static_cast<uInt>(padding.size()), nullptr, 0, nullptr, 0, 0, 0, -MAX_WBITS,
                                DEF_MEM_LEVEL, Z_DEFAULT_STRATEGY, nullptr, 0, 0, 0, large ? 1 : 0),
        "written");
}

void ZipWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::span<const std::byte> some = bytes.first(std::min(bytes.size(), kMostAtOnce));
    check(zipWriteInFileInZip(state_->zip, some.data(), static_cast<unsigned>(some.size())), "written");
    bytes = bytes.subspan(some.size());
  }
}

void ZipWriter::end() {
  check(zipCloseFileInZip(state_->zip), "written");
}

void ZipWriter::add(const std::string& name, std::string_view bytes) {
  begin(name, static_cast<std::int64_t>(bytes.size()));
  write(std::as_bytes(std::span(bytes)));
  end();
}

void ZipWriter::finish() {
  const int status = zipClose(std::exchange(state_->zip, nullptr), nullptr);
  check(status, "finished");
}

}  // namespace plumbline
