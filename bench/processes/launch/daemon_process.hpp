// A process that lives as long as its owner lets it: its standard input ends when the owner does.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace plumbline {

class DaemonProcess {
 public:
  /// Starts the command. Throws Error when no process can be made; a program that is not there ends with 127.
  explicit DaemonProcess(std::vector<std::string> command);
  /// Lets go of it and waits for its end.
  ~DaemonProcess();
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;

  /// Its exit code once it has ended (128 + signal for one that a signal ended), nothing before.
  std::optional<int> ended();
  /// Waits for its end and returns the same.
  int wait();
  /// Ends its standard input, upon which it is to end.
  void let_go();

 private:
  pid_t process_ = -1;
  int input_ = -1;
  std::optional<int> code_;
};

}  // namespace plumbline
