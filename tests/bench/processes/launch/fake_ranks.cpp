// A program for the tests of the launcher and the matrix runner: an MPI rank that behaves or fails as its
// arguments say, or (first argument "runner") a caller of launch().
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "bench/processes/launch/launch.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/backends/mpi/session.hpp"
#include "core/base/error.hpp"

namespace {

using namespace plumbline;

/// A process that tries to outlive everybody: a session of its own, no parent.
void leave_daemon() {
  if (fork() != 0) return;
  setsid();
  if (fork() != 0) _exit(0);
  for (int fd : {0, 1, 2}) close(fd);
  for (;;) pause();
}

int behave(const MpiSession& session, const std::string& mode, const std::string& argument) {
  const bool last = session.rank() == session.ranks() - 1;
  if (mode == "say") {
    std::printf("rank %d of %d\n", session.rank(), session.ranks());
    std::fprintf(stderr, "threads %s\n", std::getenv("OMP_NUM_THREADS"));
  } else if (mode == "write") {  // like a run: rank 0 writes its record to the given path
    if (session.rank() == 0) std::ofstream(std::getenv("PLUMBLINE_RECORD_OUT")) << argument;
  } else if (mode == "exit" && last) {
    std::exit(std::stoi(argument));
  } else if (mode == "throw" && last) {
    throw OutOfMemory("no room for 7 bytes");
  } else if (mode == "complain" && last) {
    throw Error(argument);
  } else if (mode == "abort" && last) {
    std::abort();
  } else if (mode == "segfault" && last) {
    std::raise(SIGSEGV);
  } else if (mode == "killed" && last) {
    std::raise(SIGKILL);
  } else if (mode == "chatter") {
    for (int i = 0; i < 20'000; ++i) std::printf("line %d of rank %d\n", i, session.rank());
  } else if (mode == "daemon") {
    leave_daemon();
  }
  if (mode == "steps") {  // of the given seconds each, and then it hangs
    for (int step = 1; step <= 4; ++step) {
      std::this_thread::sleep_for(std::chrono::duration<double>(std::stod(argument)));
      if (session.rank() == 0) std::fprintf(stderr, "step %d of 4\n", step);
    }
  }
  if (mode == "hang" || mode == "steps") {
    if (session.rank() == 0) std::fprintf(stderr, "about to hang\n");
    if (mode == "hang" && !argument.empty()) leave_daemon();
    for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  // The others wait for the one that failed, as ranks do.
  const MpiCommunicator communicator({session.ranks(), 1, 1});
  const_cast<MpiCommunicator&>(communicator).barrier(Group::world);
  return 0;
}

}  // namespace

#ifdef PLUMBLINE_SANITIZED
/// MPI keeps its allocations, and this program is about its signals.
extern "C" const char* __asan_default_options() {  // NOLINT: the sanitizer's name
  return "detect_leaks=0:handle_segv=0:handle_abort=0";
}
#endif

int main(int argc, char** argv) {
  if (const auto code = launch_entry(argc, argv)) return *code;
  const std::string mode = argc > 1 ? argv[1] : "";
  const std::string argument = argc > 2 ? argv[2] : "";
  if (mode == "runner") {
    LaunchSpec spec;
    spec.program = self_path();
    spec.ranks = 2;
    spec.arguments = {argv + 2, argv + argc};
    const LaunchResult result = launch(spec);
    std::printf("%s%s\n", result.standard_output.c_str(), result.reason().c_str());
    return result.ok() ? 0 : 1;
  }
  MpiSession session(argc, argv);
  return session.guard([&] { return behave(session, mode, argument); });
}
