#include "core/base/standard_streams.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

/// True if `descriptor` is a pipe or socket whose reader has left.
bool reader_has_left(int descriptor) {
  pollfd watched{descriptor, POLLOUT, 0};
  return isatty(descriptor) == 0 && poll(&watched, 1, 0) == 1 && (watched.revents & POLLERR) != 0;
}

/// 0, or errno of closing: some file systems report a full disk only then.
int error_of_closing(int descriptor) {
  const int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
  return copy >= 0 && close(copy) != 0 && errno != EINTR ? errno : 0;
}

}  // namespace

void prepare_standard_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // The lowest free number is taken, and those below are in use. Without /dev/null anything will do.
    if (fcntl(descriptor, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0) (void)open("/", O_RDONLY);
  }
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, nullptr);
  sigaction(SIGXFSZ, &ignore, nullptr);
}

void say(std::string_view text, std::FILE* out) noexcept {
  if (out == nullptr) return;
  if (std::fwrite(text.data(), 1, text.size(), out) != text.size() || std::fflush(out) != 0) {
    std::clearerr(out);  // later words may be heard again
  }
}

void finish_standard_output(int known_error) {
  const bool lost = std::ferror(stdout) != 0;
  errno = 0;
  int error = std::fflush(stdout) == 0 ? known_error : errno;
  if (error == 0 && !lost) error = error_of_closing(STDOUT_FILENO);
  if ((error == 0 && !lost) || reader_has_left(STDOUT_FILENO)) return;
  throw Error(fmt::format("standard output: cannot be written{}{}; expected room for all that is printed",
                          error == 0 ? "" : ": ", error == 0 ? "" : std::strerror(error)));
}

}  // namespace plumbline
