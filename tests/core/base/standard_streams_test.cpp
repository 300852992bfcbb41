// Closed, full or broken streams: nothing ends by a signal, nothing lands in a file, no printed text is lost
// silently. Each case in a process of its own, which ends with the number of failures.
#include "core/base/standard_streams.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <functional>
#include <string>

#include "core/base/error.hpp"

namespace plumbline::standard_streams_test {
namespace {

/// The exit code of a process that does this; 1000 + signal when one ended it.
int in_a_process(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) _exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

/// 0 when nothing is thrown, 1 for an Error with `why`, else 2.
int finish(const char* why) {
  try {
    finish_standard_output();
    return 0;
  } catch (const Error& error) {
    return std::string(error.what()).find(why) != std::string::npos ? 1 : 2;
  }
}

void send_to(int descriptor, const char* path) {
  const int file = ::open(path, O_WRONLY);
  if (file < 0 || ::dup2(file, descriptor) < 0) _exit(99);
}

int write_end_of_nobody() {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) _exit(99);
  ::close(ends[0]);
  return ends[1];
}

TEST(StandardStreams, AClosedOneDoesNotBecomeAFile) {
  for (int which = 1; which < 8; ++which) {
    const int code = in_a_process([&] {
      for (const int descriptor : {0, 1, 2}) {
        if ((which >> descriptor & 1) != 0) ::close(descriptor);
      }
      prepare_standard_streams();
      const int file = ::open("/dev/null", O_RDONLY);
      return file > 2 && ::write(2, "", 0) == 0 ? 0 : 1;
    });
    EXPECT_EQ(code, 0) << which;
  }
}

TEST(StandardStreams, WhatNobodyReadsIsDropped) {
  EXPECT_EQ(in_a_process([] {
              prepare_standard_streams();
              ::dup2(write_end_of_nobody(), STDERR_FILENO);
              say("into nothing\n");
              send_to(STDERR_FILENO, "/dev/full");
              say("into nothing\n");
              say("nowhere\n", nullptr);
              return std::ferror(stderr);
            }),
            0);
}

TEST(StandardStreams, AFileThatIsTooLargeIsAnErrorAndNoSignal) {
  EXPECT_EQ(in_a_process([] {
              prepare_standard_streams();
              char name[] = "/tmp/plumbline_streams_XXXXXX";
              const int file = ::mkstemp(name);
              ::unlink(name);
              const struct rlimit none {};
              ::setrlimit(RLIMIT_FSIZE, &none);
              return ::write(file, "x", 1) == -1 && errno == EFBIG ? 0 : 1;
            }),
            0);
}

TEST(StandardStreams, OutputThatIsNotThereIsAnError) {
  const auto print_to = [](const char* path, bool flushed_before) {
    return in_a_process([&] {
      prepare_standard_streams();
      send_to(STDOUT_FILENO, path);
      std::fputs("text", stdout);
      if (flushed_before) std::fflush(stdout);
      return finish(flushed_before ? "standard output: cannot be written" : "No space left on device");
    });
  };
  EXPECT_EQ(print_to("/dev/null", false), 0);
  EXPECT_EQ(print_to("/dev/full", false), 1);
  EXPECT_EQ(print_to("/dev/full", true), 1);
}

TEST(StandardStreams, AReaderWhoHasHadEnoughIsNone) {
  EXPECT_EQ(in_a_process([] {
              prepare_standard_streams();
              ::dup2(write_end_of_nobody(), STDOUT_FILENO);
              std::fputs("text", stdout);
              return finish("");
            }),
            0);
}

}  // namespace
}  // namespace plumbline::standard_streams_test
