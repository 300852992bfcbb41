// Ctrl-C as a request to stop after a clean end of the current work.
#pragma once

namespace plumbline {

/// While one lives, SIGINT, SIGTERM and SIGHUP set a flag instead of ending the process; a second SIGINT ends
/// it. SIGHUP stays ignored where it was (nohup).
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  static bool requested();
};

}  // namespace plumbline
