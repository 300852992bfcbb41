// Limits of the processes of a sandbox.
#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/launch_files/sandbox/sandbox_inside.hpp"

namespace plumbline {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t kArchitecture = 0;  // every system call ends the process
#endif
constexpr std::uint32_t kOtherNumbering = 0x40000000;  // of x86-64's x32
constexpr std::uint32_t kNewNamespaces =
    CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;

/// System calls that fail: they reach other processes, the kernel's tables, the network, namespaces, or
/// memory that no process's size counts.
constexpr int kDenied[] = {SYS_ptrace,
                           SYS_process_vm_readv,
                           SYS_process_vm_writev,
                           SYS_kcmp,
                           SYS_mount,
                           SYS_umount2,
                           SYS_pivot_root,
                           SYS_chroot,
                           SYS_move_mount,
                           SYS_open_tree,
                           SYS_fsopen,
                           SYS_fsmount,
                           SYS_fsconfig,
                           SYS_fspick,
                           SYS_mount_setattr,
                           SYS_unshare,
                           SYS_setns,
                           SYS_socket,
                           SYS_socketpair,
                           SYS_keyctl,
                           SYS_add_key,
                           SYS_request_key,
                           SYS_bpf,
                           SYS_perf_event_open,
                           SYS_io_uring_setup,
                           SYS_userfaultfd,
                           SYS_memfd_create,
                           SYS_shmget,
                           SYS_msgget,
                           SYS_semget,
                           SYS_mq_open,
                           SYS_kexec_load,
                           SYS_reboot,
                           SYS_swapon,
                           SYS_swapoff,
                           SYS_init_module,
                           SYS_finit_module,
                           SYS_delete_module,
                           SYS_quotactl,
                           SYS_acct,
                           SYS_syslog,
                           SYS_name_to_handle_at,
                           SYS_open_by_handle_at,
                           SYS_personality,
                           SYS_fanotify_init,
                           SYS_settimeofday,
                           SYS_clock_settime,
                           SYS_adjtimex,
                           SYS_sethostname,
                           SYS_setdomainname,
                           SYS_vhangup,
                           SYS_pidfd_getfd,
                           447 /* memfd_secret */};

/// Returns the file on which this process asks for new processes.
int filter_calls() {
  const auto load = [](std::size_t offset) {
    return sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
  };
  const auto give = [](std::uint32_t what) { return sock_filter BPF_STMT(BPF_RET | BPF_K, what); };
  const auto refuse = [&](int error) { return give(SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error)); };
  // Takes the next statement if the test holds, else goes behind it.
  const auto unless = [](unsigned test, std::uint32_t value) {
    return sock_filter BPF_JUMP(static_cast<std::uint16_t>(BPF_JMP | test | BPF_K), value, 0, 1);
  };
  std::vector<sock_filter> program{load(offsetof(seccomp_data, arch)),
                                   sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0),
                                   give(SECCOMP_RET_KILL_PROCESS),
                                   load(offsetof(seccomp_data, nr)),
                                   unless(BPF_JGE, kOtherNumbering),
                                   give(SECCOMP_RET_KILL_PROCESS),
                                   unless(BPF_JEQ, SYS_clone3),
                                   refuse(ENOSYS)};
  for (const int call : kDenied) {
    program.push_back(unless(BPF_JEQ, static_cast<std::uint32_t>(call)));
    program.push_back(refuse(EPERM));
  }
  program.push_back(sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4));
  program.push_back(load(offsetof(seccomp_data, args)));  // flags, their lower half
  program.push_back(unless(BPF_JSET, kNewNamespaces));
  program.push_back(refuse(EPERM));
  program.push_back(give(SECCOMP_RET_USER_NOTIF));
#if defined(__x86_64__)
  for (const int call : {SYS_fork, SYS_vfork}) {
    program.push_back(unless(BPF_JEQ, static_cast<std::uint32_t>(call)));
    program.push_back(give(SECCOMP_RET_USER_NOTIF));
  }
#endif
  program.push_back(give(SECCOMP_RET_ALLOW));
  const sock_fprog whole{static_cast<unsigned short>(program.size()), program.data()};
  const long listener =
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &whole);
  require_call(listener, "seccomp");
  return static_cast<int>(listener);
}

void limit(__rlimit_resource what, rlim_t most) {
  const rlimit wanted{most, most};
  require_call(setrlimit(what, &wanted), "setrlimit");
}

}  // namespace

int confine_process() {
  limit(RLIMIT_CPU, 10);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, rlim_t{16} << 20);
  limit(RLIMIT_NOFILE, 256);
  limit(RLIMIT_MEMLOCK, 0);
  for (int each = 0; prctl(PR_CAPBSET_DROP, each) == 0; ++each) {
  }
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[2] = {};
  require_call(syscall(SYS_capset, &header, none), "capset");
  require_call(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges");
  const int listener = filter_calls();
  limit(RLIMIT_AS, static_cast<rlim_t>(kSandboxBytes));  // last: nothing is allocated from here on
  return listener;
}

}  // namespace plumbline
