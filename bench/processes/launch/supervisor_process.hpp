// The supervisor of a launch as a child process, and the pipes to it.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <utility>

#include "bench/processes/launch/launch_spec.hpp"

namespace plumbline {

/// An open file, closed with its owner.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { reset(); }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

struct Pipe {
  Descriptor read;
  Descriptor write;
};

/// From and to the supervisor and its ranks.
struct Streams {
  Pipe control;
  Pipe result;
  Pipe output;
  Pipe error;
};

/// Throws Error when the system has no more descriptors.
Streams make_streams();
/// Starts the supervisor in a session of its own. Throws Error when it cannot be started.
pid_t spawn_supervisor(const LaunchSpec& spec, const Streams& streams);

}  // namespace plumbline
