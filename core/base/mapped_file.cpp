#include "core/base/mapped_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {

void forget_pages(std::span<const std::byte> mapped) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::size_t>(mapped.data());
  const std::size_t begin =
      (address + page - 1) / page * page;  // whole pages: the others may be shared with neighbours
  const std::size_t end = (address + mapped.size()) / page * page;
  if (begin < end)
    ::madvise(const_cast<std::byte*>(mapped.data()) + (begin - address), end - begin, MADV_DONTNEED);
}

MappedFile::MappedFile(const std::string& path) {
  const auto fail = [&](const char* what) {
    throw InputError(fmt::format("{}: {}; expected a readable file", printable(path, 400), what));
  };
  // O_NONBLOCK: opening a pipe must not wait for its writer.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) fail(std::strerror(errno));
  struct stat info = {};
  const bool regular = ::fstat(file, &info) == 0 && S_ISREG(info.st_mode);
  void* data = nullptr;
  if (regular && info.st_size > 0) {
    data = ::mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ, MAP_PRIVATE, file, 0);
  }
  const int error = errno;
  ::close(file);
  if (!regular) fail("not a regular file");
  if (data == MAP_FAILED) fail(std::strerror(error));
  data_ = static_cast<const std::byte*>(data);
  size_ = static_cast<std::size_t>(info.st_size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace plumbline
