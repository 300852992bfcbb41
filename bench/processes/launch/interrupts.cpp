// Signal handlers of the matrix runner.
#include "bench/processes/launch/interrupts.hpp"

#include <signal.h>

#include <array>

namespace plumbline {
namespace {

volatile sig_atomic_t stop_requested = 0;
constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
std::array<struct sigaction, kSignals.size()> previous;

void request_stop(int signal) {
  stop_requested = 1;
  if (signal == SIGINT) {
    struct sigaction fallback {};
    fallback.sa_handler = SIG_DFL;
    sigaction(SIGINT, &fallback, nullptr);
  }
}

}  // namespace

Interrupts::Interrupts() {
  stop_requested = 0;
  struct sigaction handler {};
  handler.sa_handler = request_stop;  // without SA_RESTART: a wait ends at once
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], &handler, &previous[i]);
    // nohup: the terminal may go
    if (kSignals[i] == SIGHUP && previous[i].sa_handler == SIG_IGN) sigaction(SIGHUP, &previous[i], nullptr);
  }
}

Interrupts::~Interrupts() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &previous[i], nullptr);
}

bool Interrupts::requested() {
  return stop_requested != 0;
}

}  // namespace plumbline
