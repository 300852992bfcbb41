// Hostile scripts in the sandbox of --run-script: nothing outside is changed, and no process is left.
// PLUMBLINE_HOSTILE_SCRIPTS="100 7" draws 100 scripts with seed 7.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <string_view>

#include "core/launch_files/sandbox/sandbox.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/temporary_folder.hpp"

namespace plumbline::hostile_scripts_test {
namespace {

namespace fs = std::filesystem;
constexpr double kSeconds = 0.7;

struct Hostile {
  const char* name;
  const char* script;
};

/// $OUT: a folder outside, with the file `canary`. $VICTIM: a process outside. $PARENT: the test's process.
/// $PORT: a listening port. $M: a mark in the names of what they leave.
constexpr Hostile kHostile[] = {
    {"fork bomb", ":(){ :|:& }; :"},
    {"slow fork bomb", "while :; do (exec -a $M tail -f /dev/null) & done"},
    {"delete everything", "rm -rf --no-preserve-root / $OUT ~ . .. ./*"},
    {"delete outside", "rm -rf $OUT; rm -f $OUT/canary; rmdir $OUT"},
    {"write outside", "echo x > $OUT/canary; echo x >> $OUT/canary; : > $OUT/$M; cp /bin/true $OUT/$M"},
    {"write beside itself", "echo x > $0; echo x > data; touch data; mv data $M; chmod 777 data; ln data $M"},
    {"write in system folders",
     "for d in / /etc /usr /usr/bin /root /home /var/tmp /run /opt /dev /dev/shm /boot; do "
     "mkdir -p $d 2>/dev/null; echo x > $d/$M; done; echo x >> /etc/passwd"},
    {"write in temporary folders", "for d in /tmp /var/tmp /dev/shm ~; do mkdir -p $d; echo x > $d/$M; done"},
    {"write to programs", "cp /bin/true /usr/bin/$M; echo x > /bin/bash; echo x > /plumbline/stub"},
    {"symbolic links",
     "ln -s $OUT/canary l; echo x > l; cd /tmp; ln -s $OUT o; echo x > o/canary; rm -rf o/"},
    {"link of the folder", "echo x > out_link/canary; rm -rf out_link/; echo x > out_link/$M"},
    {"hard links", "ln $OUT/canary /tmp/h; ln data /tmp/h; echo x > /tmp/h"},
    {"attributes", "chmod -R 000 . $OUT; chown -R 1 . $OUT; touch -d 1999-01-01 data $OUT/canary"},
    {"truncate", "truncate -s 0 data $OUT/canary; : >| data; dd if=/dev/zero of=data count=1"},
    {"network", "exec 5<>/dev/tcp/127.0.0.1/$PORT && echo x >&5; echo x > /dev/udp/127.0.0.1/$PORT"},
    {"network of perl",
     "perl -MSocket -e 'socket(S,PF_INET,SOCK_STREAM,0); connect(S,sockaddr_in($ENV{PORT},"
     "inet_aton(\"127.0.0.1\"))); print S 1'"},
    {"kill the parent", "kill -9 $PPID; kill -9 $PARENT; kill -9 0; kill -9 -1"},
    {"kill others", "kill -9 $VICTIM; kill -STOP $VICTIM; for ((i = 1; i < 5000; ++i)); do kill -9 $i; done"},
    {"kill the first process", "kill -9 1; kill -STOP 1; kill -TERM 1; kill -SEGV 1"},
    {"endless loop", "while :; do :; done"},
    {"endless loop that ignores signals", "trap '' HUP INT TERM QUIT XCPU; while :; do :; done"},
    {"endless wait", "exec -a $M tail -f /dev/null"},
    {"endless recursion", "f() { f \"$1$1x\"; }; f x"},
    {"daemon by setsid", "setsid bash -c 'trap \"\" HUP TERM; exec -a $M tail -f /dev/null' &"},
    {"daemon by nohup", "nohup bash -c 'exec -a $M tail -f /dev/null' & disown -a"},
    {"daemon forked twice", "(setsid bash -c '(setsid tail -f /dev/null $M &) &' &) &"},
    {"daemon that forks on", "f() { setsid bash -c \"$(declare -f f); tail -f /dev/null & f\" & }; f; exit"},
    {"daemon with an empty environment", "env -i setsid /usr/bin/tail -f /dev/null $M & exit 0"},
    {"memory hog", "head -c 4G /dev/zero | tail"},
    {"memory hog of bash", "a=x; while :; do a=$a$a; done"},
    {"memory hog of many", "for i in {1..20}; do perl -e '$a = \"x\" x 400000000; sleep 9' & done; wait"},
    {"memory that is shared",
     "perl -e 'open F, \"+>\", undef; for (1..60) { syscall(9, 0, 1 << 28, 3, 0x21, -1, 0) }'"},
    {"memory files",
     "for i in {1..99}; do perl -e '$f = syscall(319, \"x\", 0); open F, \">&=$f\"; print F \"x\" x "
     "100000000; sleep 9' & done; wait"},
    {"huge output", "yes"},
    {"huge complaints", "yes >&2"},
    {"huge files", "dd if=/dev/zero of=/tmp/$M bs=1M count=100000; yes > ~/$M & yes > /tmp/x"},
    {"many files", "for ((i = 0; ; ++i)); do : > /tmp/$i; done"},
    {"huge commands", "a=$(printf %01000d 1); while :; do torchrun $a $a $a $a $a; done"},
    {"false record",
     "echo garbage > /plumbline/record/commands; head -c 2M /dev/urandom >> "
     "/plumbline/record/commands; torchrun x"},
    {"record replaced", "rm -rf /plumbline; ln -sf $OUT/canary /plumbline/record/commands; torchrun x"},
    {"record is a device", "rm /plumbline/record/commands; ln -s /dev/zero /plumbline/record/commands"},
    {"record is a pipe", "rm /plumbline/record/commands; mkfifo /plumbline/record/commands"},
    {"trace others",
     "gdb -p $VICTIM -batch -ex kill; strace -p $VICTIM; perl -e 'syscall(101, 16, $ENV{VICTIM}, 0, 0)'"},
    {"trace the first process", "perl -e 'print STDERR syscall(101, 16, 1, 0, 0)'; gdb -p 1 -batch -ex kill"},
    {"memory of others",
     "echo x > /proc/$VICTIM/mem; echo x > /proc/1/mem; perl -e 'syscall(311, 1, 0, 0, 0, 0, 0)'"},
    {"kernel's settings",
     "echo '|/bin/true' > /proc/sys/kernel/core_pattern; echo 301 > /proc/sys/kernel/pid_max; "
     "echo x > /proc/sys/kernel/hostname; echo 0 > /proc/sys/vm/overcommit_memory"},
    {"kernel's triggers",
     "echo b > /proc/sysrq-trigger; echo 1 > /proc/sys/vm/drop_caches; echo 0 > /proc/1/oom_score_adj"},
    {"other roots",
     "cd /proc/1/root && echo x > tmp/$M; echo x > /proc/1/cwd/$M; ls /proc/1/fd && echo x > /proc/1/fd/3"},
    {"mounts",
     "mount -o remount,rw /; mount -o remount,bind,rw .; mount -t tmpfs x /usr; umount -l /usr; umount -l ."},
    {"namespaces",
     "unshare -Urm bash -c 'mount -o remount,rw,bind .; echo x > data'; nsenter -t 1 -m touch $OUT/canary"},
    {"namespaces of perl",
     "perl -e 'syscall(272, 0x10000000); syscall(56, 0x10000011, 0, 0, 0, 0); syscall(435, 0, 0); "
     "syscall(308, 0, 0)'; echo x > data"},
    {"root folder",
     "chroot / bash -c 'echo x > data'; perl -e 'syscall(161, \"..\"); chdir(\"../../../..\"); "
     "open F, \">\", \"$ENV{OUT}/canary\"'"},
    {"devices",
     "mknod /tmp/d b 8 0; mknod /tmp/m c 1 1; echo x > /tmp/m; echo x > /dev/mem; echo x > /dev/sda; "
     "echo x > /dev/vda; echo x > /dev/tty"},
    {"file descriptors", "for ((i = 3; i < 256; ++i)); do echo x >&$i; echo x > /proc/self/fd/$i; done"},
    {"file descriptors of the shell",
     "echo x > /dev/stdin; echo x > /proc/self/fd/0; read x < /dev/stdin; exec 2> data"},
    {"other users",
     "sudo -n touch $OUT/canary; su -c 'touch $OUT/canary'; newgrp root; chmod u+s /tmp; passwd -d root"},
    {"host name", "hostname $M; perl -e 'syscall(170, \"x\", 1)'; sysctl -w kernel.hostname=x"},
    {"priorities",
     "renice -n -20 $VICTIM; renice -n -20 -p $$; ionice -c1 -p $VICTIM; taskset -p 1 $VICTIM; ulimit -u "
     "unlimited; ulimit -v unlimited; prlimit --pid $VICTIM --nofile=3"},
    {"shared memory", "ipcmk -M 100000000; perl -e 'shmget(1234, 1 << 28, 01666)'; ipcrm -a"},
    {"stubs as code",
     "export PLUMBLINE_NAME='$(touch data)'; torchrun '$(touch data)' '`touch data`' $'a\\nb' ';touch data'"},
    {"functions for the stub",
     "printf() { echo x > data; }; export -f printf; mapfile() { :; }; export -f mapfile; "
     "torchrun x; BASH_ENV=$0 torchrun x"},
    {"jobs of others",
     "echo 'touch data' | at now; (crontab -l; echo '* * * * * touch data') | crontab -; "
     "systemd-run touch $OUT/canary; loginctl enable-linger"},
    {"calls with another numbering",
     "perl -e 'syscall(0x40000000 | 39); syscall(41, 2, 1, 0)'; echo x > data"},
};

class HostileScripts : public testing::Test {
 protected:
  void SetUp() override {
    project_.write("data", "data\n");
    outside_.write("canary", "canary\n");
    fs::create_directory_symlink(outside_.folder_, project_.folder_ / "out_link");
    const SandboxRun run = run_in_sandbox({project_.write("x.sh", "python x\n"), project_.folder_.string()});
    if (!run.unavailable.empty()) GTEST_SKIP() << "no sandbox on this machine: " << run.unavailable;
    ASSERT_EQ(run.commands.size(), 1u) << run.complaint;
    victim_ = fork();
    if (victim_ == 0) {
      for (;;) pause();
    }
    listen_on_some_port();
    kept_open_ = open(outside_.at("canary").c_str(), O_RDWR);  // as a program that forgets to close its files
  }
  void TearDown() override {
    if (victim_ > 0) {
      kill(victim_, SIGKILL);
      waitpid(victim_, nullptr, 0);
    }
    close(listening_);
    close(kept_open_);
  }

  /// Runs a script and compares what it could have changed.
  void attack(const std::string& name, const std::string& script) {
    SCOPED_TRACE(name + ": " + script);
    SandboxJob job{project_.write("x.sh", script), project_.folder_.string()};
    job.environment = {{"OUT", outside_.folder_.string()},
                       {"VICTIM", std::to_string(victim_)},
                       {"PARENT", std::to_string(getpid())},
                       {"PORT", std::to_string(port_)},
                       {"M", mark_}};
    job.seconds = name.starts_with("daemon") ? 2 : kSeconds;  // they are ended with the script
    const std::string before = state();
    const auto begin = std::chrono::steady_clock::now();
    const SandboxRun run = run_in_sandbox(job);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(run.unavailable, "");
    EXPECT_EQ(state(), before);
    EXPECT_LT(took.count(), job.seconds + 5);
    if (std::getenv("PLUMBLINE_HOSTILE_SHOWN") != nullptr)
      fmt::print("{}: {:.2f} s, limit \"{}\", status {}, {} commands, {}\n", name, took.count(), run.limit,
                 run.status, run.commands.size(), run.complaint);
  }

 private:
  void listen_on_some_port() {
    listening_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ASSERT_EQ(bind(listening_, reinterpret_cast<sockaddr*>(&address), size), 0);
    ASSERT_EQ(listen(listening_, 5), 0);
    ASSERT_EQ(getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }

  static void add_tree(const fs::path& folder, std::string& text) {
    for (const fs::directory_entry& each : fs::recursive_directory_iterator(folder)) {
      const auto time = each.is_symlink() ? fs::file_time_type() : each.last_write_time();
      const int rights = each.is_symlink() ? 0 : static_cast<int>(each.status().permissions());
      std::ostringstream content;
      if (each.is_regular_file()) content << std::ifstream(each.path()).rdbuf();
      text += fmt::format("{} {} {:o} {}\n", each.path().string(), time.time_since_epoch().count(), rights,
                          content.str());
    }
  }
  static std::string first_line(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
  }

  /// Files, marked files and processes, the kernel's settings, the victim, the connections.
  std::string state() const {
    std::string text;
    add_tree(project_.folder_, text);
    add_tree(outside_.folder_, text);
    std::error_code ignored;
    const char* const home = std::getenv("HOME");
    for (const char* const folder :
         {"/", "/etc", "/usr", "/usr/bin", "/root", "/home", "/tmp", "/var/tmp", "/run", "/opt", "/dev",
          "/dev/shm", "/boot", home == nullptr ? "/" : home})
      if (fs::exists(fs::path(folder) / mark_, ignored)) text += fmt::format("marked in {}\n", folder);
    for (const fs::directory_entry& each : fs::directory_iterator("/proc", ignored)) {
      const std::string process = each.path().filename().string();
      if (process.find_first_not_of("0123456789") != std::string::npos || process == std::to_string(getpid()))
        continue;
      for (const char* const file : {"cmdline", "environ"}) {
        std::ostringstream content;
        content << std::ifstream(each.path() / file).rdbuf();
        if (content.str().find(mark_) != std::string::npos) text += "marked process\n";
      }
    }
    for (const char* const name :
         {"kernel/core_pattern", "kernel/hostname", "kernel/pid_max", "vm/overcommit_memory"})
      text += first_line(fmt::format("/proc/sys/{}", name)) + "\n";
    std::ifstream status(fmt::format("/proc/{}/stat", victim_));
    std::string number, program, running;
    status >> number >> program >> running;
    text += fmt::format("victim {} {}\n", program, running == "R" ? "S" : running);  // awake or asleep
    pollfd waiting{listening_, POLLIN, 0};
    text += fmt::format("connections {}\n", poll(&waiting, 1, 0));
    return text;
  }

  test::TemporaryFolder project_;
  test::TemporaryFolder outside_;
  pid_t victim_ = -1;
  int listening_ = -1;
  int kept_open_ = -1;
  /// In the environment, too, of what they start.
  const std::string mark_ = fmt::format("plumbline_hostile_{}", getpid());
  int port_ = 0;
};

TEST_F(HostileScripts, ChangeNothingAndLeaveNoProcess) {
  for (const Hostile& each : kHostile) attack(each.name, each.script);
}

/// Two scripts of the table, in forms that hide or multiply them.
std::string drawn(std::mt19937& random) {
  constexpr const char* kForms[] = {
      "{}\n",
      "( {} ) &\nwait",
      "setsid bash <<'EOT' &\n{}\nEOT\n",
      "nohup bash <<'EOT' >/dev/null 2>&1 &\n{}\nEOT\n",
      "trap '' HUP INT TERM; {}\n",
      "for round in 1 2 3; do {}\ndone &\n",
      "cat > /tmp/again.sh <<'EOT'\n{}\nEOT\nbash /tmp/again.sh & bash /tmp/again.sh",
      "trap 'bash /tmp/last.sh' EXIT\ncat > /tmp/last.sh <<'EOT'\n{}\nEOT\n",
      "torchrun x\n{}\n",
      "cd /; ulimit -c unlimited; {}\n"};
  const auto one_of = [&](std::size_t size) {
    return std::uniform_int_distribution<std::size_t>(0, size - 1)(random);
  };
  std::string script;
  for (int part = 0; part < 2; ++part) {
    const std::string form = kForms[one_of(std::size(kForms))];
    const std::size_t at = form.find("{}");
    script += form.substr(0, at) + kHostile[one_of(std::size(kHostile))].script + form.substr(at + 2) + "\n";
  }
  return script;
}

TEST_F(HostileScripts, DrawnOnesDoNotEither) {
  int scripts = 4;
  unsigned seed = 1;
  if (const char* const chosen = std::getenv("PLUMBLINE_HOSTILE_SCRIPTS"))
    std::istringstream(chosen) >> scripts >> seed;
  std::mt19937 random(seed);
  for (int each = 0; each < scripts; ++each) attack(fmt::format("drawn {}", each), drawn(random));
}

}  // namespace
}  // namespace plumbline::hostile_scripts_test
